"""Rows of experts in one kernel: sorted by expert, then named by a list of indices, without a sorted copy.

Run: .venv/bin/python examples/05_grouped_matmul.py
"""

import numpy as np

import plait
from plait.reference import check_tiles, evaluate
from plait.tensor import pack, unpack


@plait.jit
def experts(x, w, offs):
    return plait.silu(plait.grouped_matmul(x, w.mT, offs))


@plait.jit
def experts_by_index(x, w, offs, rows):
    return plait.silu(plait.grouped_matmul(x, w.mT, offs, rows=rows))


def main() -> None:
    random = np.random.default_rng(1)
    tokens, top_k, n, k, count = 90, 2, 128, 192, 6
    x = pack(random.standard_normal((tokens, k), dtype=np.float32), "bf16")
    w = pack(random.standard_normal((count, n, k), dtype=np.float32), "bf16")
    chosen = random.integers(0, count, (tokens, top_k))                   # experts of each token; on GPUs the device has them
    order = np.argsort(chosen.ravel(), kind="stable")
    rows = (order // top_k).astype(np.int32)                              # token of each row, sorted by expert
    offs = np.cumsum(np.bincount(chosen.ravel(), minlength=count)).astype(np.int32)

    session = plait.SimSession("1x1", seed=3)
    sorted_rows = x[rows]                                                 # the copy that the second form does without
    first = experts(sorted_rows, w, offs, session=session)[0]
    second = experts_by_index(x, w, offs, rows, session=session)[0]
    expected = evaluate(list(experts._compiled.values())[0].graph, {"x": [sorted_rows], "w": [w], "offs": [offs]})[0]
    result = check_tiles(unpack(first, "bf16"), expected, 64, 64)
    print(f"{len(rows)} rows of {count} experts, segments end at {offs.tolist()}: {result.tiles} tiles, "
          f"{result.wrong_tiles} wrong; by index the same bits: {bool((first == second).all())}")
    if result.wrong_tiles or not (first == second).all():
        raise SystemExit(1)

    offs[2] = 10                                                          # falls: reported, with the entry and the numbers
    try:
        experts(sorted_rows, w, offs, session=session)
    except plait.ArgumentError as error:
        print(f"a wrong table: {error}")


if __name__ == "__main__":
    main()
