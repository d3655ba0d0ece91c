"""What the README and the guide promise can be run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plait import _core, cli

ROOT = Path(__file__).resolve().parents[2]


def test_the_quick_start_runs() -> None:
    text = (ROOT / "README.md").read_text()
    program = re.search(r"## Quick start\n\n```python\n(.*?)```", text, re.DOTALL).group(1)
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=120)
    # A traced function needs no source file: the line of a program on standard input is told as `<stdin>`.
    assert done.returncode == 0, done.stderr
    assert "(256, 64)" in done.stdout


def test_the_picture_comes_from_the_command_below_it(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    text = (ROOT / "README.md").read_text()
    command = re.search(r"`plait (run ag_gemm .*?) --out DIR`", text).group(1)
    done = CliRunner().invoke(cli.app, [*shlex.split(command), "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    committed = (ROOT / "docs/images/timeline.png").stat().st_size
    assert 10_000 < committed < 150_000
    assert (tmp_path / "timeline.png").stat().st_size > 10_000


def test_the_guide_explains_every_line_of_doctor_and_every_cache_mode() -> None:
    guide = (ROOT / "docs/guide.md").read_text()
    from plait.tools import examine

    for finding in examine():
        assert finding.part in guide, finding.part
    for mode in ("auto", "strict", "jit_only"):
        assert f"`{mode}`" in guide


def test_the_reference_lists_every_knob_and_setting() -> None:
    reference = (ROOT / "docs/reference.md").read_text()
    for knob in _core.knobs():
        assert f"| {knob['name']} |" in reference
    for name in re.findall(r"^(PLAIT_\w+)", _core.settings_text(), re.MULTILINE):
        assert f"| {name} |" in reference


def test_links_of_the_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
