"""`@plait.jit`: traces a function of tensors, compiles it on the first call per signature and launches it.

The signature holds dtypes, N, K, topology, target, schedule and a *range* of M, never M itself: ranges are powers of two
from 256 on (or the one given by `m_max`), and each holds the few tiles that are best somewhere in it (compiler/choose).
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from . import _core
from .errors import ArgumentError
from .language import Trace
from .session import Report, Session, SimSession
from .tensor import View, empty, is_torch, view

_SMALLEST_M_RANGE = 256


def m_range(m: int) -> int:
    """Largest M of the range that m falls into."""
    return max(_SMALLEST_M_RANGE, 1 << max(m - 1, 0).bit_length())


@dataclass
class Compiled:
    """One signature's result: the traced graph, the request and the artifact."""

    graph: dict[str, Any]
    request: _core.Request
    artifact: _core.Artifact
    stats: dict[str, Any]
    choice: str                        # why this tile


@dataclass
class Call:
    """Arguments of one call: name -> one View a rank of this process."""

    views: dict[str, list[View]]
    ranks: int


@dataclass
class Warm:
    """What a call with CUDA tensors of known shapes needs: nothing is traced or measured again."""

    compiled: Compiled
    m: int
    order: list[int]                    # argument number of each of the artifact's tensors, -1: the output
    out_shape: tuple[int, ...]
    out_dtype: str


