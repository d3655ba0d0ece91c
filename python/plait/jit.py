"""`@plait.jit`: traces a function of tensors, compiles it on the first call per signature and launches it.

The signature holds dtypes, N, K, topology, target, schedule and a *range* of M, never M itself: ranges are powers of two
from 256 on (or the one given by `m_max`), and each holds the few tiles that are best somewhere in it (compiler/choose). Further
launch arguments (keys and batch of attention) have ranges of their own; numbers that belong to the graph (heads, head dim) are in
the signature.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import re
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from . import _core
from .errors import ArgumentError
from .language import Trace
from .session import Report, Session, SimSession
from .tensor import View, address, empty, is_torch, layout_key, view

_SMALLEST_M_RANGE = 256
_SMALLEST_BATCH_RANGE = 16
_STATIC = "static:"   # dims that the graph holds as numbers, see language.Dim


def m_range(m: int, smallest: int = _SMALLEST_M_RANGE) -> int:
    """Largest M of the range that m falls into."""
    return max(smallest, 1 << max(m - 1, 0).bit_length())


def limits_of(sizes: dict[str, int]) -> dict[str, int]:
    """Launch arguments beside M, each with the largest value of its range."""
    return {name: m_range(size, _SMALLEST_BATCH_RANGE if name == "batch" else _SMALLEST_M_RANGE)
            for name, size in sizes.items() if name not in ("M", "N", "K") and not name.startswith(_STATIC)}


@dataclass
class Compiled:
    """One signature's result: the traced graph, the request and the artifact."""

    graph: dict[str, Any]
    request: _core.Request
    artifact: _core.Artifact
    stats: dict[str, Any]
    choice: str                        # why this tile
    folded: list[bool] = field(default_factory=list)   # of each argument


