"""Sessions: the live state that launches go through. SimSession is all ranks of a simulated cluster in this process;
Session is this process's rank on its GPU."""

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

    def __init__(self, shape: Any = "1x2", *, seed: int = 1, network: str = "ordered", check_memory: bool = True,
                 trace: bool = False, resident_ctas: int = 0, fifo_slots: int = 64, send_queue_depth: int = 8,
                 max_steps: int = 0) -> None:
        if not hasattr(_core, "SimCluster"):
            raise DeviceError("this build has no simulated cluster", "build with boost.context (libboost-context-dev)")
        self.topology = topology(shape)
        self.world = self.topology.world
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


class Session:
    """This process's rank on its GPU; collective over all processes of torch.distributed's default group.

    Args:
        shape: topology file or label; by default the processes of this world, as nodes of `gpus_per_node`.
        device: CUDA ordinal; by default the current device.
        name: tells Sessions of one process group apart that are created at the same time; the same on all ranks.
        store: a torch.distributed store; by default the default group's.
        workspace_bytes: address space reserved per rank for what peers write.
        sm_budget: CTAs a launch may use; 0: all SMs.
        entry_deadline_s: how long the ranks of a launch may be apart.
        wait_deadline_s: how long a wait may last once all ranks have entered the launch.
        rendezvous_timeout_s: how long ranks wait for each other when the Session is made and an artifact is loaded.
    """

    target = "sm_90a"

    def __init__(self, shape: Any = None, *, rank: int | None = None, device: int | None = None, name: str = "plait",
                 store: Any = None, gpus_per_node: int | None = None, workspace_bytes: int = 1 << 30, sm_budget: int = 0,
                 entry_deadline_s: float = 60.0, wait_deadline_s: float = 10.0, rendezvous_timeout_s: float = 120.0,
                 network: str = "ordered") -> None:
        if not hasattr(_core, "Session"):
            raise DeviceError("this build has no CUDA part", "build with PLAIT_CUDA=ON")
        import torch
        import torch.distributed as dist

        if not dist.is_initialized() and (store is None or rank is None):
            raise ArgumentError("torch.distributed is not initialised",
                                "call torch.distributed.init_process_group, or pass store= and rank=")
        if not torch.cuda.is_available():
            raise DeviceError("torch sees no CUDA device", "plait.SimSession runs without one")
        self.rank = dist.get_rank() if rank is None else rank
        self.device = torch.cuda.current_device() if device is None else device
        if shape is None:
            launched = _core.launcher()["local_world"]   # torchrun, Slurm or OpenMPI says; -1 where none does
            nodes, locals_ = node_shape(dist.get_world_size(), gpus_per_node or (launched if launched > 0 else torch.cuda.device_count()))
            shape = _core.machine_topology(nodes, locals_)
        self.topology = topology(shape)
        self.world = self.topology.world
        if store is None:
            store = dist.distributed_c10d._get_default_store()
        publish, fetch = store_callbacks(dist.PrefixStore(session_prefix(store, name, self.rank), store))
        self._session = _core.Session.create(
            self.topology, self.rank, publish, fetch, self.device, workspace_bytes, sm_budget, entry_deadline_s,
            wait_deadline_s, rendezvous_timeout_s, network)
        self._handles: dict[str, int] = {}

    @property
    def launches(self) -> int:
        return self._session.launches

    def load(self, artifact: _core.Artifact) -> None:
        """Loads the artifact and gives it its area of the workspace; collective on first use."""
        if artifact.key in self._handles:
            return
        import torch

        if torch.cuda.is_current_stream_capturing():
            raise ArgumentError(f"{artifact.name} is used for the first time inside a CUDA graph capture",
                                "call it once before the capture, with the same range of M: the first call loads code and "
                                "allocates, on all ranks together")
        self._handles[artifact.key] = self._session.attach(artifact)

    def launch(self, artifact: _core.Artifact, m: int, tensors: list[View]) -> None:
        """Enqueues one launch on torch's current stream; not finished on return."""
        import torch

        self.load(artifact)
        stream = torch.cuda.current_stream(self.device).cuda_stream
        for tensor in tensors:   # the allocator must not hand the memory on before the launch has run
            if is_torch(tensor.owner):
                tensor.owner.record_stream(torch.cuda.current_stream(self.device))
        self._session.launch(self._handles[artifact.key], m, [t.as_tuple() for t in tensors], stream)

    def check(self) -> None:
        """Raises StallError where a launch was given up, by this rank or by a peer: the first cause with rank, role, tile,
        flag, expected and seen value. The kernel has left then, its outputs are NaN; make a new Session on all ranks."""
        self._session.check()

    def poison(self) -> None:
        """Fills this rank's receive buffers with NaN, for tests. No rank may have a launch under way."""
        self._session.poison()

    def abort(self) -> None:
        """Ends running launches, of the peers too; the Session is dead afterwards, on all ranks."""
        self._session.abort()


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


__all__ = ["Event", "Link", "Report", "Session", "SimSession", "schedule_path", "topology", "view"]
