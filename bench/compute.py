"""plait's compute kernels on one GPU beside their peers in PyTorch, in one run.

    python bench/compute.py --held-out $(git rev-parse HEAD)    # every suite; the commit draws 20 matmul shapes
    python bench/compute.py --suite matmul --shapes 4096x4096x4096,2048x14336x8192 --layouts nt --mode burst
    python bench/compute.py --suite attention --variant turn:turn=on --png out.png --json out.jsonl

Suites: matmul (squares and layers, nn and nt), steps (one row, column or k above a multiple of the tile), held-out (20 random
shapes), attention (beside SDPA: cuDNN and flash), grouped (beside torch._grouped_mm, uniform and zipf routing, rows sorted and rows
named by index). First every method's largest error of a 128 x 128 tile against fp32, fresh inputs, outputs poisoned with NaN; then
times, by measure.py; steps and held-out in bursts alone. Prints JSON lines {op, shape, layout, dtype, method, mode, ms, max_error,
ok} (max_error: of its tolerance; ok: at most 1), tables of speed relative to the best peer, and the seconds that all took. Exit
code 0 only if plait is right everywhere and no case was left out.
"""
import argparse
import json
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import compute_cases as cases
import measure
import plait

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
SUITES = ("matmul", "steps", "held-out", "attention", "grouped")
BURST_ALONE = ("steps", "held-out")


def shape_of(text):
    return tuple(int(part) for part in text.split("x"))


def cases_of(suite, args, session):
    """One function a case: inputs are made when its turn comes."""
    end = (DTYPES[args.dtype], args.variants)
    given = [shape_of(text) for text in args.shapes.split(",")] if args.shapes else None
    if suite == "attention":
        wanted = [(shape, causal) for shape in given for causal in (False, True)] if given else cases.ATTENTION
        return [lambda s=s, c=c: cases.attention_case(session, *s, c, *end) for s, c in wanted]
    if suite == "grouped":
        wanted = [(shape, kind) for shape in given for kind in ("uniform", "zipf")] if given else cases.GROUPED
        return [lambda s=s, k=k: cases.grouped_case(session, *s, k, *end) for s, k in wanted]
    if suite == "held-out":
        wanted = cases.held_out(args.held_out)
    else:
        shapes = given or (cases.SQUARE + cases.LAYERS if suite == "matmul" else [shape for pair in cases.STEPS for shape in pair])
        wanted = [(*shape, layout) for shape in shapes for layout in args.layouts]
    return [lambda w=w: cases.matmul_case(session, *w, *end) for w in wanted]


def run_case(case, suite, args, flush):
    """JSON rows of one case."""
    base = {"suite": suite, "op": case.op, "shape": "x".join(map(str, case.shape)), "layout": case.layout, "dtype": args.dtype}
    errors = case.check()
    timed = {name: case.timed.get(name, call) for name, call in case.methods.items()}
    rows = []
    for mode in args.mode:
        if mode == "sustained" and suite in BURST_ALONE:
            continue
        times = measure.burst(timed, args.iterations, flush) if mode == "burst" else measure.sustained(timed, args.seconds)
        for method, ms in times.items():
            rows.append({**base, "method": method, "mode": mode, "ms": round(ms, 5), "tflops": round(case.flop / ms * 1e-9, 1),
                         "max_error": round(errors[method], 3), "ok": errors[method] <= 1})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def grouped_rows(rows):
    """(suite, mode) -> (shape, layout) -> method -> ms."""
    groups = {}
    for row in rows:
        groups.setdefault((row["suite"], row["mode"]), {}).setdefault((row["shape"], row["layout"]), {})[row["method"]] = row["ms"]
    return groups


def is_ours(method):
    return method.startswith("plait")


def ratios(times):
    """method -> speed of each of plait's methods over the best peer's."""
    peer = min(ms for name, ms in times.items() if not is_ours(name))
    return {name: peer / ms for name, ms in times.items() if is_ours(name)}


