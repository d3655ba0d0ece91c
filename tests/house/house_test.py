"""The house rules that a reader of the tree relies on: include arrows, one reader of the environment, no exit from library
code, small files."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest

from include_rules import allowed

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ("compiler", "runtime", "templates", "python", "tests")
SOURCE = {".h", ".cpp", ".cuh", ".def"}
LIBRARY = ("compiler", "runtime", "templates", "python/bindings")
_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def sources(*folders: str) -> list[PurePosixPath]:
    return sorted(
        PurePosixPath(path.relative_to(ROOT).as_posix())
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SOURCE
    )


def text_of(path: PurePosixPath) -> str:
    return (ROOT / path).read_text()


def code_of(path: PurePosixPath) -> str:
    """The text without comments and without string literals."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text_of(path))
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def wrong_arrows(path: PurePosixPath, text: str) -> list[str]:
    found = []
    for bracket, include in _INCLUDE.findall(text):
        if bracket == '"' and not allowed(path, include, ROOTS):
            found.append(f"{path} includes {include}")
        if bracket == "<" and path.parts[0] == "templates":
            found.append(f"{path} includes <{include}>: templates are compiled with no include path")
    return found


def test_every_include_arrow_is_in_the_table() -> None:
    found = [arrow for path in sources(*LIBRARY) for arrow in wrong_arrows(path, text_of(path))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("runtime/net/x.cpp", '#include "compiler/compile.h"'),
        ("runtime/net/x.cpp", '#include "runtime/session/session.h"'),
        ("runtime/base/x.cpp", '#include "runtime/artifact/artifact.h"'),
        ("compiler/ir/x.cpp", '#include "compiler/codegen/emit.h"'),
        ("compiler/passes/x.cpp", '#include "compiler/verify/verify.h"'),
        ("compiler/backend/x.cpp", '#include "runtime/device/driver.h"'),
        ("compiler/tools/x.cpp", '#include "runtime/session/cluster.h"'),
        ("templates/host/x.h", '#include "../sm90/machine.cuh"'),
        ("templates/abi/x.h", '#include "../machine.h"'),
        ("templates/sm90/x.cuh", "#include <stdint.h>"),
        ("python/bindings/x.cpp", '#include "runtime/sim/memory.h"'),
    ],
)
def test_a_wrong_arrow_is_found(path: str, line: str) -> None:
    assert wrong_arrows(PurePosixPath(path), line)


def test_lower_alone_calls_the_verifier() -> None:
    assert not wrong_arrows(PurePosixPath("compiler/passes/lower.cpp"), '#include "compiler/verify/verify.h"')


def test_only_runtime_base_reads_the_environment() -> None:
    found = [str(path) for path in sources(*LIBRARY) if re.search(r"\b(secure_)?getenv\b", code_of(path))]
    assert [path for path in found if not path.startswith("runtime/base/")] == []


# A member named abort (Session::abort) is no process exit, so a bare `abort(` counts only with std:: or ::.
_ENDS_PROCESS = re.compile(r"\bstd::(?:exit|_Exit|quick_exit|abort|terminate)\s*\(|(?<![\w.>:])(?:::)?_?exit\s*\(|(?<![\w>])::abort\s*\(")


def test_library_code_never_ends_the_process() -> None:
    found = [
        f"{path}: {line.strip()}"
        for path in sources(*LIBRARY)
        if path.parts[:2] != ("compiler", "tools")
        for line in code_of(path).splitlines()
        if _ENDS_PROCESS.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "ends"),
    [("std::abort();", True), ("exit(1);", True), ("::abort();", True), ("_exit(2);", True), ("session.abort();", False),
     ("void Session::abort() {", False), ("on_exit(x);", False)],
)
def test_a_process_exit_is_told_from_a_member(line: str, ends: bool) -> None:
    assert bool(_ENDS_PROCESS.search(line)) == ends


def test_no_file_is_longer_than_the_hard_limit() -> None:
    paths = sources(*LIBRARY, "tests", "bench", "examples") + [
        PurePosixPath(p.relative_to(ROOT).as_posix()) for folder in ("python", "tests") for p in (ROOT / folder).rglob("*.py")
    ]
    long = {str(path): lines for path in paths if (lines := text_of(path).count("\n")) > 600}
    assert not long, f"over 600 lines: {long}"


@pytest.mark.parametrize("folder", ["compiler", "runtime", "templates"])
def test_every_folder_says_what_it_is_for(folder: str) -> None:
    missing = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / folder).iterdir())
        if path.is_dir() and any(p.suffix in SOURCE for p in path.iterdir()) and not (path / "README.md").exists()
    ]
    assert not missing, f"no README.md in {missing}"


def test_templates_that_emitted_code_includes_are_free_of_macros_of_the_system() -> None:
    """NVRTC and the in-process Clang see these files alone: they test no macro that a system header defines."""
    found = []
    for path in sources("templates"):
        for line in re.findall(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*$", text_of(path), re.MULTILINE):
            if re.search(r"\b(?:NDEBUG|_GLIBCXX\w*|INT64_MAX|UINT64_MAX|assert)\b", line):
                found.append(f"{path}: {line.strip()}")
    assert not found
