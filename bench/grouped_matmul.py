"""Grouped matmul on one GPU: plait, with rows sorted by expert and with rows named by index, beside torch._grouped_mm.

    torchrun --nproc-per-node 1 bench/grouped_matmul.py [--check] [--table] [--rounds N] [--set knob=value]

Correctness first: every element against an fp32 product, fresh inputs, outputs poisoned with NaN, segments that end inside of
tiles, empty experts, one expert with all rows; a table that does not add up must be reported by check(). Timing: CUDA events
around one call after a pause (single calls, the power limit hardly acts), L2 flushed, methods rotated, median.
torch._grouped_mm and the sorted form take the same sorted rows; the other form takes tokens and indices.
"""
import argparse
import json
import os
import statistics
import sys

import torch
import torch.distributed as dist

import plait

N, K, TOKENS = 2048, 7168, 8192
SHAPES = ((32, 8192 * 8), (32, 8192 * 2), (32, 4096 * 8), (4, 8192 * 2))   # experts, rows


@plait.jit
def by_order(x, w, offs):
    return plait.grouped_matmul(x, w.mT, offs)


@plait.jit
def by_index(x, w, offs, rows, second):
    return plait.grouped_matmul(x, w.mT, offs, rows=rows, second=second)


def routing(kind, rows, experts, generator):
    """Rows of each expert: a draw of one expert a row, alike or with weights 1 / rank in some order."""
    weights = torch.ones(experts)
    if kind == "zipf":
        weights = (1.0 / torch.arange(1, experts + 1))[torch.randperm(experts, generator=generator)]
    return torch.bincount(torch.multinomial(weights, rows, replacement=True, generator=generator), minlength=experts).tolist()


def worst_error(x, w, counts, out):
    """Largest error over its bound of any element; NaN is infinite."""
    worst, first = 0.0, 0
    for expert, count in enumerate(counts):
        for row in range(first, first + count, 4096):
            last = min(first + count, row + 4096)
            ref = x[row:last].float() @ w[expert].float().t()
            error = (out[row:last].float() - ref).abs() / (2.0 ** -8 * ref.abs() + 2e-6 * x.shape[1] ** 0.5 + 1e-5)
            worst = max(worst, float(torch.nan_to_num(error, nan=float("inf")).max()))
        first += count
    return worst


class Bench:
    def __init__(self, args):
        self.args, self.generator = args, torch.Generator().manual_seed(11)
        self.session = plait.Session(workspace_bytes=1 << 28)
        knobs = dict(pair.split("=") for pair in args.set)
        self.by_order, self.by_index = (plait.jit(f._function, schedule=knobs) for f in (by_order, by_index))
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def operands(self, counts, n, k, tokens):
        """Tokens in two tensors, indices into them, the sorted copy, weights of a unit result, ends of segments."""
        rows, experts = sum(counts), len(counts)
        base = torch.randn(2 * tokens, k, device="cuda").bfloat16()
        index = torch.randint(0, 2 * tokens, (rows,), device="cuda", dtype=torch.int32)
        w = (torch.randn(experts, n, k, device="cuda") / k ** 0.5).bfloat16()
        offs = torch.tensor(counts, device="cuda").cumsum(0).to(torch.int32)
        return base[:tokens].clone(), base[tokens:].clone(), index, base[index.long()], w, offs

    def run_both(self, counts, n, k, tokens):
        """Both forms into poisoned outputs; the worst error, and whether the bits are the same."""
        x, more, index, sorted_x, w, offs = self.operands(counts, n, k, tokens)
        outs = [torch.full((sum(counts), n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        self.by_order(sorted_x, w, offs, session=self.session, out=outs[0])
        self.by_index(x, w, offs, index, more, session=self.session, out=outs[1])
        torch.cuda.synchronize()
        self.session.check()
        same = bool((outs[0].view(torch.int16) == outs[1].view(torch.int16)).all())
        return worst_error(sorted_x, w, counts, outs[0]), same

    def check(self):
        tables = [routing("uniform", 1777, 9, self.generator), [0, 130, 0, 0, 1, 700, 0, 64, 0], [0, 0, 900, 0], [1] * 40, [333],
                  [0, 0, 0, 517], [517, 0, 0, 0]]
        wrong = 0
        for n, k in ((328, 456), (N, K)):
            for counts in tables:
                worst, same = self.run_both(counts, n, k, 401)
                wrong += worst > 1 or not same
                print(json.dumps({"check": counts, "n": n, "k": k, "worst": round(worst, 3), "same_bits": same}), flush=True)
        return wrong

    def wrong_table(self):
        """The session is dead afterwards."""
        _, _, _, x, w, offs = self.operands([100, 200, 300], 328, 456, 50)
        offs[1] = 50
        self.by_order(x, w, offs, session=self.session)
        torch.cuda.synchronize()
        try:
            self.session.check()
        except plait.ArgumentError as error:
            print(json.dumps({"wrong_table": str(error).splitlines()[0]}), flush=True)
            return "offs[1] is 50, it must lie in 100..600" not in str(error)
        print(json.dumps({"wrong_table": "not reported"}))
        return True

    def burst(self, methods):
        times = {name: [] for name in methods}
        names = list(methods)
        for turn in range(self.args.rounds):
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                self.flush.fill_(turn & 255)
                torch.cuda._sleep(2_000_000)
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                methods[name]()
                end.record()
                end.synchronize()
                times[name].append(start.elapsed_time(end))
        return {name: statistics.median(values) for name, values in times.items()}

    def table(self):
        ratios = {"by order": [], "by index": []}
        for experts, rows in SHAPES:
            for kind in ("uniform", "zipf"):
                counts = routing(kind, rows, experts, self.generator)
                x, more, index, sorted_x, w, offs = self.operands(counts, N, K, TOKENS)
                transposed, out = w.transpose(-2, -1), torch.empty(rows, N, device="cuda", dtype=torch.bfloat16)
                methods = {"torch": lambda: torch._grouped_mm(sorted_x, transposed, offs=offs),
                           "by order": lambda: self.by_order(sorted_x, w, offs, session=self.session, out=out),
                           "by index": lambda: self.by_index(x, w, offs, index, more, session=self.session, out=out)}
                for method in methods.values():
                    method()
                ms = self.burst(methods)
                for name in ratios:
                    ratios[name].append(ms["torch"] / ms[name])
                print(f"| {experts} | {rows} | {kind} | " + " | ".join(f"{ms[name]:.3f}" for name in methods) + " | "
                      + " | ".join(f"{ms['torch'] / ms[name]:.3f}" for name in ratios) + " |", flush=True)
        for name, values in ratios.items():
            print(f"{name}: geometric mean {statistics.geometric_mean(values):.4f} of torch._grouped_mm, worst {min(values):.4f}")
        self.session.check()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("gloo")
    torch.backends.cuda.matmul.allow_tf32 = False
    bench = Bench(args)
    wrong = bench.check() if args.check else 0
    if args.table:
        bench.table()
    if args.check:
        wrong += bench.wrong_table()
        print(f"{wrong} wrong")
    dist.destroy_process_group()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
