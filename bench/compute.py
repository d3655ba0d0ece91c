"""plait's compute kernels on one GPU beside their peers in PyTorch, in one run.

    python bench/compute.py                                    # matmul: squares and layers, nn and nt, burst and sustained
    python bench/compute.py --op matmul --shapes 4096x4096x4096,2048x14336x8192 --layouts nt --mode burst
    python bench/compute.py --held-out $(git rev-parse HEAD)   # 20 shapes, the commit is the seed
    python bench/compute.py --steps                            # one row, column or k above a multiple of the tile
    python bench/compute.py --op attention --op grouped --png out.png --json out.jsonl

First every method's largest error of a 128 x 128 tile against fp32, fresh inputs, outputs poisoned with NaN; then times, by
measure.py. Prints JSON lines {op, shape, layout, dtype, method, mode, ms, max_error, ok} (max_error: of its tolerance; ok: at
most 1), a table of speed relative to the best peer, and the seconds that all took. Exit code 0 only if plait is right everywhere.
"""
import argparse
import json
import math
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import compute_cases as cases
import measure
import plait

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
ATTENTION = [(4, 16, 16, 4096, 4096, 128), (2, 32, 8, 8192, 8192, 128), (1, 32, 8, 16384, 16384, 128), (8, 16, 16, 2048, 2048, 64)]
GROUPED = [(8192, 4096, 2048, 8), (16384, 2048, 7168, 64), (4096, 7168, 2048, 32)]


def shape_of(text):
    return tuple(int(part) for part in text.split("x"))


def make_cases(args, session):
    """One function a case: inputs are made when its turn comes."""
    dtype = DTYPES[args.dtype]
    given = [shape_of(text) for text in args.shapes.split(",")] if args.shapes else None
    made = []
    if "matmul" in args.op:
        if args.held_out:
            wanted = cases.held_out(args.held_out)
        elif args.steps:
            wanted = [(*shape, layout) for pair in cases.STEPS for shape in pair for layout in args.layouts]
        else:
            wanted = [(*shape, layout) for shape in given or cases.SQUARE + cases.LAYERS for layout in args.layouts]
        made += [lambda w=w: cases.matmul_case(session, *w, dtype) for w in wanted]
    if "attention" in args.op:
        made += [lambda s=s, c=c: cases.attention_case(session, *s, c, dtype) for s in given or ATTENTION for c in (False, True)]
    if "grouped" in args.op:
        made += [lambda s=s: cases.grouped_case(session, *s, dtype) for s in given or GROUPED]
    return made


def run_case(case, args, flush):
    """JSON rows of one case."""
    shape, dtype = "x".join(map(str, case.shape)), args.dtype
    base = {"op": case.op, "shape": shape, "layout": case.layout, "dtype": dtype}
    for method, why in case.missing.items():
        print(json.dumps({**base, "method": method, "left_out": why}), flush=True)
    errors = case.check()
    timed = {name: case.timed.get(name, call) for name, call in case.methods.items()}
    rows = []
    for mode in args.mode:
        times = measure.burst(timed, args.iterations, flush) if mode == "burst" else measure.sustained(timed, args.seconds)
        for method, ms in times.items():
            rows.append({**base, "method": method, "mode": mode, "ms": round(ms, 5), "tflops": round(case.flop / ms * 1e-9, 1),
                         "max_error": round(errors[method], 3), "ok": errors[method] <= 1})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def ratios(rows):
    """(op, shape, layout, mode) -> speed of plait over the best peer's."""
    groups = {}
    for row in rows:
        groups.setdefault((row["op"], row["shape"], row["layout"], row["mode"]), {})[row["method"]] = row["ms"]
    return {key: min(ms for name, ms in g.items() if name != "plait") / g["plait"]
            for key, g in groups.items() if "plait" in g and len(g) > 1}


def print_summary(rows, steps):
    speed = ratios(rows)
    print("\n| op | shape | layout | mode | plait ms | plait speed / best peer's |\n|---|---|---|---|---|---|")
    for (op, shape, layout, mode), ratio in speed.items():
        ms = next(r["ms"] for r in rows if (r["op"], r["shape"], r["layout"], r["mode"], r["method"]) == (op, shape, layout, mode, "plait"))
        print(f"| {op} | {shape} | {layout} | {mode} | {ms:.4f} | {ratio:.3f} |")
    for mode in sorted({key[3] for key in speed}):
        values = [ratio for key, ratio in speed.items() if key[3] == mode]
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{mode}: {len(values)} cases, geometric mean {mean:.3f}, lowest {min(values):.3f}")
    if steps:
        ms = {(r["shape"], r["layout"], r["mode"]): r["ms"] for r in rows if r["method"] == "plait"}
        for above, multiple in cases.STEPS:
            for layout, mode in sorted({key[1:] for key in ms}):
                names = ["x".join(map(str, s)) for s in (above, multiple)]
                print(f"{names[0]} takes {ms[(names[0], layout, mode)] / ms[(names[1], layout, mode)]:.3f} of {names[1]} ({layout}, {mode})")


def draw(rows, path):
    """Bars of plait's speed relative to the best peer's."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    speed = ratios(rows)
    labels = [f"{shape} {layout} {mode}" for _, shape, layout, mode in speed]
    figure, axes = plt.subplots(figsize=(9, 1 + 0.28 * len(labels)))
    axes.barh(labels, list(speed.values()), color=["tab:blue" if key[3] == "burst" else "tab:orange" for key in speed])
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlim(left=min(0.8, *speed.values()))
    axes.set_xlabel("speed relative to the best peer")
    axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", choices=["matmul", "attention", "grouped"], help="default: matmul; repeatable")
    parser.add_argument("--shapes", help="MxNxK, comma separated; attention: BxHxHKVxSQxSKVxD; grouped: ROWSxNxKxEXPERTS")
    parser.add_argument("--layouts", type=lambda text: text.split(","), default=["nn", "nt"])
    parser.add_argument("--mode", type=lambda text: text.split(","), default=["burst", "sustained"])
    parser.add_argument("--held-out", metavar="SEED", help="20 random matmul shapes; the seed is a commit")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--dtype", choices=list(DTYPES), default="bf16")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each sustained run")
    parser.add_argument("--limit", type=float, default=570, help="seconds after which no further case is started")
    parser.add_argument("--json", help="also write the JSON lines here")
    parser.add_argument("--png")
    args = parser.parse_args()
    args.op = args.op or ["matmul"]
    return args


def main():
    args = parse()
    began = time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 1), rank=0, world_size=1)
        session = plait.Session(gpus_per_node=1)
        flush = measure.Flush(torch.device("cuda", session.device))
        rows, left = [], make_cases(args, session)
        while left and time.perf_counter() - began < args.limit:
            rows += run_case(left.pop(0)(), args, flush)
            torch.cuda.empty_cache()
        session.check()
        if left:
            print(f"{len(left)} cases not started: the limit of {args.limit} s is reached")
        print_summary(rows, args.steps and not left)
        if args.json:
            with open(args.json, "w") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        if args.png:
            draw(rows, args.png)
        wrong = [row for row in rows if row["method"] == "plait" and not row["ok"]]
        print(f"{len(rows)} rows, {len(wrong)} wrong, {time.perf_counter() - began:.0f} s in all")
        del session
        dist.destroy_process_group()
    return 1 if wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
