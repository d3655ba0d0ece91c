"""Runs rank programs as processes of one torch.distributed group.

A server with torch and plait imported forks the ranks, so that a test with many processes pays for the imports once.
Programs are functions of a module below tests/python: `program(rank, world, *args) -> result`.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from pathlib import Path
from typing import Any, Callable

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "torch.distributed", "plait", "plait.reference"])


def _rank_main(program: Callable[..., Any], rank: int, world: int, meeting: str, args: tuple[Any, ...], pipe: Any) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", store=dist.FileStore(meeting, world), rank=rank, world_size=world)
        try:
            pipe.send((True, program(rank, world, *args)))
        finally:
            dist.destroy_process_group()
    except BaseException:
        pipe.send((False, traceback.format_exc()))


class Ranks:
    """`world` processes that run `program`; `results()` waits for them."""

    def __init__(self, program: Callable[..., Any], world: int, folder: Path, *args: Any) -> None:
        self._pipes, self.processes = [], []
        for rank in range(world):
            ours, theirs = _context.Pipe(duplex=False)
            process = _context.Process(target=_rank_main, args=(program, rank, world, str(folder / "store"), args, theirs))
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)

    def results(self, timeout: float = 60.0, without: int = -1) -> list[Any]:
        """What each rank returned; AssertionError with a rank's traceback where one raised. `without`: a lost rank."""
        until = time.monotonic() + timeout
        results: list[Any] = []
        try:
            for rank, pipe in enumerate(self._pipes):
                if rank == without:
                    results.append(None)
                    continue
                assert pipe.poll(max(0.0, until - time.monotonic())), f"rank {rank} says nothing within {timeout} s"
                fine, value = pipe.recv()
                assert fine, f"rank {rank}:\n{value}"
                results.append(value)
        finally:
            for rank, process in enumerate(self.processes):
                if rank != without and len(results) == len(self.processes):
                    process.join(10)
                if process.is_alive():
                    process.kill()
                process.join()
        return results


def run(program: Callable[..., Any], world: int, folder: Path, *args: Any) -> list[Any]:
    return Ranks(program, world, folder, *args).results()
