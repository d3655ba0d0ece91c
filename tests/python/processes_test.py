"""Real ranks: torch.distributed's processes with CPU tensors on the shm backend."""

from __future__ import annotations

import signal

import pytest

pytest.importorskip("torch")
core = pytest.importorskip("plait._core")
if not hasattr(core.Session, "create_on_host") or not core.built_parts()["host_jit"]:
    pytest.skip("this build has no ranks on CPUs", allow_module_level=True)

import rank_programs as programs  # noqa: E402
from ranks import Ranks, run  # noqa: E402

import plait  # noqa: E402
from plait.session import cuda_ordinal, machine_shape  # noqa: E402


@pytest.mark.parametrize("world", [2, 3, 4])
def test_fifty_launches_are_right(world: int, tmp_path) -> None:
    assert run(programs.fifty_launches, world, tmp_path, {}) == [50] * world


@pytest.mark.parametrize("network", ["ordered", "unordered"])
def test_two_nodes_of_two_ranks_are_right(network: str, tmp_path) -> None:
    assert run(programs.fifty_launches, 4, tmp_path, {"gpus_per_node": 2, "network": network}) == [50] * 4


def test_groups_of_some_ranks_are_right(tmp_path) -> None:
    assert run(programs.subgroups, 4, tmp_path) == [[2, 4]] + [[2, 4, 3]] * 3


def test_two_sessions_run_at_once_and_others_after_them(tmp_path) -> None:
    assert run(programs.two_sessions, 2, tmp_path) == [[6, 5]] * 2


def test_lists_numpy_and_closed_sessions(tmp_path) -> None:
    messages = run(programs.lists_and_errors, 2, tmp_path)
    assert all("a list of 2 tensors was given" in message for message in messages)


@pytest.mark.parametrize("how", [programs.KILL, programs.STOP])
def test_a_lost_rank_is_a_stall_error_in_time(how: signal.Signals, tmp_path) -> None:
    lost = 1
    seen = Ranks(programs.lose_a_rank, 3, tmp_path, lost, int(how), str(tmp_path)).results(without=lost)
    for rank in (0, 2):
        seconds, message = seen[rank]
        assert seconds < 1.0 + 2.0
        assert f"rank {lost} has not entered within 1 s" in message or ("a_ready" in message and "sees" in message)


def test_without_a_process_group_the_cluster_is_simulated() -> None:
    with plait.open_session(simulate="1x3") as session:
        assert isinstance(session, plait.SimSession)
        assert list(session.ranks) == [0, 1, 2]


def test_machines_become_nodes() -> None:
    assert machine_shape(["x"] * 4) == (1, 4)
    assert machine_shape(["x", "x", "y", "y"]) == (2, 2)
    assert machine_shape(["x", "y", "z"]) == (3, 1)
    for machines in (["x", "x", "y"], ["x", "y", "x", "y"], ["x", "y", "y", "x"]):
        with pytest.raises(plait.ArgumentError, match="not equal blocks"):
            machine_shape(machines)


def test_devices_by_name() -> None:
    assert cuda_ordinal("cpu") is None
    with pytest.raises(plait.ArgumentError, match="device is meta"):
        cuda_ordinal("meta")
