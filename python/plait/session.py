"""Sessions: the live state that launches go through. SimSession is all ranks of a simulated cluster in this process;
Session is this process's rank, on its GPU or on the CPU. `open_session` takes the one that fits how the program runs."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from . import _core
from .errors import ArgumentError, DeviceError
from .tensor import View, is_torch, view


def topology(source: Any) -> _core.Topology:
    """A Topology from one, from a label (`2x2`: nodes x GPUs per node, simulated) or from the path of a JSON file."""
    if isinstance(source, _core.Topology):
        return source
    text = str(source)
    return _core.Topology.from_file(text) if text.endswith(".json") else _core.Topology.simulated(text)


@dataclass
class Link:
    """Payload that went from rank `source` to rank `target` in one launch."""

    source: int
    target: int
    network: bool
    bytes: int
    transfers: int


@dataclass
class Event:
    """A span of the timeline: it lasts until the next one of the same agent. `step` counts simulator steps."""

    rank: int
    cta: int
    agent: int
    kind: str
    value: int
    step: int


@dataclass
class Report:
    """What a simulated launch did."""

    steps: int
    links: list[Link] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class SimSession:
    """All ranks of a simulated cluster. The same seed gives the same interleaving.

    Args:
        shape: topology, see `topology()`.
        seed: chooses every interleaving and delivery order.
        network: `ordered` (as RC) or `unordered` (as SRD).
        check_memory: report every access that nothing orders (SimulationFault); off only to save time.
        trace: collect the events of the timeline.
    """

    target = "host"
    place = "cpu"

    def __init__(self, shape: Any = "1x2", *, seed: int = 1, network: str = "ordered", check_memory: bool = True,
                 trace: bool = False, resident_ctas: int = 0, fifo_slots: int = 64, send_queue_depth: int = 8,
                 max_steps: int = 0) -> None:
        if not hasattr(_core, "SimCluster"):
            raise DeviceError("this build has no simulated cluster", "build with boost.context (libboost-context-dev)")
        self.topology = topology(shape)
        self.world = self.topology.world
        self.ranks = range(self.world)   # those whose tensors this process passes
        self._cluster = _core.SimCluster(
            self.topology, seed=seed, network=network, check_memory=check_memory, trace=trace, resident_ctas=resident_ctas,
            fifo_slots=fifo_slots, send_queue_depth=send_queue_depth, max_steps=max_steps)
        self._modules: dict[str, Any] = {}

    @property
    def launches(self) -> int:
        return self._cluster.launches

    def load(self, artifact: _core.Artifact) -> None:
        """Loads the artifact's code (JIT or kernel.so) unless it is loaded."""
        if artifact.key not in self._modules:
            self._modules[artifact.key] = _core.load_host_code(artifact)

    def launch(self, artifact: _core.Artifact, m: int, tensors: list[list[View]]) -> Report:
        """Runs one launch on all ranks to its end. tensors: one list a rank, in the manifest's order."""
        self.load(artifact)
        raw = self._cluster.launch(artifact, self._modules[artifact.key], m, [[t.as_tuple() for t in rank] for rank in tensors])
        return Report(raw["steps"], [Link(*link) for link in raw["links"]], [Event(*event) for event in raw["events"]])

    def synchronize(self) -> None:
        """A simulated launch is over when it returns, and raises what went wrong."""

    def close(self) -> None:
        """Frees the cluster's memory; nothing can be launched afterwards."""
        self._cluster = None
        self._modules.clear()

    def __enter__(self) -> SimSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """This process's rank of a torch.distributed process group; collective over the processes of that group.

    Args:
        shape: topology file or label; by default the processes of the group, as nodes of what shares a machine.
        device: a CUDA ordinal or torch device, or "cpu": ranks are then processes of one machine, tensors lie in host
            memory and a launch is over when the call returns. By default the current CUDA device, else "cpu".
        group: a process group (dist.new_group); by default all processes. Its ranks are the Session's.
        name: tells Sessions of one process group apart that are created at the same time; the same on all ranks.
        store: a torch.distributed store; by default the default group's. With rank= no process group is needed.
        gpus_per_node: ranks that make a node, where that differs from what shares a machine.
        workspace_bytes: address space reserved per rank for what peers write.
        sm_budget: CTAs a launch may use; 0: all SMs.
        threads: on the CPU, threads of a launch; 0: cores / ranks.
        entry_deadline_s: how long the ranks of a launch may be apart.
        wait_deadline_s: how long a wait may last once all ranks have entered the launch.
        rendezvous_timeout_s: how long ranks wait for each other when the Session is made and an artifact is loaded.
    """

    target = "sm_90a"
    device: int | None = 0   # CUDA ordinal; None: the CPU

    def __init__(self, shape: Any = None, *, rank: int | None = None, device: Any = None, group: Any = None,
                 name: str = "plait", store: Any = None, gpus_per_node: int | None = None,
                 workspace_bytes: int = 1 << 30, sm_budget: int = 0, threads: int = 0, entry_deadline_s: float = 60.0,
                 wait_deadline_s: float = 10.0, rendezvous_timeout_s: float = 120.0, network: str = "ordered") -> None:
        import torch.distributed as dist

        self.device = cuda_ordinal(device)
        needed = "create_on_host" if self.device is None else "create"
        if not hasattr(_core.Session, needed):
            raise DeviceError(f"this build has no {'ranks on CPUs' if self.device is None else 'CUDA part'}",
                              "build with boost.context" if self.device is None else "build with PLAIT_CUDA=ON")
        if not dist.is_initialized() and (store is None or rank is None):
            raise ArgumentError("torch.distributed is not initialised",
                                "call torch.distributed.init_process_group, or pass store= and rank=")
        self.rank = dist.get_rank(group) if rank is None else rank
        if self.rank < 0:
            raise ArgumentError("this process is not in the group", "create the Session on the group's own ranks")
        if group is not None:
            name = f"{name}/{group.group_name}"
        if store is None:
            store = dist.distributed_c10d._get_default_store()
        self._store = dist.PrefixStore(session_prefix(store, name, self.rank), store)
        world = dist.get_world_size(group) if dist.is_initialized() and rank is None else 0
        if shape is None:
            if world == 0:
                raise ArgumentError("rank= says nothing of the other ranks", "pass shape= with it")
            nodes, locals_ = self._node_shape(world, gpus_per_node, int(rendezvous_timeout_s * 1e9))
            shape = f"{nodes}x{locals_}" if self.device is None else _core.machine_topology(nodes, locals_)
        self.topology = topology(shape)
        self.world = self.topology.world
        if world not in (0, self.world):
            raise ArgumentError(f"topology {self.topology.label()} has {self.world} ranks, the process group {world}",
                                "pass group= for some of the processes")
        self.ranks = range(self.rank, self.rank + 1)   # those whose tensors this process passes
        publish, fetch = store_callbacks(self._store)
        if self.device is None:
            self.target = "host"
            self._session = _core.Session.create_on_host(
                self.topology, self.rank, publish, fetch, threads, workspace_bytes, sm_budget, entry_deadline_s, wait_deadline_s,
                rendezvous_timeout_s, network)
        else:
            self._session = _core.Session.create(
                self.topology, self.rank, publish, fetch, self.device, workspace_bytes, sm_budget, entry_deadline_s,
                wait_deadline_s, rendezvous_timeout_s, network)
        self._handles: dict[str, int] = {}

    def _node_shape(self, world: int, gpus_per_node: int | None, timeout_ns: int) -> tuple[int, int]:
        if gpus_per_node:
            return node_shape(world, gpus_per_node)
        publish, fetch = store_callbacks(self._store)
        publish(f"machine/{self.rank}", _core.machine_identity().encode())
        return machine_shape([fetch(f"machine/{rank}", timeout_ns).decode() for rank in range(world)])

    @property
    def place(self) -> str:
        """Where tensors must lie: cpu, cuda:0."""
        return "cpu" if self.device is None else f"cuda:{self.device}"

    @property
    def launches(self) -> int:
        return self._live().launches

    def _live(self) -> Any:
        if self._session is None:
            raise ArgumentError("the session is closed", "make a new one")
        return self._session

    def load(self, artifact: _core.Artifact) -> None:
        """Loads the artifact and gives it its area of the workspace; collective on first use."""
        if artifact.key in self._handles:
            return
        if self.device is not None:
            import torch

            if torch.cuda.is_current_stream_capturing():
                raise ArgumentError(f"{artifact.name} is used for the first time inside a CUDA graph capture",
                                    "call it once before the capture, with the same range of M: the first call loads code "
                                    "and allocates, on all ranks together")
        self._handles[artifact.key] = self._live().attach(artifact)

    def launch(self, artifact: _core.Artifact, m: int, tensors: list[View]) -> None:
        """One launch: on a GPU enqueued on torch's current stream and not finished on return; on the CPU finished."""
        self.load(artifact)
        self.enqueue(artifact, m, [t.as_tuple() for t in tensors], [t.owner for t in tensors])

    def enqueue(self, artifact: _core.Artifact, m: int, tensors: list[tuple[Any, ...]], owners: list[Any]) -> None:
        """`launch` of a loaded artifact, with tensors as View.as_tuple and whose memory they are."""
        stream = 0
        if self.device is not None:
            import torch

            current = torch.cuda.current_stream(self.device)
            stream = current.cuda_stream
            for owner in owners:   # the allocator must not hand the memory on before the launch has run
                if is_torch(owner):
                    owner.record_stream(current)
        self._live().launch(self._handles[artifact.key], m, tensors, stream)

    def check(self) -> None:
        """Raises StallError where a launch was given up, by this rank or by a peer: the first cause with rank, role, tile,
        flag, expected and seen value. The kernel has left then, its outputs are NaN; make a new Session on all ranks."""
        self._live().check()

    def synchronize(self) -> None:
        """Waits for the current stream's launches, then check()."""
        if self.device is not None:
            import torch

            torch.cuda.current_stream(self.device).synchronize()
        self.check()

    def poison(self) -> None:
        """Fills this rank's receive buffers with NaN, for tests. No rank may have a launch under way."""
        self._live().poison()

    def abort(self) -> None:
        """Ends running launches, of the peers too; the Session is dead afterwards, on all ranks."""
        self._live().abort()

    def close(self) -> None:
        """Waits for the last launch and gives everything back. Not collective; before dist.destroy_process_group."""
        self._session = None
        self._handles = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_session(simulate: Any = "1x2", **options: Any) -> SimSession | Session:
    """The session of how this program was started.

    With torch.distributed initialised (torchrun) a Session of its processes, on GPUs or, where there are none, on CPUs;
    `options` are Session's. Else a cluster of topology `simulate` in this process. Pass one tensor for each of
    `session.ranks`, in lists: the calls look the same then.
    """
    import sys

    dist = sys.modules.get("torch.distributed")   # a process group that nobody imported is not there
    return Session(**options) if dist is not None and dist.is_initialized() else SimSession(simulate)


