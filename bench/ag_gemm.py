"""AllGather+GEMM on the GPUs of one host: plait beside what PyTorch offers, in one run.

    torchrun --nproc-per-node 2 bench/ag_gemm.py [--table] [--gemm] [--nodes 1|2] [--network ordered|unordered]

Correctness first: max error per tile against an fp32 product, outputs poisoned with NaN; check_ag_gemm.py checks more.
Timing: CUDA events around one call, the ranks aligned by a small all-reduce in front, L2 flushed, methods
rotated from iteration to iteration, the slowest rank of each iteration, median. M, K are global, N is per rank.
Prints JSON lines {shape, dtype, method, ms, max_error_over_tolerance} on rank 0 and a table at the end.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

import plait
from measure import Flush, error_over_tolerance, rotated


@plait.jit
def ag_gemm(a, b):
    return plait.all_gather(a, dim=0) @ b


@plait.jit
def gemm(a, b):
    return a @ b


def knobs_for(nodes, locals_, extra):
    knobs = {"intra_comm": "none" if locals_ == 1 else "phase", "inter_send": "none" if nodes == 1 else "phase"}
    knobs.update(extra)
    return knobs


def shard_rows(m, world, rank):
    rows = max(-(-m // world), 1)
    first = min(m, rank * rows)
    return first, min(m, first + rows)


def draw(m, k, n, dtype, seed):
    """All rows of a, alike on all ranks, this rank's rows of it, and this rank's b."""
    g = torch.Generator(device="cuda").manual_seed(seed * 131 + 7)
    full = torch.randn(m, k, generator=g, device="cuda", dtype=dtype) * k ** -0.25
    g.manual_seed(seed * 131 + 1000 + dist.get_rank())
    b = torch.randn(k, n, generator=g, device="cuda", dtype=dtype) * k ** -0.25
    first, last = shard_rows(m, dist.get_world_size(), dist.get_rank())
    return full, full[first:last].clone(), b


class Bench:
    def __init__(self, args):
        self.args = args
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.nodes = args.nodes
        self.locals = self.world // args.nodes
        self.session = plait.Session(gpus_per_node=self.locals, network=args.network, workspace_bytes=8 << 30)
        self.flush = Flush(self.device)
        self.align = torch.zeros(1, device=self.device)
        torch.backends.cuda.matmul.allow_tf32 = False

    def say(self, **row):
        if self.rank == 0:
            print(json.dumps(row), flush=True)

    def agree(self, value):
        t = torch.tensor([value], device=self.device, dtype=torch.float64)
        dist.all_reduce(t, dist.ReduceOp.MAX)
        return t.item()

    def function(self):
        return plait.jit(ag_gemm._function, schedule=knobs_for(self.nodes, self.locals, dict(pair.split("=") for pair in self.args.set)))

    def time(self, methods, iterations):
        def before():
            self.flush()   # long enough that the host has queued the call before the GPU gets to it
            dist.all_reduce(self.align)

        times = rotated(methods, iterations, before)
        result = {}
        for name, values in times.items():
            t = torch.tensor(values, device=self.device, dtype=torch.float64)
            dist.all_reduce(t, dist.ReduceOp.MAX)
            result[name] = statistics.median(t.tolist())
        return result

    def table(self, shapes, iterations):
        rows = []
        for m, k, n in shapes:
            full, a, b = draw(m, k, n, torch.bfloat16, 1)
            ref = full.float() @ b.float()
            methods, check = self.methods(m, k, n, a, b)
            errors = {}
            for name in methods:
                out = check.get(name)
                if out is None:
                    continue
                out.fill_(float("nan"))
                methods[name]()
                torch.cuda.synchronize()
                errors[name] = self.agree(error_over_tolerance(out, ref, k))
            times = self.time(methods, iterations)
            self.session.check()
            for name, ms in times.items():
                self.say(shape=f"{m}x{k}x{n}", dtype="bf16", method=name, ms=round(ms, 4), max_error_over_tolerance=round(errors.get(name, float("nan")), 3))
            rows.append((f"{m} x {k} x {n}", times, errors))
            del full, a, b, ref, methods, check
            torch.cuda.empty_cache()
        if self.rank == 0:
            names = list(rows[0][1])
            print("\nAG+GEMM, M x K x N per rank, ms (median, slowest rank)\n| shape | " + " | ".join(names) + " | plait / (gather + matmul) | plait / nccl |")
            print("|---" * (len(names) + 3) + "|")
            for label, t, _ in rows:
                floor = t["gather alone, copy engine"] + t["matmul alone"]
                print(f"| {label} | " + " | ".join(f"{t[x]:.4f}" for x in names) + f" | {t['plait'] / floor:.3f} | {t['plait'] / t['nccl + matmul']:.3f} |")
        return sum(e.get("plait", 0) > 1 for _, _, e in rows)

    def methods(self, m, k, n, a, b):
        import torch.distributed._symmetric_memory as symm

        plain = self.function()
        rows = m // self.world
        gathered = torch.empty(m, k, dtype=a.dtype, device=self.device)
        out = {name: torch.empty(m, n, dtype=a.dtype, device=self.device) for name in ("plait", "nccl", "ce", "mm")}
        shared = symm.empty(rows, k, dtype=a.dtype, device=self.device)
        handle = symm.rendezvous(shared, dist.group.WORLD)
        shared.copy_(a)
        others = [(self.rank + i) % self.world for i in range(1, self.world)]
        remote = {q: handle.get_buffer(q, (rows, k), a.dtype) for q in others}
        side = torch.cuda.Stream()

        def nccl():
            dist.all_gather_into_tensor(gathered, a)
            torch.mm(gathered, b, out=out["nccl"])

        def gather_copies():
            for q in others:
                gathered[q * rows : (q + 1) * rows].copy_(remote[q])

        def overlap():
            handle.barrier(channel=0)
            side.wait_stream(torch.cuda.current_stream())
            landed = {}
            with torch.cuda.stream(side):
                for q in others:
                    gathered[q * rows : (q + 1) * rows].copy_(remote[q])
                    landed[q] = side.record_event()
            mine = slice(self.rank * rows, (self.rank + 1) * rows)
            torch.mm(shared, b, out=out["ce"][mine])
            for q in others:
                torch.cuda.current_stream().wait_event(landed[q])
                torch.mm(gathered[q * rows : (q + 1) * rows], b, out=out["ce"][q * rows : (q + 1) * rows])
            handle.barrier(channel=1)

        variants = {}
        for text in self.args.variant:
            name, _, knobs = text.partition(":")
            extra = dict(pair.split("=") for pair in (knobs or name).split(","))
            kernel = plait.jit(ag_gemm._function, schedule=knobs_for(self.nodes, self.locals, extra))
            try:
                kernel(a, b, session=self.session, out=out["plait"])
            except (plait.ScheduleError, plait.CompileError) as error:
                self.say(variant=text, refused=str(error)[:300])
                continue
            variants[name] = lambda kernel=kernel: kernel(a, b, session=self.session, out=out["plait"])
        methods = {
            "plait": lambda: plain(a, b, session=self.session, out=out["plait"]),
            "nccl + matmul": nccl,
            "copy-engine overlap": overlap,
            "matmul alone": lambda: torch.mm(gathered, b, out=out["mm"]),
            "gather alone, copy engine": gather_copies,
            **variants,
        }
        nccl()
        return methods, {"plait": out["plait"], "nccl + matmul": out["nccl"], "copy-engine overlap": out["ce"],
                         **{name: out["plait"] for name in variants}}

    def gemm_alone(self, iterations):
        """The compute role alone against torch.matmul, one GPU (both ranks run it, the slowest counts)."""
        if self.rank == 0:
            print("\nGEMM alone, M N K: torch.matmul ms, plait ms, plait speed / torch speed, error / tolerance, host time of a warm call")
        local = plait.jit(gemm._function, schedule=dict(pair.split("=") for pair in self.args.gemm_set))
        for m, n, k in [(4096, 4096, 4096), (8192, 8192, 8192), (2048, 14336, 8192)]:
            g = torch.Generator(device=self.device).manual_seed(self.rank)
            a = (torch.randn(m, k, generator=g, device=self.device) * k ** -0.25).bfloat16()
            b = (torch.randn(k, n, generator=g, device=self.device) * k ** -0.25).bfloat16()
            out = torch.full((m, n), float("nan"), dtype=torch.bfloat16, device=self.device)
            ref = torch.empty(m, n, dtype=torch.bfloat16, device=self.device)
            local(a, b, session=self.session, out=out)
            torch.cuda.synchronize()
            error = self.agree(error_over_tolerance(out, a.float() @ b.float(), k))
            began = time.perf_counter()
            for _ in range(50):
                local(a, b, session=self.session, out=out)
            host_us = (time.perf_counter() - began) / 50 * 1e6
            torch.cuda.synchronize()
            t = self.time({"torch": lambda: torch.mm(a, b, out=ref), "plait": lambda: local(a, b, session=self.session, out=out)}, iterations)
            if self.rank == 0:
                print(f"{m} {n} {k}: {t['torch']:.4f} {t['plait']:.4f} {t['torch'] / t['plait']:.3f} {error:.3f}, host {host_us:.0f} us a call", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--gemm", action="store_true")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--network", default="ordered")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--set", action="append", default=[], help="knob=value of the ag_gemm schedule")
    parser.add_argument("--variant", action="append", default=[], help="name:knob=value,knob=value, a further column of the table")
    parser.add_argument("--gemm-set", action="append", default=[], help="knob=value of the GEMM alone")
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    bad = 0
    try:
        bench = Bench(args)
        began = time.time()
        if args.gemm:
            bench.gemm_alone(args.iterations)
        if args.table:
            bad += bench.table([(4096, 4096, 2048), (8192, 8192, 4096)], args.iterations)
        bench.say(seconds=round(time.time() - began, 1), failed=int(bad))
        del bench
    finally:
        dist.destroy_process_group()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
