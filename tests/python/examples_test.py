"""Every example that needs no GPU runs and checks itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ON_HOST = sorted(path.name for path in EXAMPLES.glob("[0-9]*.py") if "torchrun" not in path.name)


@pytest.mark.parametrize("name", ON_HOST)
def test_example_runs(name: str) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_there_are_examples() -> None:
    assert len(ON_HOST) >= 2