class JitFunction:
    """A traced function. Call it with tensors and `session=`; the result has one output per rank of this process."""

    def __init__(self, function: Callable[..., Any], schedule: Any, m_max: int | None, cache_dir: str) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._schedule = read_knobs(schedule)
        self._m_max = m_max
        self._cache_dir = cache_dir
        self._names = [parameter.name for parameter in inspect.signature(function).parameters.values()]
        self._compiled: dict[tuple[Any, ...], Compiled] = {}
        # By session, and gone with it: an id() may come again for a session of another topology.
        self._warm: weakref.WeakKeyDictionary[Session, dict[tuple[Any, ...], Warm]] = weakref.WeakKeyDictionary()
        self.last_report: Report | None = None

    @property
    def compiles(self) -> int:
        """Signatures compiled (or taken from the disk cache) so far."""
        return len(self._compiled)

    def trace(self, dtypes: dict[str, str], dims: dict[str, int]) -> tuple[dict[str, Any], Trace]:
        """The graph section for arguments of these dtypes and numbers of dims."""
        trace = Trace(self._function.__name__)
        values = [trace.add_input(name, dtypes[name], dims[name]) for name in self._names]
        return trace.graph(self._function(*values)), trace

    def __call__(self, *args: Any, session: SimSession | Session | None = None, out: Any = None, m: int | None = None) -> Any:
        """Runs the function.

        Args:
            args: tensors in the function's order. With a SimSession: a list of one CPU tensor a rank (a single tensor is
                every rank's). With a Session: this rank's CUDA tensor.
            session: where to run.
            out: output tensor(s) [M, N] to fill; by default new ones.
            m: rows of the gathered problem; by default what the arguments say. With a Session and a ragged M (the last
                rank has fewer rows) `m` or `out` must be given, alike on all ranks.

        Raises ArgumentError (shapes, dtypes), ScheduleError (a graph that cannot be fused: op and reason), CompileError,
        SimulationFault, StallError.
        """
        if session is None:
            raise ArgumentError(f"{self._function.__name__} needs a session",
                                'pass session=plait.SimSession("2x2"), or session=plait.Session() under torchrun')
        if isinstance(session, Session):
            warm = self._warm.setdefault(session, {}).get(self._shapes_of(args, out, m))
            if warm is not None:
                return self._launch_warm(warm, args, session, out)
        if len(args) != len(self._names):
            raise ArgumentError(f"{self._function.__name__} takes {len(self._names)} tensors, {len(args)} given", "")
        call = self._collect(args, session)
        outs = None if out is None else self._as_list("out", out, session)
        for i, given in enumerate(outs or []):
            placed_view(given, f"out[{i}]", session)
        compiled, rows = self._compile_for(call, outs, session, m)
        result = self._launch(compiled, call, outs, session, rows, args)
        if isinstance(session, Session):
            names = [name if not output else "" for name, _, output in compiled.artifact.tensors]
            order = [self._names.index(name) if name else -1 for name in names]
            made = view(result)
            self._warm[session][self._shapes_of(args, out, m)] = Warm(compiled, rows, order, made.shape, made.dtype)
        return result

    @staticmethod
    def _shapes_of(args: tuple[Any, ...], out: Any, m: int | None) -> tuple[Any, ...]:
        """Everything of a call that the checks and the compiled signature depend on, but for the pointers."""
        tensors = args if out is None else (*args, out)
        return (m, out is None,
                *((t.shape, t.dtype, t.device, t.is_contiguous()) if is_torch(t) else None for t in tensors))

    @staticmethod
    def _launch_warm(warm: Warm, args: tuple[Any, ...], session: Any, out: Any) -> Any:
        result = empty(warm.out_shape, warm.out_dtype, args[0]) if out is None else out
        session.launch(warm.compiled.artifact, warm.m, [view(result if i < 0 else args[i]) for i in warm.order])
        return result

    def _as_list(self, name: str, value: Any, session: Any) -> list[Any]:
        if not isinstance(session, SimSession):
            return [value]
        ranks = list(value) if isinstance(value, (list, tuple)) else [value] * session.world
        if len(ranks) != session.world:
            raise ArgumentError(f"{name} has {len(ranks)} tensors, the cluster {session.world} ranks", "pass one tensor a rank")
        return ranks

    def _collect(self, args: tuple[Any, ...], session: Any) -> Call:
        views: dict[str, list[View]] = {}
        for name, value in zip(self._names, args):
            ranks = [placed_view(t, f"{name}[{i}]", session) for i, t in enumerate(self._as_list(name, value, session))]
            for i, rank in enumerate(ranks):
                if rank.dtype != ranks[0].dtype or len(rank.shape) != len(ranks[0].shape):
                    raise ArgumentError(f"{name}[{i}] is {rank.dtype} {list(rank.shape)}, {name}[0] is {ranks[0].dtype} "
                                        f"{list(ranks[0].shape)}", "all ranks pass the same dtype and number of dims")
            views[name] = ranks
        return Call(views, session.world if isinstance(session, SimSession) else 1)

    def _compile_for(self, call: Call, outs: list[Any] | None, session: Any, m: int | None) -> tuple[Compiled, int]:
        dtypes = {name: ranks[0].dtype for name, ranks in call.views.items()}
        dims = {name: len(ranks[0].shape) for name, ranks in call.views.items()}
        graph, trace = self.trace(dtypes, dims)
        sizes = measure(trace, call, session, m, outs)
        m_max = self._m_max or m_range(sizes["M"])
        if sizes["M"] > m_max:
            raise ArgumentError(f"M = {sizes['M']} is above m_max = {m_max}", "raise m_max of @plait.jit")
        name = re.sub(r"\W+", "_", self._function.__name__).strip("_") or "kernel"
        text = json.dumps(schedule_file(name, graph, m_max, sizes["N"], sizes["K"]))
        request = _core.Request(text, f"@plait.jit {self._function.__name__}", session.topology, session.target, self._schedule)
        # The range sizes storage; M itself chooses the tile. Few tiles are best for any M of a range.
        reason, tile = request.choose(sizes["M"])
        key = (tuple(dtypes.items()), tuple(dims.items()), sizes["N"], sizes["K"], m_max, tuple(tile.items()), session.target,
               session.topology.to_json())
        if key not in self._compiled:
            artifact, stats = request.compile(self._cache_dir)
            self._compiled[key] = Compiled(graph, request, artifact, stats, reason)
        return self._compiled[key], sizes["M"]

    def _launch(self, compiled: Compiled, call: Call, outs: list[Any] | None, session: Any, m: int, args: tuple[Any, ...]) -> Any:
        first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
        ranks = range(call.ranks) if isinstance(session, SimSession) else [session.rank]
        bound, results = [], []
        for position, rank in enumerate(ranks):
            tensors = []
            shapes = _core.tensor_shapes(compiled.artifact, rank, m)
            for (name, dtype, output), shape in zip(compiled.artifact.tensors, shapes):
                if output:
                    results.append(outs[position] if outs else empty(tuple(shape), dtype, first))
                    tensors.append(view(results[-1], "out"))
                else:
                    tensors.append(call.views[name][position])
            bound.append(tensors)
        if isinstance(session, SimSession):
            self.last_report = session.launch(compiled.artifact, m, bound)
            return results
        session.launch(compiled.artifact, m, bound[0])
        return results[0]


