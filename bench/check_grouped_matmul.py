"""Grouped matmul on one GPU: every element right, rows sorted by expert and rows named by index.

    python bench/check_grouped_matmul.py [--set knob=value ...]

Against an fp32 product, fresh inputs, outputs poisoned with NaN: segments that end inside of tiles, empty experts, one expert
with all rows; both forms give the same bits; a table that does not add up must be reported by check(). Exit code 0 only if all
is right. compute.py times it.
"""
import argparse
import json
import sys

import torch
import torch.distributed as dist

import plait
from compute_cases import grouped_functions, grouped_operands, routing


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


def run_both(functions, session, counts, n, k, tokens):
    """Both forms into poisoned outputs; the worst error, and whether the bits are the same."""
    given = grouped_operands(counts, n, k, tokens)
    outs = [torch.full((sum(counts), n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in functions]
    for name, out in zip(functions, outs):
        functions[name](*given.arguments(name), session=session, out=out)
    torch.cuda.synchronize()
    session.check()
    same = bool((outs[0].view(torch.int16) == outs[1].view(torch.int16)).all())
    return worst_error(given.sorted_rows, given.weights, counts, outs[0]), same


def check_values(functions, session):
    """How many tables gave a wrong element, or bits that differ between the forms."""
    tables = [routing("uniform", 1777, 9), [0, 130, 0, 0, 1, 700, 0, 64, 0], [0, 0, 900, 0], [1] * 40, [333], [0, 0, 0, 517],
              [517, 0, 0, 0]]
    wrong = 0
    for n, k in ((328, 456), (2048, 7168)):
        for counts in tables:
            worst, same = run_both(functions, session, counts, n, k, 401)
            wrong += worst > 1 or not same
            print(json.dumps({"check": counts, "n": n, "k": k, "worst": round(worst, 3), "same_bits": same}), flush=True)
    return wrong


def wrong_table_unreported(functions, session):
    """True where check() keeps silent about offs that fall. The session is dead afterwards."""
    given = grouped_operands([100, 200, 300], 328, 456, 50)
    given.offs[1] = 50
    functions["sorted"](*given.arguments("sorted"), session=session)
    torch.cuda.synchronize()
    try:
        session.check()
    except plait.ArgumentError as error:
        print(json.dumps({"wrong_table": str(error).splitlines()[0]}), flush=True)
        return "offs[1] is 50, it must lie in 100..600" not in str(error)
    print(json.dumps({"wrong_table": "not reported"}))
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", default=[], metavar="knob=value")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    session = plait.Session()
    functions = grouped_functions(dict(setting.split("=") for setting in options.set))
    wrong = check_values(functions, session) + wrong_table_unreported(functions, session)
    print(f"{wrong} wrong")
    dist.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
