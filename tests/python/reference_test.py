"""The reference and the tile check: they must let a right kernel pass and no wrong one."""

from __future__ import annotations

import numpy as np
import pytest

from plait.reference import check_tiles, evaluate
from plait.tensor import from_bf16, pack, to_bf16, unpack

GRAPH = {
    "inputs": [
        {"name": "a", "dtype": "bf16", "shape": ["M", "K"], "shard": 0},
        {"name": "b", "dtype": "bf16", "shape": ["K", "N"], "shard": -1},
        {"name": "bias", "dtype": "f32", "shape": ["N"], "shard": -1},
    ],
    "ops": [
        {"op": "all_gather", "result": "g", "inputs": ["a"], "dim": 0},
        {"op": "matmul", "result": "p", "inputs": ["g", "b"]},
        {"op": "bias", "result": "s", "inputs": ["p", "bias"]},
        {"op": "gelu", "result": "c", "inputs": ["s"]},
    ],
    "output": "c",
    "output_dtype": "bf16",
}


def inputs(rows=(40, 24), n=48, k=256, seed=3):
    random = np.random.default_rng(seed)
    draw = lambda *shape: random.standard_normal(shape, dtype=np.float32)  # noqa: E731
    return {
        "a": [pack(draw(r, k), "bf16") for r in rows],
        "b": [pack(draw(k, n), "bf16") for _ in rows],
        "bias": [draw(n) for _ in rows],
    }


def as_kernel(tensors, rank, skip_k=0):
    """What a right kernel gives: f32 sums, one rounding. skip_k leaves the last of k out."""
    from math import erf

    a = np.concatenate([unpack(t, "bf16") for t in tensors["a"]]).astype(np.float32)
    b = unpack(tensors["b"][rank], "bf16").astype(np.float32)
    k = a.shape[1] - skip_k
    x = a[:, :k] @ b[:k] + tensors["bias"][rank]
    y = np.float32(0.5) * x * (1 + np.vectorize(erf)(x / np.sqrt(2.0)).astype(np.float32))
    return from_bf16(to_bf16(y)).astype(np.float64)


def test_a_right_result_passes_on_every_rank() -> None:
    tensors = inputs()
    for rank, expected in enumerate(evaluate(GRAPH, tensors)):
        result = check_tiles(as_kernel(tensors, rank), expected, 32, 16)
        assert (result.tiles, result.wrong_tiles) == (6, 0)
        assert result.worst_of_bound <= 1.0


@pytest.mark.parametrize("skip_k", [1, 16, 64])
def test_a_missing_part_of_k_is_found(skip_k: int) -> None:
    tensors = inputs()
    assert check_tiles(as_kernel(tensors, 0, skip_k), evaluate(GRAPH, tensors)[0], 32, 16).wrong_tiles == 6


def test_one_wrong_element_is_found_in_its_tile() -> None:
    tensors = inputs()
    output = as_kernel(tensors, 1)
    row, column = np.argwhere(np.abs(output) > 1)[-1]
    output[row, column] *= 1 + 2.0**-5
    result = check_tiles(output, evaluate(GRAPH, tensors)[1], 32, 16)
    assert result.wrong_tiles == 1


def test_nan_and_another_rank_s_result_are_wrong() -> None:
    tensors = inputs()
    expected = evaluate(GRAPH, tensors)
    output = as_kernel(tensors, 0)
    output[5, 5] = np.nan
    assert check_tiles(output, expected[0], 32, 16).wrong_tiles == 1
    assert check_tiles(as_kernel(tensors, 1), expected[0], 32, 16).wrong_tiles == 6


def test_shifted_rows_are_wrong() -> None:
    tensors = inputs()
    assert check_tiles(np.roll(as_kernel(tensors, 0), 1, axis=0), evaluate(GRAPH, tensors)[0], 32, 16).wrong_tiles == 6