def placed_view(value: Any, name: str, session: Any) -> View:
    """The View of a tensor that lies where the session runs: in host memory, or on the Session's own GPU."""
    made = view(value, name)
    wanted = "cpu" if isinstance(session, SimSession) else f"cuda:{session.device}"
    lies = str(value.device) if is_torch(value) else made.device
    if lies != wanted:
        raise ArgumentError(f"{name} lies on {lies}, this session takes {wanted} tensors", "")
    return made


def measure(trace: Trace, call: Call, session: Any, m: int | None, outs: list[Any] | None) -> dict[str, int]:
    """M, N and K from the arguments' shapes. ArgumentError where two arguments disagree."""
    sizes: dict[str, int] = {}
    origins: dict[str, str] = {}
    given = m if m is not None else (view(outs[0], "out").shape[0] if outs else None)
    for value in trace.inputs:
        shard = trace.shards.get(value.name, -1)
        ranks = call.views[value.name]
        for index, dim in enumerate(value.dims):
            letter = dim.root().name
            if not letter:
                continue
            size = ranks[0].shape[index]
            if letter == "2 * N":
                if size % 2:
                    raise ArgumentError(f"{value.name}.shape[{index}] is {size}, silu_mul halves it", "pass an even number of columns")
                letter, size = "N", size // 2
            if index == shard:
                size = sum(r.shape[index] for r in ranks) if isinstance(session, SimSession) else size * session.world
                if given is not None:   # the runtime checks every rank's rows against M
                    size = given
            name = f"{value.name}.shape[{index}]"
            if sizes.setdefault(letter, size) != size:
                raise ArgumentError(f"{letter} is {sizes[letter]} in {origins[letter]} and {size} in {name}", "")
            origins.setdefault(letter, name)
    for letter in "MNK":   # a graph without matmul: any size will do for the compiler to say what is missing
        sizes.setdefault(letter, 8)
    return sizes


def schedule_file(name: str, graph: dict[str, Any], m_max: int, n: int, k: int) -> dict[str, Any]:
    """A schedule file with this graph and no knobs set."""
    return {"graph": {"name": name, **graph}, "schedule": {}, "problem": {"m_max": m_max, "n": n, "k": k}}


def read_knobs(schedule: Any) -> dict[str, str]:
    """Knobs as text, from a dict, the path of a schedule file, or None."""
    if schedule is None:
        return {}
    if isinstance(schedule, (str, Path)):
        schedule = json.loads(Path(schedule).read_text()).get("schedule", {})
    return {str(knob): str(value) for knob, value in schedule.items()}


def jit(function: Callable[..., Any] | None = None, *, schedule: Any = None, m_max: int | None = None,
        cache_dir: str = "") -> Any:
    """Compiles a function of sharded tensors into one fused kernel per rank.

    Args:
        function: takes tensors, returns one traced value, e.g.
            `return plait.gelu(plait.all_gather(a, dim=0) @ b + bias)` with a [M/world, K] per rank, b [K, N], bias [N];
            the result is [M, N] on every rank.
        schedule: knobs (dict) or the path of a schedule file; never changes the result.
        m_max: largest M; by default the power of two that holds the first call's M.
        cache_dir: the disk cache; by default the setting PLAIT_CACHE_DIR, else ~/.cache/plait.
    """
    if function is None:
        return functools.partial(jit, schedule=schedule, m_max=m_max, cache_dir=cache_dir)
    return JitFunction(function, schedule, m_max, cache_dir)
