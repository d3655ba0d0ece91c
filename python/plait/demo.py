"""`plait run`: compile cold and warm, run on a simulated cluster, check against float64, report, draw the timeline."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from . import _core, reference, timeline
from .errors import ArgumentError
from .session import Report, SimSession
from .tensor import pack, unpack, view


def make_inputs(request: _core.Request, artifact: _core.Artifact, m: int, seed: int) -> list[list[np.ndarray]]:
    """One list of arrays a rank, in the manifest's order: inputs of a standard normal, outputs of NaN."""
    random = np.random.default_rng(seed)
    ranks = []
    for rank in range(request.topology.world):
        arrays = []
        for (_, dtype, output), shape in zip(artifact.tensors, _core.tensor_shapes(artifact, rank, m, request.limits)):
            values = np.full(shape, np.nan) if output else random.standard_normal(shape, dtype=np.float32)
            arrays.append(pack(values, dtype))
        ranks.append(arrays)
    return ranks


def print_summary(summary: dict[str, Any], console: Console) -> None:
    """The plan in a few lines: roles, buffers, edges."""
    nodes, locals_ = summary["nodes"], summary["locals"]
    sizes = " ".join(f"{name}={summary['consts'][name]}" for name in ("N", "K", "heads", "kv_heads", "head_dim") if name in summary["consts"])
    console.print(f"plan {summary['name']}  M<={summary['m_max']} {sizes}  "
                  f"topology {nodes}x{locals_}  target {summary['target']}  {summary['threads']} threads a CTA, "
                  f"{summary['shared_bytes']} bytes of shared memory", highlight=False)
    for name, dtype, shape in summary["buffers"]:
        console.print(f"  buffer {name:<12} {dtype} {shape}  symmetric", highlight=False)
    for name, count in summary["flags"]:
        console.print(f"  flags  {name:<12} {count}", highlight=False)
    for role in summary["roles"]:
        programs = ", ".join(f"{p['name']} on CTAs [{p['first_cta']}, {p['last_cta']})" for p in role["programs"]) or "no program"
        placement = f"{role['placement']}" + (f" x {role['sms']}" if role["sms"] else "")
        console.print(f"  role   {role['name']:<12} {placement}: {programs}", highlight=False)
    for name, producer, signal, scope, consumer, memory in summary["edges"]:
        console.print(f"  edge   {name:<12} {memory}: {producer} -> {signal} ({scope}) -> {consumer}", highlight=False)


def print_links(report: Report, console: Console) -> None:
    """Payload per link, node network apart from NVLink."""
    table = Table("link", "over", "bytes", "transfers", title="traffic per link")
    for link in report.links:
        if link.bytes or link.transfers:
            table.add_row(f"rank {link.source} -> rank {link.target}", "network" if link.network else "nvlink", f"{link.bytes:,}",
                          str(link.transfers))
    console.print(table)


def compile_twice(request: _core.Request, console: Console) -> _core.Artifact:
    """Compiles into an empty cache, then from it, and prints both times."""
    with tempfile.TemporaryDirectory(prefix="plait-cache-") as folder:
        started = time.perf_counter()
        artifact, cold = request.compile(folder)
        _core.load_host_code(artifact)
        cold_ms = (time.perf_counter() - started) * 1e3
        started = time.perf_counter()
        artifact, warm = request.compile(folder)
        _core.load_host_code(artifact)
        warm_ms = (time.perf_counter() - started) * 1e3
    console.print(f"compile cold {cold_ms:.0f} ms (lower {cold['lower_ms']:.0f}, verify {cold['verify_ms']:.0f}, emit {cold['emit_ms']:.0f}, backend "
                  f"{cold['backend_ms']:.0f}), warm {warm_ms:.0f} ms ({'cache hit' if warm['cache_hit'] else 'NO CACHE HIT'})",
                  highlight=False)
    return artifact


def check(request: _core.Request, artifact: _core.Artifact, ranks: list[list[np.ndarray]], console: Console) -> bool:
    """Compares every output tile of every rank with the reference and prints the worst error."""
    file = json.loads(request.json)
    names = [name for name, _, _ in artifact.tensors]
    inputs = {name: [arrays[i] for arrays in ranks] for i, name in enumerate(names) if not artifact.tensors[i][2]}
    kept = [name for name, _, output in artifact.tensors if output]
    expected = {name: reference.evaluate(file["graph"], inputs, name) for name in kept}
    consts = request.summary()["consts"]
    ok, worst, tiles = True, 0.0, 0
    for rank, arrays in enumerate(ranks):
        for (name, dtype, output), array in zip(artifact.tensors, arrays):
            if not output:
                continue
            result = reference.check_tiles(unpack(array, dtype), expected[name][rank], consts["tile_m"], consts.get("tile_n", 64))
            worst, tiles = max(worst, result.worst_error), tiles + result.tiles
            if result.wrong_tiles:
                ok = False
                console.print(f"[red]rank {rank}: {result.wrong_tiles} of {result.tiles} tiles of {name} are wrong, the worst at "
                              f"row {result.worst_tile[0]}, column {result.worst_tile[1]}[/red]", highlight=False)
    console.print(f"worst error per tile {worst:.3e}", highlight=False)
    console.print(f"{tiles} tiles on {len(ranks)} ranks checked against float64: {'correct' if ok else 'WRONG'}", highlight=False)
    return ok


def run(request: _core.Request, console: Console, *, m: int = 0, seed: int = 1, network: str = "ordered",
        out: Path | None = None) -> bool:
    """Everything `plait run` does. True where every tile is correct."""
    summary = request.summary()
    print_summary(summary, console)
    if summary["target"] != "host":
        raise ArgumentError(f"plait run runs on the host machine, target is {summary['target']}",
                            "use --target host, or a plait.Session under torchrun")
    artifact = compile_twice(request, console)
    rows = m or artifact.m_max
    ranks = make_inputs(request, artifact, rows, seed)
    session = SimSession(request.topology, seed=seed, network=network, trace=True)
    started = time.perf_counter()
    report = session.launch(artifact, rows, [[view(array) for array in arrays] for arrays in ranks])
    console.print(f"ran {session.world} ranks on {request.topology.nodes} nodes: {report.steps} simulator steps in "
                  f"{time.perf_counter() - started:.1f} s", highlight=False)
    print_links(report, console)
    ok = check(request, artifact, ranks, console)
    if out is not None:
        timeline.write_chrome_trace(out / "timeline.json", report, artifact.agents)
        timeline.write_picture(out / "timeline.png", report, artifact.agents, session.world)
        console.print(f"timeline: {out / 'timeline.json'} (open in Perfetto), {out / 'timeline.png'}", highlight=False)
    return ok
