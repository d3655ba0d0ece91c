"""Every example runs and checks itself: alone, and 01 as real ranks under torchrun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ALL = sorted(path.name for path in EXAMPLES.glob("[0-9]*.py"))


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ALL)
def test_example_runs(name: str) -> None:
    if "import torch" in (EXAMPLES / name).read_text():
        pytest.importorskip("torch")
    run(str(EXAMPLES / name))


@pytest.mark.parametrize(("ranks", "options"), [(2, []), (3, []), (4, ["--gpus-per-node=2"])])
def test_the_first_example_runs_under_torchrun(ranks: int, options: list[str]) -> None:
    pytest.importorskip("torch")
    # As --standalone, which hangs where nothing resolves `localhost`.
    here = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
    text = run("-m", "torch.distributed.run", *here, f"--nproc-per-node={ranks}", str(EXAMPLES / "01_ag_gemm.py"), *options)
    for rank in range(ranks):
        assert f"rank {rank} of {ranks} on c" in text   # cpu, or cuda where there are GPUs


def test_there_are_examples() -> None:
    assert len(ALL) >= 2
