"""The reference: a graph computed in float64 with numpy, with a bound on what rounding may change.

Independent of the compiler: it reads the graph section only. The bound is elementwise and follows the graph's numerics
(f32 accumulation, one rounding to the output's dtype, one more per cast), so that a wrong 64-deep slice of k, a shifted
row or a stale chunk cannot hide in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ScheduleError
from .tensor import unpack

_HALF_ULP = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}   # relative, of a rounded value
_SMALLEST = {"bf16": 2.0**-134, "f16": 2.0**-25, "f32": 2.0**-150}   # absolute, half the smallest step
_F32 = 2.0**-24


@dataclass
class Bounded:
    """Exact value and a bound on the error that the kernel may have made so far."""

    value: np.ndarray
    bound: np.ndarray


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


# function, and a bound of its derivative's size
_POINTWISE = {
    "relu": (lambda x: np.maximum(x, 0.0), 1.0),
    "gelu": (lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))), 1.13),
    "gelu_tanh": (lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))), 1.13),
    "silu": (lambda x: x / (1.0 + np.exp(-x)), 1.1),
}


def _matmul(op: dict[str, Any], a: Bounded, b: Bounded) -> Bounded:
    left = a.value.T if op.get("transpose_a") else a.value
    right = b.value.T if op.get("transpose_b") else b.value
    value = left @ right
    # Sum of k products in f32 in any grouping: at most (k + 1) roundings of the absolute sum; the usual growth is
    # its square root, and 4 of those are far out.
    growth = 4.0 * math.sqrt(left.shape[1] + 1)
    return Bounded(value, growth * _F32 * (np.abs(left) @ np.abs(right)))


def _silu_mul(x: Bounded) -> Bounded:
    half = x.value.shape[1] // 2
    gate, up = (Bounded(x.value[:, part], x.bound[:, part]) for part in (slice(half), slice(half, None)))
    gate = _apply({"op": "silu"}, [gate])
    value = gate.value * up.value
    bound = gate.bound * np.abs(up.value) + np.abs(gate.value) * up.bound + gate.bound * up.bound
    return Bounded(value, bound + 2 * _F32 * np.abs(value))


def _round(x: Bounded, dtype: str) -> Bounded:
    error = np.abs(x.value) * _HALF_ULP[dtype] * 1.01 + _SMALLEST[dtype]
    return Bounded(x.value, x.bound * (1.0 + _HALF_ULP[dtype]) + error)


def _apply(op: dict[str, Any], inputs: list[Bounded]) -> Bounded:
    name, x = op["op"], inputs[0]
    if name == "all_gather":
        return x
    if name == "matmul":
        return _matmul(op, x, inputs[1])
    if name == "silu_mul":
        return _silu_mul(x)
    if name in ("bias", "residual"):
        value = x.value + inputs[1].value
        return Bounded(value, x.bound + 2 * _F32 * np.abs(value))
    if name == "scale":
        value = x.value * op.get("value", 1.0)
        return Bounded(value, x.bound * abs(op.get("value", 1.0)) + 2 * _F32 * np.abs(value))
    if name == "cast":
        return _round(x, op["dtype"])
    if name in _POINTWISE:
        function, slope = _POINTWISE[name]
        value = function(x.value)
        # 2^-18: what an approximation of exp, erf or tanh in f32 may add, relative to its argument
        return Bounded(value, slope * x.bound + 2.0**-18 * (np.abs(value) + np.minimum(np.abs(x.value), 1.0)))
    raise ScheduleError(f"the reference does not know op {name}", "add it to plait/reference.py")


def evaluate(graph: dict[str, Any], tensors: dict[str, list[Any]]) -> list[Bounded]:
    """The graph's output on each rank. tensors: name -> one numpy array or torch tensor a rank (shards where sharded)."""
    world = len(next(iter(tensors.values())))
    results = []
    gathered: dict[str, Bounded] = {}
    for rank in range(world):
        values: dict[str, Bounded] = {}
        for spec in graph["inputs"]:
            name, dtype = spec["name"], spec["dtype"]
            if spec.get("shard", -1) >= 0:
                if name not in gathered:
                    whole = np.concatenate([unpack(t, dtype) for t in tensors[name]], axis=spec["shard"])
                    gathered[name] = Bounded(whole, np.zeros(()))
                values[name] = gathered[name]
            else:
                values[name] = Bounded(unpack(tensors[name][rank], dtype), np.zeros(()))
        for op in graph["ops"]:
            values[op["result"]] = _apply(op, [values[name] for name in op["inputs"]])
        results.append(_round(values[graph["output"]], graph.get("output_dtype", "bf16")))
    return results


@dataclass
class TileCheck:
    """Result of checking one output tile by tile."""

    tiles: int
    wrong_tiles: int
    worst_error: float       # largest |c - reference| of a tile / largest |reference| of that tile
    worst_tile: tuple[int, int]
    worst_of_bound: float    # largest |c - reference| / bound; at most 1 where correct


def check_tiles(output: np.ndarray, expected: Bounded, tile_m: int, tile_n: int) -> TileCheck:
    """Every element of every tile against its bound. NaN is wrong."""
    check = TileCheck(0, 0, 0.0, (0, 0), 0.0)
    for row in range(0, output.shape[0], tile_m):
        for column in range(0, output.shape[1], tile_n):
            part = np.s_[row : row + tile_m, column : column + tile_n]
            difference = np.abs(output[part] - expected.value[part])
            difference = np.where(np.isnan(difference), np.inf, difference)
            of_bound = float(np.max(difference / expected.bound[part]))
            error = float(np.max(difference) / max(float(np.max(np.abs(expected.value[part]))), 1e-300))
            check.tiles += 1
            check.wrong_tiles += of_bound > 1.0
            check.worst_of_bound = max(check.worst_of_bound, of_bound)
            if error > check.worst_error:
                check.worst_error, check.worst_tile = error, (row, column)
    return check
