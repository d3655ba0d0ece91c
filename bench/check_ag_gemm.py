"""AllGather+GEMM of real processes, every tile compared with an fp32 product; nothing is timed.

    torchrun --nproc-per-node 2 bench/check_ag_gemm.py [--shapes] [--launches N] [--replays N] [--large] [--burst B]
        [--nodes 1|2] [--network ordered|unordered] [--set knob=value]

Ranks have a GPU each, or share one: they meet over gloo, because NCCL refuses two ranks on one GPU.
--shapes: ragged and round ones, bf16 and fp16, and an epilogue. --launches and --replays (of a CUDA graph): in bursts of B, inputs
fresh for each launch, outputs NaN before each, receive buffers NaN before each burst. --large: operands and outputs over 4 GiB.
Prints a JSON line a check on rank 0; `worst` is the largest error of a tile over its tolerance. Exit code 0 only if all is right.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist

import plait
from ag_gemm import ag_gemm, draw, gemm, knobs_for
from measure import error_over_tolerance

SHAPES = [(4096, 4096, 2048), (1, 64, 64), (3, 72, 72), (127, 136, 264), (129, 1032, 520), (1000, 520, 1000),
          (2048, 1024, 1024), (5000, 2056, 1544), (8192, 8192, 4096)]   # M, K, N per rank
BURST_ROWS = [2048, 1, 127, 1000, 1536, 129, 2047, 640]   # M of each burst, in turn
BURST_K, BURST_N = 1024, 1024
LARGE = {"b": (256, 32768, 70_000), "a": (70_000, 32768, 256), "out": (70_000, 64, 32768)}   # what is over 4 GiB: M, K, N
LARGE_GATHERED = (70_000, 32768, 256)
ROWS_AT_A_TIME = 4096   # of an fp32 reference


@plait.jit
def ag_gemm_gelu(a, b, bias):
    return plait.gelu(plait.all_gather(a, dim=0) @ b + bias)


def worst_tile(out, full, b, after=lambda x: x):
    right = b.float()
    return max(error_over_tolerance(rows, after(left.float() @ right), b.shape[0])
               for rows, left in zip(out.split(ROWS_AT_A_TIME), full.split(ROWS_AT_A_TIME)))


class Check:
    def __init__(self, args, session):
        self.args, self.session = args, session
        self.knobs = knobs_for(args.nodes, session.world // args.nodes, dict(pair.split("=") for pair in args.set))
        self.failed = 0

    def jit(self, function, **options):
        return plait.jit(function._function, schedule=self.knobs, **options)

    def report(self, worst, **row):
        """`worst` of all ranks."""
        agreed = torch.tensor([worst], dtype=torch.float64)
        dist.all_reduce(agreed, dist.ReduceOp.MAX)
        self.failed += not agreed.item() <= 1
        if self.session.rank == 0:
            print(json.dumps({**row, "ranks": self.session.world, "nodes": self.args.nodes, "gpus": torch.cuda.device_count(),
                              "network": self.args.network, "worst": round(agreed.item(), 4), "ok": agreed.item() <= 1}), flush=True)

    def poison(self):
        """NaN in every receive buffer of this rank, while no rank has a launch under way."""
        self.session.synchronize()
        dist.barrier()
        self.session.poison()
        dist.barrier()

    def launched(self, kernel, full, args, after=lambda x: x):
        """worst_tile of one launch, output and receive buffers NaN before it."""
        out = torch.full((full.shape[0], args[1].shape[1]), float("nan"), dtype=full.dtype, device="cuda")
        self.poison()
        kernel(*args, session=self.session, out=out)
        self.session.synchronize()
        return worst_tile(out, full, args[1], after)

    def shapes(self):
        plain, gelu = self.jit(ag_gemm), self.jit(ag_gemm_gelu)
        for dtype in (torch.bfloat16, torch.float16):
            for index, (m, k, n) in enumerate(SHAPES):
                worst = 0.0
                for iteration in range(3):
                    full, a, b = draw(m, k, n, dtype, index * 10 + iteration)
                    worst = max(worst, self.launched(plain, full, (a, b)))
                self.report(worst, check="ag_gemm", m=m, k=k, n=n, dtype=str(dtype))
        m, k, n = SHAPES[5]
        full, a, b = draw(m, k, n, torch.bfloat16, 99)
        bias = torch.randn(n, device="cuda").bfloat16()
        worst = self.launched(gelu, full, (a, b, bias), lambda x: torch.nn.functional.gelu(x + bias.float()))
        self.report(worst, check="ag_gemm + bias, gelu", m=m, k=k, n=n, dtype=str(torch.bfloat16))

    def bursts(self, launches, replay):
        """Launches, or replays of captured ones, in bursts; the host does not wait inside of a burst."""
        kernel = self.jit(ag_gemm, m_max=max(BURST_ROWS))
        calls = {m: self.capture(kernel, m) if replay else self.direct(kernel) for m in BURST_ROWS}
        worst, done, began = 0.0, 0, time.perf_counter()
        while done < launches:
            m = BURST_ROWS[done // self.args.burst % len(BURST_ROWS)]
            data = [draw(m, BURST_K, BURST_N, torch.bfloat16, 10_000 + done + i) for i in range(min(self.args.burst, launches - done))]
            outs = [torch.full((m, BURST_N), float("nan"), dtype=torch.bfloat16, device="cuda") for _ in data]
            self.poison()
            for (_, a, b), out in zip(data, outs):
                calls[m](a, b, out)
            self.session.synchronize()
            worst = max([worst, *(worst_tile(out, full, b) for out, (full, _, b) in zip(outs, data))])
            done += len(data)
        self.report(worst, check="replays" if replay else "launches", count=done, burst=self.args.burst, m=BURST_ROWS, k=BURST_K,
                    n=BURST_N, seconds=round(time.perf_counter() - began, 1))

    def direct(self, kernel):
        return lambda a, b, out: kernel(a, b, session=self.session, out=out)

    def capture(self, kernel, m):
        """A call that replays a graph of one launch: inputs go to where the graph reads, its output to `out`."""
        _, a, b = draw(m, BURST_K, BURST_N, torch.bfloat16, m)
        out = torch.empty(m, BURST_N, dtype=torch.bfloat16, device="cuda")
        self.direct(kernel)(a, b, out)   # the first call loads and allocates
        self.session.synchronize()
        dist.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.direct(kernel)(a, b, out)

        def call(new_a, new_b, result):
            a.copy_(new_a)
            b.copy_(new_b)
            out.copy_(result)   # NaN
            graph.replay()
            result.copy_(out)

        return call

    def large(self):
        for what, (m, k, n) in LARGE.items():
            full, _, b = draw(m, k, n, torch.bfloat16, 1)
            worst = self.launched(plait.jit(gemm._function, m_max=m), full, (full, b))
            self.report(worst, check=f"matmul, {what} over 4 GiB", m=m, k=k, n=n)
            del full, b
            torch.cuda.empty_cache()
        m, k, n = LARGE_GATHERED
        full, a, b = draw(m, k, n, torch.bfloat16, 2)
        self.report(self.launched(self.jit(ag_gemm, m_max=m), full, (a, b)), check="ag_gemm, gathered a over 4 GiB", m=m, k=k, n=n)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--launches", type=int, default=0)
    parser.add_argument("--replays", type=int, default=0)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--network", default="ordered")
    parser.add_argument("--set", action="append", default=[], help="knob=value of the ag_gemm schedule")
    args = parser.parse_args()
    if not (args.shapes or args.launches or args.replays or args.large):
        parser.error("name at least one of --shapes, --launches, --replays, --large")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group("gloo")
    try:
        with plait.Session(gpus_per_node=dist.get_world_size() // args.nodes, network=args.network,
                           workspace_bytes=(24 if args.large else 1) << 30) as session:
            check = Check(args, session)
            if args.shapes:
                check.shapes()
            if args.launches:
                check.bursts(args.launches, replay=False)
            if args.replays:
                check.bursts(args.replays, replay=True)
            if args.large:
                check.large()
            return 1 if check.failed else 0
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
