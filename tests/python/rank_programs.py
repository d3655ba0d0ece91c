"""What ranks do in tests of processes; see ranks.py."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import plait
from plait.reference import check_tiles, evaluate
from plait.tensor import unpack


@plait.jit
def layer(a, b, bias):
    return plait.relu(plait.all_gather(a, dim=0) @ b + bias)


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def launch_and_check(session: plait.Session, m: int, seed: int, n: int = 72, k: int = 64) -> None:
    """Fresh inputs, outputs and receive buffers full of NaN, every element of every tile against its bound."""
    rows = max(-(-m // session.world), 1)
    a = list(draw(seed, m, k).split(rows))
    a += [torch.empty(0, k, dtype=torch.bfloat16)] * (session.world - len(a))
    b = [draw(seed + 1 + rank, k, n) for rank in range(session.world)]
    bias = draw(seed + 100, n)
    out = torch.full((m, n), torch.nan, dtype=torch.bfloat16)
    result = layer(a[session.rank], b[session.rank], bias, session=session, out=out)
    assert result is out
    compiled = list(layer._compiled.values())[-1]
    expected = evaluate(compiled.graph, {"a": a, "b": b, "bias": [bias] * session.world})[session.rank]
    check = check_tiles(unpack(out, "bf16"), expected, 64, 64)
    assert check.wrong_tiles == 0 and check.worst_of_bound <= 1, check


def fifty_launches(rank: int, world: int, options: dict[str, Any]) -> int:
    with plait.Session(device="cpu", **options) as session:
        assert (session.rank, session.world, session.place, list(session.ranks)) == (rank, world, "cpu", [rank])
        for launch in range(50):
            if launch % 10 == 9:
                dist.barrier()   # nobody writes now
                session.poison()
                dist.barrier()
            launch_and_check(session, 1 + launch * 37 % 130, launch)
        assert layer.compiles == 1
        return session.launches


def subgroups(rank: int, world: int) -> list[int]:
    """Ranks 0, 2 and 1, 3, beside all, and a group that has but some of the ranks."""
    halves = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    last = dist.new_group([1, 2, 3])
    mine = halves[rank % 2]
    with plait.open_session(group=mine) as some, plait.open_session() as all_:
        for seed in range(3):
            launch_and_check(some, 40, 1000 * (rank % 2) + seed)
            launch_and_check(all_, 70, seed)
        worlds = [some.world, all_.world]
    if rank == 0:
        try:
            plait.Session(device="cpu", group=last)
        except plait.ArgumentError as error:
            assert "not in the group" in str(error)
        else:
            raise AssertionError("a Session of a group that this process is not in")
    else:
        with plait.Session(device="cpu", group=last) as three:
            launch_and_check(three, 50, 7)
            assert three.rank == rank - 1
            worlds.append(three.world)
    return worlds


def two_sessions(rank: int, world: int) -> list[int]:
    """At once from two threads, and one after the other of one name."""
    sessions = [plait.Session(device="cpu", name=f"session{i}") for i in range(2)]
    failures: list[BaseException] = []

    def work(i: int) -> None:
        try:
            for seed in range(5):
                launch_and_check(sessions[i], 60 + 40 * i, 50 * i + seed)
        except BaseException as error:   # noqa: BLE001: told to the test below
            failures.append(error)

    launch_and_check(sessions[0], 60, 0)   # one compile, before the threads
    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    counts = [session.launches for session in sessions]
    for session in sessions:
        session.close()
    for _ in range(3):
        with plait.Session(device="cpu") as again:
            launch_and_check(again, 30, 9)
    return counts


def lists_and_errors(rank: int, world: int) -> str:
    with plait.Session(device="cpu") as session:
        a, b, bias = draw(1, 32, 64), draw(2, 64, 72), draw(3, 72)
        single = layer(a, b, bias, session=session)
        listed = layer([a], [b], [bias], session=session)
        assert isinstance(listed, list) and torch.equal(listed[0], single)
        again = layer([a], b, bias, session=session, out=[torch.empty_like(single)])   # the warm path
        assert torch.equal(again[0], single)
        try:
            layer([a, a], b, bias, session=session)
        except plait.ArgumentError as error:
            message = str(error)
        for rows in (32, 32, 16):   # the second is warm; another shape used to be taken for it
            given = [tensor.view(torch.uint16).numpy() for tensor in (a[:rows], b, bias)]
            expected = layer(a[:rows], b, bias, session=session)
            assert np.array_equal(layer(*given, session=session), expected.view(torch.uint16).numpy())
    try:
        session.check()
    except plait.ArgumentError as error:
        assert "closed" in str(error)
    try:
        plait.Session("1x3", device="cpu")
    except plait.ArgumentError as error:
        assert "topology 1x3 has 3 ranks, the process group 2" in str(error)
    return message


def lose_a_rank(rank: int, world: int, lost: int, how: int, folder: str) -> list[Any] | None:
    """Rank `lost` is killed or stopped; what the others see, in seconds and words; then they go on without it."""
    session = plait.Session(device="cpu", entry_deadline_s=1.0, wait_deadline_s=1.0)
    launch_and_check(session, 100, 0)
    dist.barrier()
    if rank == lost:
        os.kill(os.getpid(), how)
    out = torch.zeros(100, 72, dtype=torch.bfloat16)
    rows = -(-100 // world)
    own = draw(0, 100, 64).split(rows)[rank]
    started = time.monotonic()
    try:
        for _ in range(1000):
            layer(own, draw(1, 64, 72), draw(2, 72), session=session, out=out)
            started = time.monotonic()
    except plait.StallError as error:
        seconds, message = time.monotonic() - started, str(error)
    assert torch.isnan(out).all()
    try:
        layer(own, draw(1, 64, 72), draw(2, 72), session=session, out=out)
        raise AssertionError("a dead Session launched")
    except plait.StallError:
        session.close()
    store = dist.FileStore(os.path.join(folder, "again"), world - 1)
    with plait.Session(f"1x{world - 1}", device="cpu", store=store, rank=rank - (rank > lost)) as fewer:
        launch_and_check(fewer, 80, 3)
    return [seconds, message]


KILL, STOP = signal.SIGKILL, signal.SIGSTOP