def print_summary(rows, layouts):
    for (suite, mode), group in grouped_rows(rows).items():
        methods = list(next(iter(group.values())))
        ours = [name for name in methods if is_ours(name)]
        print(f"\n{suite}, {mode}\n\n| shape | layout | " + " | ".join(f"{name} ms" for name in methods) + " | "
              + " | ".join(f"{name} / best peer" for name in ours) + " |\n|" + "---|" * (2 + len(methods) + len(ours)))
        for (shape, layout), times in group.items():
            print(f"| {shape} | {layout} | " + " | ".join(f"{times[name]:.4f}" for name in methods) + " | "
                  + " | ".join(f"{ratio:.3f}" for ratio in ratios(times).values()) + " |")
        for name in ours:
            speed = {key: ratios(times)[name] for key, times in group.items()}
            worst = min(speed, key=speed.get)
            print(f"\n{suite} {mode} {name}: {len(speed)} cases, geometric mean {statistics.geometric_mean(speed.values()):.3f}, "
                  f"lowest {speed[worst]:.3f} ({' '.join(worst)})")
        if "plait_gathered" in ours:
            more = [times["plait_gathered"] / times["plait"] for times in group.values()]
            print(f"\n{suite} {mode}: gathered rows take {statistics.geometric_mean(more):.3f} of sorted ones, at most {max(more):.3f}")
        if suite == "steps":
            print()
            for above, multiple in cases.STEPS:
                for layout in layouts:
                    names = ["x".join(map(str, s)) for s in (above, multiple)]
                    ms = [group[name, layout]["plait"] for name in names]
                    print(f"{names[0]} takes {ms[0] / ms[1]:.3f} of {names[1]} ({layout}, {mode})")


def draw(rows, path):
    """Bars of plait's speed relative to the best peer's."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    bars = {f"{name.removeprefix('plait').strip('_')} {suite} {shape} {layout} {mode}".strip(): (ratio, mode)
            for (suite, mode), group in grouped_rows(rows).items() for (shape, layout), times in group.items()
            for name, ratio in ratios(times).items()}
    figure, axes = plt.subplots(figsize=(10, 1 + 0.2 * len(bars)))
    axes.barh(list(bars), [ratio for ratio, _ in bars.values()],
              color=["tab:blue" if mode == "burst" else "tab:orange" for _, mode in bars.values()])
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlim(left=min(0.8, *(ratio for ratio, _ in bars.values())))
    axes.set_xlabel("speed relative to the best peer (blue: burst, orange: sustained)")
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.005)
    axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=SUITES, help="default: all; repeatable")
    parser.add_argument("--shapes", help="instead of the suite's: MxNxK, comma separated; attention: BxHxHKVxSQxSKVxD; grouped: ROWSxNxKxEXPERTS")
    parser.add_argument("--layouts", type=lambda text: text.split(","), default=["nn", "nt"], help="of matmul and steps")
    parser.add_argument("--mode", type=lambda text: text.split(","), default=["burst", "sustained"])
    parser.add_argument("--held-out", metavar="SEED", help="what draws the shapes of suite held-out: a commit")
    parser.add_argument("--dtype", choices=list(DTYPES), default="bf16")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME:knob=value,...", help="one more method of plait; repeatable")
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each sustained run; shorter ones do not settle")
    parser.add_argument("--limit", type=float, default=570, help="seconds after which no further case is started")
    parser.add_argument("--json", help="also write the JSON lines here")
    parser.add_argument("--png")
    args = parser.parse_args()
    args.suite = args.suite or [suite for suite in SUITES if suite != "held-out" or args.held_out]
    if "held-out" in args.suite and not args.held_out:
        parser.error("suite held-out needs --held-out SEED, a commit that draws the shapes")
    args.variants = {"": {}}
    for text in args.variant:
        name, _, knobs = text.partition(":")
        args.variants[name] = dict(pair.split("=") for pair in knobs.split(","))
    return args


def main():
    args = parse()
    began = time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 1), rank=0, world_size=1)
        session = plait.Session(gpus_per_node=1)
        flush = measure.Flush(torch.device("cuda", session.device))
        rows, left = [], [(suite, make) for suite in args.suite for make in cases_of(suite, args, session)]
        while left and time.perf_counter() - began < args.limit:
            suite, make = left.pop(0)
            rows += run_case(make(), suite, args, flush)
            torch.cuda.empty_cache()
        session.check()
        print_summary(rows if not left else [row for row in rows if row["suite"] != "steps"], args.layouts)
        if left:
            print(f"{len(left)} cases not started: the limit of {args.limit} s is reached")
        if args.json:
            with open(args.json, "w") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        if args.png:
            draw(rows, args.png)
        wrong = [row for row in rows if is_ours(row["method"]) and not row["ok"]]
        print(f"{len(rows)} rows, {len(wrong)} wrong, {time.perf_counter() - began:.0f} s in all")
        del session
        dist.destroy_process_group()
    return 1 if wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
