"""What `plait doctor` and `plait cache` print."""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass

from . import _core


@dataclass
class Finding:
    """A part of plait: what was found of it (empty where missing) and what it is needed for."""

    part: str
    found: str
    needed_for: str


def _library(name: str) -> str:
    try:
        ctypes.CDLL(name)
        return name
    except OSError:
        return ""


def _module(name: str) -> str:
    return f"python package {name}" if importlib.util.find_spec(name) else ""


def examine() -> list[Finding]:
    """Everything plait opens at run time, looked for now."""
    built = _core.built_parts()
    return [
        Finding("simulated cluster", "built in" if built["sim"] else "", "plait run, SimSession"),
        Finding("Clang/LLVM", _core.clang_version(), "JIT for the host machine"),
        Finding("NVRTC", _core.nvrtc_version(), "compiling for GPUs (pip install 'plait[cuda]')"),
        Finding("CUDA driver", _library("libcuda.so.1") if built["cuda"] else "", "running on GPUs"),
        Finding("libibverbs", _library("libibverbs.so.1") if built["verbs"] else "", "RC between nodes (ConnectX, InfiniBand, RoCE)"),
        Finding("libefa", _library("libefa.so.1") if built["efa"] else "", "SRD between nodes (EFA)"),
        Finding("torch", _module("torch"), "CUDA tensors and rendezvous; not needed for simulation"),
        Finding("matplotlib", _module("matplotlib"), "timeline.png"),
    ]


def settings_text() -> str:
    """Every setting with its value, default and meaning; none changes a result."""
    return _core.settings_text()


def cache_stats(folder: str = "") -> dict[str, object]:
    """Entries, bytes, hits, misses and healed entries of the disk cache."""
    return _core.cache_statistics(folder)


def cache_clear(folder: str = "") -> int:
    """Removes every entry; the number removed."""
    return _core.cache_clear(folder)