@dataclass
class Call:
    """Arguments of one call: name -> one View a rank of this process."""

    views: dict[str, list[View]]
    ranks: int
    inner: tuple[int, ...] | None = None    # dims between the first and the last of batched arguments, the same in all of them

    def fold(self, trace: Trace) -> None:
        """Views of arguments that the trace folds become matrices. ArgumentError where their inner dims differ."""
        given_by = ""
        for value in trace.inputs:
            if not value.folded:
                continue
            for rank, made in enumerate(self.views[value.name]):
                inner = made.shape[1:-1]
                if self.inner is None:
                    self.inner, given_by = inner, made.name
                if inner != self.inner:
                    raise ArgumentError(f"{made.name} has dims {list(made.shape)}, {given_by} has {list(self.inner)} between first and last",
                                        "batched arguments agree in all dims but the first and the last")
                self.views[value.name][rank] = made.folded()

    def unfold(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that a result has for the caller: that of the batched arguments, where there are any."""
        if self.inner is None:
            return shape
        (rows, columns), size = shape, math.prod(self.inner)
        if size == 0 or rows % size:
            raise ArgumentError(f"{rows} rows of {name} are no whole batches of {list(self.inner)}", "pass an m that is a multiple of the batch's rows")
        return rows // size, *self.inner, columns


@dataclass
class Warm:
    """What a Session's call with tensors of known shapes needs: nothing is traced, measured or looked at again but addresses."""

    compiled: Compiled
    m: int
    order: list[int]                    # argument number of each of the artifact's tensors, -1 - n: output n
    layouts: list[tuple[Any, ...]]      # of each of the artifact's tensors: what stands behind the address in View.as_tuple
    out_shapes: list[tuple[int, ...]]
    out_dtypes: list[str]


class JitFunction:
    """A traced function. Call it with tensors and `session=`; the result has one output per rank of this process, a tuple
    where the function returns one."""

    def __init__(self, function: Callable[..., Any], schedule: Any, m_max: int | None, cache_dir: str,
                 cache_mode: str = "", record_requests: str = "") -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._schedule = read_knobs(schedule)
        self._m_max = m_max
        self._cache = (cache_dir, cache_mode, record_requests)
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
                every rank's). With a Session: this rank's tensor, or a list of it; with a list the result is one, too.
            session: where to run.
            out: output tensor(s) to fill, a tuple where the function returns one; by default new ones.
            m: rows of the gathered problem; by default what the arguments say. With a Session and a ragged M (the last
                rank has fewer rows) `m` or `out` must be given, alike on all ranks.

        Raises ArgumentError (shapes, dtypes), ScheduleError (a graph that cannot be fused: op and reason), CompileError,
        SimulationFault, StallError.
        """
        if session is None:
            raise ArgumentError(f"{self._function.__name__} needs a session",
                                'pass session=plait.open_session(), which takes torchrun\'s processes where there are any, or plait.SimSession("2x2")')
        listed = isinstance(session, Session) and any(isinstance(given, list) for given in (*args, out))
        if listed:
            args, out = tuple(own_of(given, session) for given in args), own_of(out, session)
        result = self._call(args, session, out, m)
        return [result] if listed else result

    def _call(self, args: tuple[Any, ...], session: SimSession | Session, out: Any, m: int | None) -> Any:
        if isinstance(session, Session):
            warm = self._warm.setdefault(session, {}).get(self._shapes_of(args, out, m))
            if warm is not None:
                return self._launch_warm(warm, args, session, out)
        if len(args) != len(self._names):
            raise ArgumentError(f"{self._function.__name__} takes {len(self._names)} tensors, {len(args)} given", "")
        call = self._collect(args, session)
        outs = None if out is None else [as_tuple(given) for given in self._as_list("out", out, session)]
        for i, given in enumerate(outs or []):
            for tensor in given:
                placed_view(tensor, f"out[{i}]", session)
        compiled, sizes = self._compile_for(call, outs, session, m)
        result = self._launch(compiled, call, outs, session, sizes, args)
        if isinstance(session, Session):
            made = [view(tensor) for tensor in as_tuple(result)]
            order, outputs = [], 0
            for name, _, output in compiled.artifact.tensors:
                order.append(-1 - outputs if output else self._names.index(name))
                outputs += output
            given = [made[-1 - i] if i < 0 else view(args[i]) for i in order]
            folds = [any(compiled.folded) if i < 0 else compiled.folded[i] for i in order]
            layouts = [(v.folded() if fold else v).as_tuple()[1:] for v, fold in zip(given, folds)]
            self._warm[session][self._shapes_of(args, out, m)] = Warm(
                compiled, sizes["M"], order, layouts, [v.shape for v in made], [v.dtype for v in made])
        return result

    @staticmethod
    def _shapes_of(args: tuple[Any, ...], out: Any, m: int | None) -> tuple[Any, ...]:
        """Everything of a call that the checks and the compiled signature depend on, but for the pointers."""
        tensors = args if out is None else (*args, *as_tuple(out))
        return (m, out is None, *[layout_key(t) for t in tensors])

    @staticmethod
    def _launch_warm(warm: Warm, args: tuple[Any, ...], session: Any, out: Any) -> Any:
        results = as_tuple(out) if out is not None else tuple(
            empty(shape, dtype, args[0]) for shape, dtype in zip(warm.out_shapes, warm.out_dtypes))
        tensors = [results[-1 - i] if i < 0 else args[i] for i in warm.order]
        session.enqueue(warm.compiled.artifact, warm.m, [(address(t), *layout) for t, layout in zip(tensors, warm.layouts)], tensors)
        return results if len(results) > 1 else results[0]

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

    def _compile_for(self, call: Call, outs: list[Any] | None, session: Any, m: int | None) -> tuple[Compiled, dict[str, int]]:
        dtypes = {name: ranks[0].dtype for name, ranks in call.views.items()}
        dims = {name: len(ranks[0].shape) for name, ranks in call.views.items()}
        graph, trace = self.trace(dtypes, dims)
        call.fold(trace)
        sizes = measure(trace, call, session, m, outs)
        m_max = self._m_max or m_range(sizes["M"])
        if sizes["M"] > m_max:
            raise ArgumentError(f"M = {sizes['M']} is above m_max = {m_max}", "raise m_max of @plait.jit")
        static = tuple((name, size) for name, size in sizes.items() if name.startswith(_STATIC))
        limits = limits_of(sizes)
        for tensor in graph["inputs"]:
            tensor["shape"] = [sizes[dim] if dim.startswith(_STATIC) else dim for dim in tensor["shape"]]
        name = re.sub(r"\W+", "_", self._function.__name__).strip("_") or "kernel"
        text = json.dumps(schedule_file(name, graph, m_max, sizes["N"], sizes["K"], limits))
        request = _core.Request(text, f"@plait.jit {self._function.__name__}", session.topology, session.target, self._schedule)
        # The range sizes storage; M itself chooses the tile. Few tiles are best for any M of a range.
        reason, tile = request.choose(sizes["M"])
        key = (tuple(dtypes.items()), tuple(dims.items()), sizes["N"], sizes["K"], static, m_max, tuple(limits.items()),
               tuple(tile.items()), session.target, session.topology.to_json())
        if key not in self._compiled:
            artifact, stats = request.compile(*self._cache)
            self._compiled[key] = Compiled(graph, request, artifact, stats, reason, [value.folded for value in trace.inputs])
        return self._compiled[key], sizes

    def _launch(self, compiled: Compiled, call: Call, outs: list[Any] | None, session: Any, sizes: dict[str, int],
                args: tuple[Any, ...]) -> Any:
        m, params = sizes["M"], {name: sizes[name] for name in limits_of(sizes)}
        first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
        ranks = range(call.ranks) if isinstance(session, SimSession) else [session.rank]
        bound, results = [], []
        for position, rank in enumerate(ranks):
            tensors, made = [], []
            shapes = _core.tensor_shapes(compiled.artifact, rank, m, params)
            count = sum(output for _, _, output in compiled.artifact.tensors)
            if outs and len(outs[position]) != count:
                raise ArgumentError(f"out[{position}] has {len(outs[position])} tensors, the function returns {count}", "")
            for (name, dtype, output), shape in zip(compiled.artifact.tensors, shapes):
                if output:
                    made.append(outs[position][len(made)] if outs else empty(call.unfold(name, tuple(shape)), dtype, first))
                    given = view(made[-1], "out")
                    tensors.append(given if call.inner is None else given.folded())
                else:
                    tensors.append(call.views[name][position])
            bound.append(tensors)
            results.append(tuple(made) if count > 1 else made[0])
        if isinstance(session, SimSession):
            self.last_report = session.launch(compiled.artifact, m, bound)
            return results
        session.launch(compiled.artifact, m, bound[0])
        return results[0]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """The tensors of one rank's result."""
    return value if isinstance(value, tuple) else (value,)


def placed_view(value: Any, name: str, session: Any) -> View:
    """The View of a tensor that lies where the session runs: in host memory, or on the Session's own GPU."""
    made = view(value, name)
    lies = str(value.device) if is_torch(value) else made.device
    if lies != session.place:
        raise ArgumentError(f"{name} lies on {lies}, this session takes {session.place} tensors", "")
    return made


def own_of(given: Any, session: Session) -> Any:
    """This rank's tensor, or tuple of outputs, of a list with one for each of session.ranks; anything else as it is."""
    if not isinstance(given, list):
        return given
    if len(given) != 1:
        raise ArgumentError(f"a list of {len(given)} tensors was given, this process has rank {session.rank} alone",
                            "pass one tensor for each of session.ranks")
    return given[0]


def measure(trace: Trace, call: Call, session: Any, m: int | None, outs: list[Any] | None) -> dict[str, int]:
    """M, N, K, further launch arguments and the graph's own numbers from the arguments' shapes. ArgumentError where two
    arguments disagree."""
    sizes: dict[str, int] = {}
    origins: dict[str, str] = {}
    given = m if m is not None else (rows_of(outs[0][0], call) if outs else None)
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
                what = letter.removeprefix(_STATIC)
                raise ArgumentError(f"{what} is {sizes[letter]} in {origins[letter]} and {size} in {name}", "")
            origins.setdefault(letter, name)
    unnamed = 0 if limits_of(sizes) else 8   # a graph without matmul: any size will do for the compiler to say what is missing
    for letter in "MNK":
        sizes.setdefault(letter, unnamed)
    return sizes


def rows_of(out: Any, call: Call) -> int:
    """Rows of the output: of all batches, where the arguments are batched."""
    shape = view(out, "out").shape
    return shape[0] if call.inner is None else math.prod(shape[:-1])


def schedule_file(name: str, graph: dict[str, Any], m_max: int, n: int, k: int, limits: dict[str, int] | None = None) -> dict[str, Any]:
    """A schedule file with this graph and no knobs set."""
    problem: dict[str, Any] = {"m_max": m_max, "n": n, "k": k}
    return {"graph": {"name": name, **graph}, "schedule": {}, "problem": {**problem, **({"limits": limits} if limits else {})}}


def read_knobs(schedule: Any) -> dict[str, str]:
    """Knobs as text, from a dict, the path of a schedule file, or None."""
    if schedule is None:
        return {}
    if isinstance(schedule, (str, Path)):
        schedule = json.loads(Path(schedule).read_text()).get("schedule", {})
    return {str(knob): str(value) for knob, value in schedule.items()}


def jit(function: Callable[..., Any] | None = None, *, schedule: Any = None, m_max: int | None = None,
        cache_dir: str = "", cache_mode: str = "", record_requests: str = "") -> Any:
    """Compiles a function of sharded tensors into one fused kernel per rank.

    Args:
        function: takes tensors, returns one traced value, e.g.
            `return plait.gelu(plait.all_gather(a, dim=0) @ b + bias)` with a [M/world, K] per rank, b [K, N], bias [N];
            the result is [M, N] on every rank.
        schedule: knobs (dict) or the path of a schedule file; never changes the result.
        m_max: largest M; by default the power of two that holds the first call's M.
        cache_dir: the disk cache; by default the setting PLAIT_CACHE_DIR, else ~/.cache/plait.
        cache_mode: `auto` (find or compile), `strict` (production: what is not in the cache is a CompileError) or `jit_only`
            (compile, leave the disk alone); by default the setting PLAIT_CACHE_MODE, else auto.
        record_requests: file to which each request is added as a line of JSON, for `plaitc --from-requests`; by default
            the setting PLAIT_RECORD_REQUESTS, else none.
    """
    if function is None:
        return functools.partial(jit, schedule=schedule, m_max=m_max, cache_dir=cache_dir, cache_mode=cache_mode,
                                 record_requests=record_requests)
    return JitFunction(function, schedule, m_max, cache_dir, cache_mode, record_requests)
