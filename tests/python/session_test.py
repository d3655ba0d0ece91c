"""Sessions: topologies, the rendezvous over torch.distributed's store, what is refused without a GPU."""

from __future__ import annotations

import json
import time

import pytest

import plait
from plait.session import node_shape, schedule_path, session_prefix, store_callbacks, topology


class FakeStore:
    """Takes and returns what torch's stores do: text in, bytes out, wait with a timedelta."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.waited: list[float] = []

    def set(self, key: str, value: str) -> None:
        assert isinstance(value, str)
        self.values[key] = value.encode()

    def wait(self, keys: list[str], timeout) -> None:
        self.waited.append(timeout.total_seconds())
        if any(key not in self.values for key in keys):
            raise RuntimeError(f"timeout waiting for {keys}")

    def get(self, key: str) -> bytes:
        return self.values[key]


def test_every_byte_survives_the_store() -> None:
    publish, fetch = store_callbacks(FakeStore())
    value = bytes(range(256)) + b"\0\0"
    publish("hello/0", value)
    assert fetch("hello/0", 10**9) == value


def test_a_timeout_is_passed_on_and_never_zero() -> None:
    store = FakeStore()
    _, fetch = store_callbacks(store)
    for timeout_ns in (2_500_000_000, 1):
        with pytest.raises(RuntimeError, match="hello/1"):
            fetch("hello/1", timeout_ns)
    assert store.waited == [2.5, 1e-6]


def test_torch_s_own_store_works() -> None:
    dist = pytest.importorskip("torch.distributed")
    publish, fetch = store_callbacks(dist.PrefixStore("plait", dist.HashStore()))
    publish("k", b"\xff\x00value")
    assert fetch("k", 10**9) == b"\xff\x00value"
    started = time.monotonic()
    with pytest.raises(Exception):  # noqa: B017: torch's type differs between versions
        fetch("missing", 50_000_000)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(("world", "gpus", "shape"), [(1, 8, (1, 1)), (2, 8, (1, 2)), (8, 8, (1, 8)), (16, 8, (2, 8))])
def test_the_default_topology_is_the_processes_of_the_world(world: int, gpus: int, shape: tuple[int, int]) -> None:
    assert node_shape(world, gpus) == shape


def test_a_world_that_fills_no_whole_nodes_is_refused() -> None:
    with pytest.raises(plait.ArgumentError, match="12 ranks are not a multiple of 8"):
        node_shape(12, 8)


def test_topology_from_label_file_and_itself(tmp_path) -> None:
    made = topology("2x3")
    assert (made.nodes, made.gpus_per_node, made.world) == (2, 3, 6)
    path = tmp_path / "t.json"
    path.write_text(made.to_json())
    assert topology(path).label() == "2x3"
    assert topology(made) is made


@pytest.mark.parametrize("label", ["2", "0x2", "2x", "two"])
def test_a_bad_label_is_an_argument_error(label: str) -> None:
    with pytest.raises(plait.ArgumentError):
        topology(label)


def test_a_topology_file_that_contradicts_itself_is_a_schedule_error(tmp_path) -> None:
    described = json.loads(topology("1x2").to_json())
    described["gpus_per_node"] = 0
    path = tmp_path / "t.json"
    path.write_text(json.dumps(described))
    with pytest.raises(plait.ScheduleError, match="t.json, /gpus_per_node: gpus_per_node is 0, at least 1 is needed"):
        topology(path)


def test_named_schedules_are_found_and_unknown_ones_listed() -> None:
    assert schedule_path("ag_gemm").name == "ag_gemm.json"
    with pytest.raises(plait.ArgumentError) as caught:
        schedule_path("nothing")
    assert "ag_gemm" in caught.value.hint


def test_an_unknown_network_names_the_known() -> None:
    with pytest.raises(plait.ArgumentError, match="network is 'fast'") as caught:
        plait.SimSession("1x2", network="fast")
    assert "unordered" in caught.value.hint


def test_a_gpu_session_without_process_group_says_what_to_call() -> None:
    pytest.importorskip("torch")
    with pytest.raises((plait.ArgumentError, plait.DeviceError)) as caught:
        plait.Session()
    assert caught.value.hint


def test_a_second_session_of_one_name_reads_nothing_that_the_first_left() -> None:
    dist = pytest.importorskip("torch.distributed")
    store = dist.HashStore()
    first = {session_prefix(store, "plait", rank) for rank in range(2)}
    second = {session_prefix(store, "plait", rank) for rank in range(2)}
    assert len(first) == len(second) == 1 and first != second
    assert session_prefix(store, "other", 0) not in first | second


class FakeArtifact:
    name, key = "layer", "k1"


def bare_session() -> plait.Session:
    session = plait.Session.__new__(plait.Session)   # without a GPU: what load and launch look at

    class Core:
        attached = 0

        def attach(self, artifact) -> int:
            Core.attached += 1
            return 0

    session._session, session._handles = Core(), {}
    return session


def test_first_use_inside_a_capture_says_what_to_do(monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    session = bare_session()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(plait.ArgumentError, match="layer is used for the first time inside a CUDA graph capture") as caught:
        session.load(FakeArtifact())
    assert "call it once before the capture" in caught.value.hint
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    session.load(FakeArtifact())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    session.load(FakeArtifact())   # loaded: captures as it is
    assert session._session.attached == 1