def cuda_ordinal(device: Any) -> int | None:
    """The ordinal of a CUDA device, None for the CPU; device None: the current CUDA device, else the CPU."""
    import torch

    if device is None:
        return torch.cuda.current_device() if torch.cuda.is_available() else None
    chosen = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if chosen.type == "cpu":
        return None
    if chosen.type != "cuda":
        raise ArgumentError(f"device is {device}", "use cpu, cuda or a CUDA ordinal")
    if not torch.cuda.is_available():
        raise DeviceError("torch sees no CUDA device", 'device="cpu" and plait.SimSession run without one')
    return torch.cuda.current_device() if chosen.index is None else chosen.index


def machine_shape(machines: list[str]) -> tuple[int, int]:
    """(nodes, ranks per node) of ranks on these machines: equal blocks of neighbours, one machine each."""
    locals_ = next((i for i, machine in enumerate(machines) if machine != machines[0]), len(machines))
    blocks = [machines[i : i + locals_] for i in range(0, len(machines), locals_)]
    if any(len(set(block)) != 1 or len(block) != locals_ for block in blocks) or len({block[0] for block in blocks}) != len(blocks):
        raise ArgumentError(f"the ranks' machines are {machines}, not equal blocks of neighbouring ranks",
                            "start as many processes on each machine, ranks counted machine by machine, or pass shape=")
    return len(blocks), locals_


