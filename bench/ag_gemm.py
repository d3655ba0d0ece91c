"""AllGather+GEMM on the GPUs of one host: plait beside what PyTorch offers, in one run.

    torchrun --nproc-per-node 2 bench/ag_gemm.py [--check] [--table] [--stress N] [--nodes 1|2] [--network ordered|unordered]

Correctness first: max error per tile against an fp32 product, fresh inputs, outputs poisoned with NaN and the receive
buffers too. Timing: CUDA events around one call, the ranks aligned by a small all-reduce in front, L2 flushed, methods
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
def ag_gemm_gelu(a, b, bias):
    return plait.gelu(plait.all_gather(a, dim=0) @ b + bias)


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

    def inputs(self, m, k, n, dtype, seed):
        g = torch.Generator(device=self.device).manual_seed(seed * 131 + 7)
        full = (torch.randn(m, k, generator=g, device=self.device) * k ** -0.25).to(dtype)   # alike on all ranks
        g.manual_seed(seed * 131 + 1000 + self.rank)
        b = (torch.randn(k, n, generator=g, device=self.device) * k ** -0.25).to(dtype)
        first, last = shard_rows(m, self.world, self.rank)
        return full, full[first:last].clone(), b

    def functions(self):
        extra = dict(pair.split("=") for pair in self.args.set)
        knobs = knobs_for(self.nodes, self.locals, extra)
        make = lambda f: plait.jit(f._function, schedule=knobs)
        return make(ag_gemm), make(ag_gemm_gelu)

    # -- correctness ------------------------------------------------------------------------------------------------
    def check(self):
        shapes = [(4096, 4096, 2048), (1, 64, 64), (3, 72, 72), (127, 136, 264), (129, 1032, 520), (1000, 520, 1000),
                  (2048, 1024, 1024), (5000, 2056, 1544), (8192, 8192, 4096)]
        plain, gelu = self.functions()
        bad = 0
        for dtype in (torch.bfloat16, torch.float16):
            for index, (m, k, n) in enumerate(shapes):
                worst = 0.0
                for iteration in range(3):
                    full, a, b = self.inputs(m, k, n, dtype, index * 10 + iteration)
                    out = torch.full((m, n), float("nan"), dtype=dtype, device=self.device)
                    self.poison()
                    plain(a, b, session=self.session, out=out)
                    torch.cuda.synchronize()
                    self.session.check()
                    worst = max(worst, error_over_tolerance(out, full.float() @ b.float(), k))
                worst = self.agree(worst)
                bad += worst > 1
                self.say(check="ag_gemm", nodes=self.nodes, network=self.args.network, m=m, k=k, n=n, dtype=str(dtype), worst=round(worst, 4), ok=worst <= 1)
        m, k, n = 1000, 520, 1000
        full, a, b = self.inputs(m, k, n, torch.bfloat16, 99)
        bias = torch.randn(n, device=self.device).bfloat16()
        out = torch.full((m, n), float("nan"), dtype=torch.bfloat16, device=self.device)
        gelu(a, b, bias, session=self.session, out=out)
        torch.cuda.synchronize()
        self.session.check()
        worst = self.agree(error_over_tolerance(out, torch.nn.functional.gelu(full.float() @ b.float() + bias.float()), k))
        bad += worst > 1
        self.say(check="ag_gemm_bias_gelu", m=m, k=k, n=n, worst=round(worst, 4), ok=worst <= 1)
        return bad

    def poison(self):
        """NaN in every receive buffer of this rank, while no rank has a launch under way."""
        torch.cuda.synchronize()
        dist.barrier()
        self.session.poison()
        torch.cuda.synchronize()
        dist.barrier()

    def stress(self, launches):
        """Back-to-back launches with changing inputs; every output is compared on the GPU, nothing waits for the host."""
        m, k, n, sets = 2048, 1024, 1024, 8
        plain, _ = self.functions()
        data = [self.inputs(m, k, n, torch.bfloat16, 500 + i) for i in range(sets)]
        refs = [full.float() @ b.float() for full, _, b in data]
        outs = [torch.empty(m, n, dtype=torch.bfloat16, device=self.device) for _ in range(sets)]
        plain(data[0][1], data[0][2], session=self.session, out=outs[0])
        torch.cuda.synchronize()
        worst = torch.zeros((), device=self.device)
        for burst in range(-(-launches // sets)):
            for i in range(sets):
                outs[i].fill_(float("nan"))
            for i in range(sets):
                plain(data[i][1], data[i][2], session=self.session, out=outs[i])
            for i in range(sets):
                e = (outs[i].float() - refs[i]).abs() / (2.0 ** -8 * refs[i].abs() + 2e-6 * k ** 0.5 + 1e-5)
                worst = torch.maximum(worst, torch.nan_to_num(e, nan=float("inf")).max())
            j = burst % sets   # new inputs for one set a burst: the rest come round after seven other launches
            full, a, b = self.inputs(m, k, n, torch.bfloat16, 10_000 + burst)
            data[j] = (full, a, b)
            refs[j] = full.float() @ b.float()
        torch.cuda.synchronize()
        self.session.check()
        worst = self.agree(worst.item())
        self.say(check="stress", nodes=self.nodes, network=self.args.network, launches=-(-launches // sets) * sets, m=m, k=k, n=n, worst=round(worst, 4), ok=worst <= 1)
        return worst > 1

    # -- timing -----------------------------------------------------------------------------------------------------
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
            full, a, b = self.inputs(m, k, n, torch.bfloat16, 1)
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

        plain, _ = self.functions()
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
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--stress", type=int, default=0)
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
        if args.check:
            bad += bench.check()
        if args.stress:
            bad += bench.stress(args.stress)
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
