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


def _attention(op: dict[str, Any], q: np.ndarray, k: np.ndarray, v: np.ndarray, dtype: str) -> tuple[Bounded, Bounded]:
    """Result, in the tensors' layout, and log-sum-exp [batch, heads, queries]."""
    first = op.get("layout", "bshd") == "bhsd"
    heads_first = (lambda x: x) if first else (lambda x: x.transpose(0, 2, 1, 3))
    q, k, v = heads_first(q), heads_first(k), heads_first(v)
    shared_by = q.shape[1] // max(k.shape[1], 1)
    k, v = np.repeat(k, shared_by, axis=1), np.repeat(v, shared_by, axis=1)
    scores = (q @ k.swapaxes(-1, -2)) * (op.get("scale") or 1.0 / math.sqrt(q.shape[-1]))
    if op.get("causal"):
        rows, keys = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
        scores = np.where(keys <= rows + op.get("causal_offset", 0), scores, -np.inf)
    maximum = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(maximum), 0.0, maximum))
    total = weights.sum(axis=-1, keepdims=True)
    weights /= np.where(total == 0, 1.0, total)
    with np.errstate(divide="ignore"):
        lse = (maximum + np.log(total))[..., 0]
    value, size = weights @ v, weights @ np.abs(v)
    # Weights are rounded to the tensors' dtype before they meet v. 2^-12: f32 scores and exp2 of their differences.
    bound = (_HALF_ULP[dtype] * 1.01 + 2.0**-12) * size + 1e-6
    lse_bound = 2e-5 + 2e-6 * np.where(np.isinf(lse), 0.0, np.abs(lse))
    return Bounded(heads_first(value), heads_first(bound)), Bounded(lse, lse_bound)


def _grouped_matmul(op: dict[str, Any], x: np.ndarray, w: np.ndarray, offs: np.ndarray, rows: np.ndarray | None = None,
                    second: np.ndarray | None = None) -> Bounded:
    """Expert by expert; rows gathered first where they are named."""
    if rows is not None:
        x = np.concatenate([x, second])[rows.astype(np.int64)] if second is not None else x[rows.astype(np.int64)]
    columns = w.shape[1] if op.get("transpose_b") else w.shape[2]
    value, bound = np.zeros((x.shape[0], columns)), np.zeros((x.shape[0], columns))
    first = 0
    for expert, last in enumerate(offs.astype(np.int64)):
        part = _matmul(op, Bounded(x[first:last], np.zeros(())), Bounded(w[expert], np.zeros(())))
        value[first:last], bound[first:last] = part.value, part.bound
        first = last
    return Bounded(value, bound)


def _round(x: Bounded, dtype: str) -> Bounded:
    error = np.abs(x.value) * _HALF_ULP[dtype] * 1.01 + _SMALLEST[dtype]
    return Bounded(x.value, x.bound * (1.0 + _HALF_ULP[dtype]) + error)


def _apply(op: dict[str, Any], inputs: list[Bounded]) -> Bounded:
    name, x = op["op"], inputs[0]
    if name == "all_gather":
        return x
    if name == "matmul":
        return _matmul(op, x, inputs[1])
    if name == "grouped_matmul":
        return _grouped_matmul(op, *(each.value for each in inputs))
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


def evaluate(graph: dict[str, Any], tensors: dict[str, list[Any]], output: str = "") -> list[Bounded]:
    """The graph's output on each rank, or another kept output. tensors: name -> one numpy array or torch tensor a rank
    (shards where sharded)."""
    dtypes = {graph["output"]: graph.get("output_dtype", "bf16"), **{o["name"]: o["dtype"] for o in graph.get("more_outputs", [])}}
    output = output or graph["output"]
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
            inputs = [values[name] for name in op["inputs"]]
            if op["op"] == "attention":
                dtype = next(spec["dtype"] for spec in graph["inputs"] if spec["name"] == op["inputs"][0])
                values[op["result"]], values[op.get("lse", "")] = _attention(op, *(x.value for x in inputs), dtype)
            else:
                values[op["result"]] = _apply(op, inputs)
        results.append(_round(values[output], dtypes[output]))
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
    """Every element of every tile against its bound. NaN is wrong. More than two dimensions count as rows but the last."""
    check = TileCheck(0, 0, 0.0, (0, 0), 0.0)
    columns = output.shape[-1]
    output = output.reshape(output.size // columns if columns else 0, columns)
    expected = Bounded(expected.value.reshape(output.shape), expected.bound.reshape(output.shape))
    for row in range(0, output.shape[0], tile_m):
        for column in range(0, output.shape[1], tile_n):
            part = np.s_[row : row + tile_m, column : column + tile_n]
            equal = output[part] == expected.value[part]   # infinities too
            with np.errstate(invalid="ignore"):
                difference = np.where(equal, 0.0, np.abs(output[part] - expected.value[part]))
            difference = np.where(np.isnan(difference), np.inf, difference)
            with np.errstate(invalid="ignore"):
                of_bound = float(np.max(np.where(equal, 0.0, difference / expected.bound[part])))
            finite = np.where(np.isinf(expected.value[part]), 0.0, np.abs(expected.value[part]))
            error = float(np.max(difference) / max(float(np.max(finite)), 1e-300))
            check.tiles += 1
            check.wrong_tiles += of_bound > 1.0
            check.worst_of_bound = max(check.worst_of_bound, of_bound)
            if error > check.worst_error:
                check.worst_error, check.worst_tile = error, (row, column)
    return check
