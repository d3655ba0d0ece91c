"""Traced ops: what a function under `@plait.jit` may do with its tensors.

Calling the function with Values records one op per call, with the line of the user's file, into a Graph. Nothing is
computed here, and whether the graph can be fused is the compiler's verdict (compiler/verify); this module only checks
what a trace itself can get wrong: ranks of tensors and dims that do not agree.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import ArgumentError, ScheduleError

_PACKAGE = str(Path(__file__).resolve().parent)


def user_line() -> str:
    """`file.py:12` of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame is not None and str(Path(frame.f_code.co_filename).resolve()).startswith(_PACKAGE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""


@dataclass
class Dim:
    """One dimension. Dims that an op makes equal are joined; a joined set carries at most one name: M, N or K, a launch
    argument (keys, batch), or `static:x`, a number that belongs to the graph."""

    origin: str
    parent: Dim | None = None
    name: str = ""

    def root(self) -> Dim:
        return self if self.parent is None else self.parent.root()

    def join(self, other: Dim, where: str) -> None:
        mine, theirs = self.root(), other.root()
        if mine is theirs:
            return
        if mine.name and theirs.name and mine.name != theirs.name:
            raise ScheduleError(
                f"{where}: {self.origin} is {mine.name} and {other.origin} is {theirs.name}, and the op makes them equal",
                "check for a missing transpose",
            )
        mine.name = mine.name or theirs.name
        theirs.parent = mine


@dataclass(eq=False)
class Value:
    """A traced tensor. `@`, `+`, `*` and `.T` record ops; python control flow on it is not possible."""

    trace: Trace
    name: str
    dtype: str
    dims: list[Dim]
    is_input: bool = False
    transposed: bool = False
    folded: bool = False     # dims but the last are the rows of one matrix

    __array_ufunc__ = None   # numpy must not take the other side of an operator

    @property
    def T(self) -> Value:  # noqa: N802: numpy's and torch's name
        if not self.is_input or len(self.dims) != 2:
            raise ScheduleError(f"{user_line()}: .T of {self.name}: only a matrix argument can be transposed", "")
        return Value(self.trace, self.name, self.dtype, self.dims[::-1], True, not self.transposed)

    @property
    def mT(self) -> Value:  # noqa: N802: numpy's and torch's name
        if not self.is_input or len(self.dims) not in (2, 3):
            raise ScheduleError(f"{user_line()}: .mT of {self.name}: only an argument with 2 or 3 dims can be transposed", "")
        dims = [*self.dims[:-2], self.dims[-1], self.dims[-2]]
        return Value(self.trace, self.name, self.dtype, dims, True, not self.transposed)

    def __matmul__(self, other: Value) -> Value:
        return matmul(self, other)

    def __add__(self, other: Value) -> Value:
        return _add(self, other)

    __radd__ = __add__

    def __mul__(self, factor: float) -> Value:
        if not isinstance(factor, (int, float)):
            raise ScheduleError(f"{user_line()}: * with a {type(factor).__name__}", "scale by a python number")
        return self.trace.record("scale", [self], self.dims, self.dtype, value=float(factor))

    __rmul__ = __mul__

    def fold(self) -> None:
        """Makes a batch of matrices (an argument with more than 2 dims) the one matrix of all its rows."""
        if self.is_input and len(self.dims) > 2:
            self.dims = [Dim(f"rows of {self.name}"), self.dims[-1]]
            self.folded = True

    def __bool__(self) -> bool:
        raise ScheduleError(f"{user_line()}: the truth of traced value {self.name} is not known", "trace has no branches")


@dataclass
class Trace:
    """The ops recorded so far; `graph()` turns them into the compiler's graph section."""

    name: str
    inputs: list[Value] = field(default_factory=list)
    shards: dict[str, int] = field(default_factory=dict)
    ops: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def add_input(self, name: str, dtype: str, rank: int) -> Value:
        dims = [Dim(f"{name}.shape[{i}]") for i in range(rank)]
        self.inputs.append(Value(self, name, dtype, dims, is_input=True))
        return self.inputs[-1]

    def record(self, op: str, values: list[Value], dims: list[Dim], result_dtype: str, **attributes: Any) -> Value:
        line = user_line()
        for value in values:
            if not isinstance(value, Value):
                raise ScheduleError(f"{line}: {op} of a {type(value).__name__}", "all operands are traced tensors")
            if value.trace is not self:
                raise ScheduleError(f"{line}: {op} of {value.name}, which belongs to another trace", "")
            if value.transposed and op not in ("matmul", "grouped_matmul"):
                raise ScheduleError(f"{line}: {op} of a transposed tensor {value.name}", "only matmul takes x.T, and grouped_matmul w.mT")
        taken = {value.name for value in self.inputs}
        result = op if op not in self.counts and op not in taken else f"{op}_{self.counts.get(op, 0)}"
        self.counts[op] = self.counts.get(op, 0) + 1
        self.ops.append({"op": op, "result": result, "inputs": [v.name for v in values], "source": line, **attributes})
        return Value(self, result, result_dtype, list(dims))

    def graph(self, output: Value | tuple[Value, ...]) -> dict[str, Any]:
        """The graph section of a schedule file. Dims are named by the op that gives them meaning; those that belong to
        the graph stand as `static:...`, for the caller to put numbers in."""
        output, *more = output if isinstance(output, tuple) else (output,)
        for value in (output, *more):
            if not isinstance(value, Value):
                raise ScheduleError(f"{self.name} returned a {type(value).__name__}", "return traced tensors")
            if value.is_input:
                raise ScheduleError(f"{self.name} returns its argument {value.name} unchanged", "")
        kept = {"more_outputs": [{"name": value.name, "dtype": value.dtype} for value in more]} if more else {}
        return {
            **kept,
            "inputs": [
                {
                    "name": value.name,
                    "dtype": value.dtype,
                    "shape": [dim.root().name or "unknown" for dim in value.dims],
                    "shard": self.shards.get(value.name, -1),
                }
                for value in self.inputs
            ],
            "ops": self.ops,
            "output": output.name,
            "output_dtype": output.dtype,
        }


def all_gather(x: Value, dim: int = 0) -> Value:
    """x with the shards of all ranks along `dim`: x [M/world, K] on each rank -> [M, K]. Dims but the last are folded:
    x [B/world, S, K] -> [B, S, K], where every rank's rows must be a shard of B * S rows."""
    trace = x.trace
    if dim == 0:
        x.fold()
    result = trace.record("all_gather", [x], x.dims, x.dtype, dim=dim)
    if x.is_input:
        trace.shards[x.name] = dim
    return result


def matmul(a: Value, b: Value) -> Value:
    """a [M, K] @ b [K, N] -> [M, N], accumulated in f32, rounded once to a's dtype at the end. Either may be x.T of an argument:
    b [N, K], or a [K, M], whose M must then be a multiple of 8 in every launch.

    Dims of a but the last are folded: a [B, S, K] @ b [K, N] -> [B, S, N]."""
    line = user_line()
    if isinstance(a, Value):
        a.fold()
    for value in (a, b):
        if not isinstance(value, Value) or len(value.dims) != 2:
            what = f"{value.name} with {len(value.dims)} dims" if isinstance(value, Value) else type(value).__name__
            raise ScheduleError(f"{line}: matmul of {what}", "both operands are matrices")
    for dim, name in ((a.dims[0], "M"), (a.dims[1], "K"), (b.dims[1], "N")):
        if not dim.root().name:
            dim.root().name = name
    a.dims[1].join(b.dims[0], line)
    return a.trace.record("matmul", [a, b], [a.dims[0], b.dims[1]], a.dtype,
                          transpose_a=a.transposed, transpose_b=b.transposed)


def grouped_matmul(x: Value, w: Value, offs: Value, *, rows: Value | None = None, second: Value | None = None) -> Value:
    """Rows of each expert's segment times its weights: out[i] = x[i] @ w[e] for offs[e - 1] <= i < offs[e]; in one kernel.

    Args:
        x: [M, K], sorted by expert, bf16 or f16. With `rows`: [tokens, K], in any order.
        w: [experts, K, N], or w.mT with w [experts, N, K]; x's dtype.
        offs: [experts] int32 on the device: the row after each expert's last one, ascending, the last one M. The host never
            reads it: a table that does not add up is reported by the session (`check()` on GPUs) as an ArgumentError.
        rows: [M] int32: row i is row rows[i] of x, or, from `tokens` on, row rows[i] - tokens of `second`. Nothing is copied.
        second: [second_tokens, K].

    Experts may have no rows. M, experts and tokens are launch arguments. Returns [M, N] in x's dtype, accumulated in f32.
    """
    line = user_line()
    for name, value, rank in (("x", x, 2), ("w", w, 3), ("offs", offs, 1), ("rows", rows, 1), ("second", second, 2)):
        if value is None and name in ("rows", "second"):
            continue
        if not isinstance(value, Value) or len(value.dims) != rank:
            what = f"{value.name} with {len(value.dims)} dims" if isinstance(value, Value) else f"a {type(value).__name__}"
            raise ScheduleError(f"{line}: grouped_matmul with {what} as {name}", f"{name} has {rank} dim{'s' if rank > 1 else ''}")
        if value.transposed and name != "w":
            raise ScheduleError(f"{line}: grouped_matmul with {value.name} transposed as {name}", "store it row-major")
        if (value.dtype == "i32") != (name in ("offs", "rows")):
            raise ScheduleError(f"{line}: grouped_matmul with {value.name} of dtype {value.dtype} as {name}",
                                "offs and rows are int32, everything else bf16 or f16")
    if second is not None and rows is None:
        raise ScheduleError(f"{line}: grouped_matmul with a second x and no rows", "rows says which row lies where")
    for value, dims in ((x, ("M" if rows is None else "tokens", "K")), (w, ("experts", "K", "N")), (offs, ("experts",)),
                        (rows, ("M",)), (second, ("second_tokens", "K"))):
        for dim, name in zip(value.dims if value is not None else (), dims):
            dim.join(Dim(name, name=name), line)
    m = x.dims[0] if rows is None else rows.dims[0]
    inputs = [value for value in (x, w, offs, rows, second) if value is not None]
    return x.trace.record("grouped_matmul", inputs, [m, w.dims[2]], x.dtype, transpose_b=w.transposed)


def _add(x: Value, y: Value) -> Value:
    line = user_line()
    if not isinstance(x, Value) or not isinstance(y, Value):
        other = y if isinstance(x, Value) else x
        raise ScheduleError(f"{line}: + with a {type(other).__name__}", "add a vector [N] (bias) or a matrix [M, N]")
    if (x.is_input and not y.is_input) or (x.is_input == y.is_input and len(x.dims) < len(y.dims)):
        x, y = y, x
    if len(x.dims) == 2:
        y.fold()
    if len(x.dims) != 2 or len(y.dims) not in (1, 2):
        raise ScheduleError(f"{line}: + of {x.name} with {len(x.dims)} dims and {y.name} with {len(y.dims)}", "")
    for mine, theirs in zip(reversed(x.dims), reversed(y.dims)):
        mine.join(theirs, line)
    return x.trace.record("bias" if len(y.dims) == 1 else "residual", [x, y], x.dims, x.dtype)


def attention(q: Value, k: Value, v: Value, *, causal: bool = False, causal_offset: int = 0, scale: float | None = None,
              layout: str = "bshd", lse: bool = False) -> Any:
    """softmax(scale * q k^T) v of every head, in one kernel; nothing of size [queries, keys] touches memory.

    Args:
        q: [batch, queries, heads, head_dim] (layout `bshd`) or [batch, heads, queries, head_dim] (`bhsd`), bf16 or f16,
            head_dim 64, 128 or 256.
        k, v: the same with keys in place of queries; fewer heads are shared by heads / kv_heads query heads each.
        causal: query i sees key j where j <= i + causal_offset.
        scale: a positive number; by default 1 / sqrt(head_dim).
        lse: also return the natural log-sum-exp of each row, [batch, heads, queries] in f32.

    Batch, queries and keys are launch arguments. A row that sees no key gives 0 and -inf. Returns the result, in q's
    layout and dtype, or (result, log-sum-exp).
    """
    line = user_line()
    for name, value in (("q", q), ("k", k), ("v", v)):
        if not isinstance(value, Value) or len(value.dims) != 4:
            what = f"{value.name} with {len(value.dims)} dims" if isinstance(value, Value) else f"a {type(value).__name__}"
            raise ScheduleError(f"{line}: attention with {what} as {name}", "q, k and v have 4 dims")
    if layout not in ("bshd", "bhsd"):
        raise ArgumentError(f"{line}: attention layout {layout!r}", "use bshd or bhsd")
    if scale is not None and not (isinstance(scale, (int, float)) and scale > 0):
        raise ArgumentError(f"{line}: attention scale {scale!r}", "a positive number, or None for 1 / sqrt(head_dim)")
    rows, heads = (1, 2) if layout == "bshd" else (2, 1)
    for value, length, of in ((q, "M", "heads"), (k, "keys", "kv_heads"), (v, "keys", "kv_heads")):
        for index, name in ((0, "batch"), (rows, length), (heads, f"static:{of}"), (3, "static:head_dim")):
            named = Dim(name, name=name)
            value.dims[index].join(named, line)
    attributes: dict[str, Any] = {"layout": layout}
    if causal:
        attributes["causal"] = True
    if causal_offset:
        attributes["causal_offset"] = int(causal_offset)
    if scale is not None:
        attributes["scale"] = float(scale)
    result = q.trace.record("attention", [q, k, v], q.dims, q.dtype, **attributes)
    if not lse:
        return result
    q.trace.ops[-1]["lse"] = f"{result.name}_lse"
    return result, Value(q.trace, f"{result.name}_lse", "f32", [q.dims[0], q.dims[heads], q.dims[rows]])


def relu(x: Value) -> Value:
    """max(x, 0)."""
    return x.trace.record("relu", [x], x.dims, x.dtype)


def gelu(x: Value) -> Value:
    """x * Phi(x), with the error function."""
    return x.trace.record("gelu", [x], x.dims, x.dtype)


def gelu_tanh(x: Value) -> Value:
    """The tanh approximation of gelu."""
    return x.trace.record("gelu_tanh", [x], x.dims, x.dtype)


def silu(x: Value) -> Value:
    """x * sigmoid(x)."""
    return x.trace.record("silu", [x], x.dims, x.dtype)


def silu_mul(x: Value) -> Value:
    """SwiGLU's gate: silu of the left half of x's columns times the right half. x [M, 2 N], the result of a matmul with
    weights [gate | up], -> [M, N]. Both halves stay in f32 until they meet; no [M, 2 N] tensor is made."""
    whole = x.dims[-1].root()
    if len(x.dims) != 2 or whole.name != "N" or x.is_input:
        raise ScheduleError(f"{user_line()}: silu_mul of {x.name}, which is not the result of a matmul", "plait.silu_mul(x @ w)")
    whole.name = "2 * N"
    half = Dim(f"half of {whole.origin}", name="N")
    return x.trace.record("silu_mul", [x], [x.dims[0], half], x.dtype)


def cast(x: Value, dtype: str) -> Value:
    """x rounded to `dtype` (bf16, f16, f32), nearest, ties to even."""
    if dtype not in ("bf16", "f16", "f32"):
        raise ArgumentError(f"{user_line()}: cast to {dtype!r}", "use bf16, f16 or f32")
    return x.trace.record("cast", [x], x.dims, dtype, dtype=dtype)
