"""The command line, in process for speed and once as the installed program."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import plait
from plait import cli

RUNNER = CliRunner()
SHAPE = ["--topology", "2x2", "--shape", "M=256,N=128,K=128"]


def invoke(*arguments: str):
    return RUNNER.invoke(cli.app, list(arguments), catch_exceptions=False)


def test_run_checks_reports_and_draws(tmp_path) -> None:
    done = invoke("run", "ag_gemm", *SHAPE, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    for expected in ("worst error per tile", "compile cold", "cache hit", "traffic per link", "rank 0 -> rank 2", "correct"):
        assert expected in " ".join(done.output.split())   # rich wraps lines where the figures happen to end
    trace = json.loads((tmp_path / "timeline.json").read_text())
    assert {row["pid"] for row in trace["traceEvents"]} == {0, 1, 2, 3}
    assert {"compute", "push", "send"} <= {row.get("cat") for row in trace["traceEvents"]}
    assert (tmp_path / "timeline.png").stat().st_size > 1000


def test_a_remote_tile_is_computed_before_the_last_remote_chunk_has_arrived(tmp_path) -> None:
    """The point of fusing: overlap, on every rank."""
    done = invoke("run", "ag_gemm", "--topology", "2x2", "--shape", "M=1024,N=256,K=256", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    for rank in range(4):
        mine = [event for event in events if event["pid"] == rank and event["ph"] == "X"]
        last_arrival = max(event["ts"] for event in mine if event["cat"] == "arrived")
        own_tiles = 1024 // 4 // 128   # tiles 0.. are the rank's own shard; later ones are remote
        remote = [event["ts"] for event in mine if event["cat"] == "compute" and event["args"]["value"] >= own_tiles]
        assert min(remote) < last_arrival, f"rank {rank}: no remote tile before {last_arrival}"


@pytest.mark.parametrize(
    ("stage", "expected"),
    [("schedule", "tile_m"), ("plan", "compute_loader"), ("source", "compute_loader"), ("summary", "role   compute")],
)
def test_show_prints_each_stage(stage: str, expected: str) -> None:
    done = invoke("show", "ag_gemm", stage, *SHAPE)
    assert done.exit_code == 0 and expected in done.output


def test_errors_carry_hints() -> None:
    for arguments, message in (
        (["run", "no_such"], "no schedule 'no_such'"),
        (["show", "ag_gemm", "ptx"], "no stage 'ptx'"),
        (["show", "ag_gemm", "plan", "--shape", "M=x"], "--shape part 'M=x'"),
        (["show", "ag_gemm", "plan", "--set", "stages"], "has no '='"),
    ):
        with pytest.raises(plait.ArgumentError, match=message) as caught:
            invoke(*arguments)
        assert caught.value.hint


def test_cache_commands(tmp_path) -> None:
    invoke("cache", "stats", "--folder", str(tmp_path))
    done = invoke("cache", "clear", "--folder", str(tmp_path))
    assert "removed 0 entries" in done.output


def test_doctor_lists_parts_and_settings() -> None:
    done = invoke("doctor", "--settings")
    assert done.exit_code == 0
    for expected in ("simulated cluster", "NVRTC", "CUDA driver", "PLAIT_CACHE_DIR"):
        assert expected in done.output


def test_the_program_ends_with_code_2_and_one_line_for_an_error() -> None:
    done = subprocess.run([sys.executable, "-m", "plait.cli", "run", "no_such"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 2
    assert "ArgumentError: no schedule 'no_such'" in done.stderr and "Traceback" not in done.stderr