def node_shape(world: int, gpus_per_node: int) -> tuple[int, int]:
    """(nodes, GPUs per node) of `world` ranks on nodes of gpus_per_node GPUs, fewer where the world is smaller."""
    locals_ = min(world, gpus_per_node)
    if world % locals_:
        raise ArgumentError(f"{world} ranks are not a multiple of {locals_} GPUs per node", "pass a topology file as shape=")
    return world // locals_, locals_


def session_prefix(store: Any, name: str, rank: int) -> str:
    """A space of keys for the next Session of this name: a second one must not read what the first left in the store.

    Every rank counts its own Sessions, so ranks agree where they create them in the same order.
    """
    return f"{name}/{store.add(f'{name}/created/{rank}', 1)}"


def store_callbacks(store: Any) -> tuple[Callable[[str, bytes], None], Callable[[str, int], bytes]]:
    """(set, get) over a torch.distributed store. Values travel in hex: some stores take text only."""

    def publish(key: str, value: bytes) -> None:
        store.set(key, value.hex())

    def fetch(key: str, timeout_ns: int) -> bytes:
        store.wait([key], datetime.timedelta(microseconds=max(1, timeout_ns // 1000)))
        return bytes.fromhex(bytes(store.get(key)).decode())

    return publish, fetch


def schedule_path(name: str) -> Path:
    """The file of a schedule: a path, or the name of one that comes with plait."""
    path = Path(name)
    if path.suffix == ".json" and path.exists():
        return path
    folder = Path(__file__).absolute().parent / "schedules"   # unresolved: the build tree has links
    if (folder / f"{name}.json").exists():
        return folder / f"{name}.json"
    known = ", ".join(sorted(p.stem for p in folder.glob("*.json"))) or "none"
    raise ArgumentError(f"no schedule '{name}'", f"pass a .json file or one of: {known}")


__all__ = ["Event", "Link", "Report", "Session", "SimSession", "open_session", "schedule_path", "topology", "view"]
