"""Who may include whom, as data. `allowed(file, include)` answers for one #include line.

Folders are given from the repository's root; includes inside templates/ are relative to the file and are resolved first.
"""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath

# runtime/ in order: a folder may include what stands above it, and itself.
RUNTIME_ORDER = ["base", "artifact", "trace", "topology", "device", "memory", "net", "proxy", "sim", "shm", "session"]
ABI = "templates/abi"

# What generated or vendored headers may be reached with angle brackets from code that must stay free of the system.
FREESTANDING = ("templates/",)

BINDINGS = {
    "compiler/compile.h", "compiler/ir", "compiler/choose/choose_schedule.h", "compiler/passes/lower.h", "compiler/codegen/emit.h", "compiler/backend/clang_jit.h",
    "compiler/backend/cache.h", "compiler/backend/nvrtc_library.h", "runtime/base/error.h", "runtime/base/settings.h",
    "runtime/base/dl.h", "runtime/artifact/artifact.h", "runtime/artifact/host_module.h", "runtime/topology/topology.h",
    "runtime/device/driver.h", "runtime/device/machine_topology.h", "runtime/session/bind.h", "runtime/session/cluster.h", "runtime/session/session.h",
    "runtime/session/rendezvous.h", "runtime/session/rank_hello.h", "runtime/trace", "python/bindings",
}


def _runtime(folder: str) -> set[str]:
    position = RUNTIME_ORDER.index(folder)
    return {f"runtime/{name}" for name in RUNTIME_ORDER[: position + 1]} | ({ABI} if folder != "base" else set())


def _compiler(path: PurePosixPath) -> set[str]:
    part = path.parts[1] if len(path.parts) > 2 else ""
    ir = {"compiler/ir", "runtime/base", "runtime/topology"}
    if part == "ir":
        return ir
    if part in ("choose", "verify", "passes", "codegen"):
        extra = {"compiler/choose", "compiler/verify"} if str(path) == "compiler/passes/lower.cpp" else set()
        # codegen prints offsets and names of the abi's structs, and takes them from the structs themselves
        return ir | {f"compiler/{part}", ABI} | extra
    if part in ("cost", "tune"):
        return ir | {f"compiler/{part}", "compiler/compile.h"}
    return {"compiler", "runtime/base", "runtime/artifact", "runtime/topology", ABI}


def reach(path: PurePosixPath) -> set[str] | None:
    """Folders and files that `path` may include; None where there is no rule (tests, bench)."""
    top = path.parts[0]
    if top == "runtime":
        return _runtime(path.parts[1])
    if top == "compiler":
        return _compiler(path)
    if top == "templates":
        shared = {"templates/machine.h", "templates/arithmetic.h", "templates/launch_watch.h"}
        own = "/".join(path.parts[:2]) if len(path.parts) > 2 else str(path)
        return {ABI, own} | (set() if own == ABI else shared)
    if top == "python":
        return BINDINGS
    return None


def resolve(path: PurePosixPath, include: str, roots: tuple[str, ...]) -> str:
    """The include as a path from the root."""
    if include.split("/")[0] in roots:
        return include
    return posixpath.normpath(posixpath.join(str(path.parent), include))


def allowed(path: PurePosixPath, include: str, roots: tuple[str, ...]) -> bool:
    """True where the arrow is in the table."""
    may = reach(path)
    if may is None:
        return True
    target = resolve(path, include, roots)
    return any(target == entry or target.startswith(entry + "/") for entry in may)
