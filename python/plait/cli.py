"""The command `plait`: run a kernel and check it, show what the compiler makes of a schedule, look after the cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Collection, Optional

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import _core, demo, tools
from .errors import ArgumentError, Error
from .session import schedule_path, topology

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
cache_app = typer.Typer(no_args_is_help=True, help="The disk cache of compiled kernels.")
app.add_typer(cache_app, name="cache")

ScheduleArgument = Annotated[str, typer.Argument(help="a schedule's name (ag_gemm) or a .json file")]
TargetOption = Annotated[str, typer.Option(help="host (simulation) or sm_90a")]
TopologyOption = Annotated[Optional[str], typer.Option(help="2x2 (nodes x GPUs per node) or a .json file; default: the schedule's")]
ShapeOption = Annotated[Optional[str], typer.Option(help="M=...,N=...,K=...: M and K global, M the maximum, N per rank; attention: M=,keys=,batch=")]
SetOption = Annotated[Optional[list[str]], typer.Option("--set", help="knob=value, over the schedule's; repeatable")]


def parse_shape(text: str | None, limits: Collection[str] = ()) -> dict[str, int]:
    """`M=2048,keys=1024` to {"M": 2048, "keys": 1024}; names beside M, N, K are limits of the schedule file's problem."""
    sizes: dict[str, int] = {}
    for part in filter(None, (text or "").split(",")):
        letter, _, number = part.partition("=")
        if not (letter in ("M", "N", "K") or letter in limits) or not number.isdigit() or int(number) < 1:
            what = ", ".join(f"{name}=" for name in ("M", "N", "K", *limits))
            raise ArgumentError(f"--shape part '{part}' is none of {what} with a positive number", "e.g. M=2048,N=1024,K=1024")
        sizes[letter] = int(number)
    return sizes


def parse_knobs(settings: list[str] | None) -> dict[str, str]:
    """`["stages=3"]` to {"stages": "3"}."""
    knobs = {}
    for setting in settings or []:
        knob, equals, value = setting.partition("=")
        if not equals:
            raise ArgumentError(f"--set {setting} has no '='", "e.g. --set stages=3")
        knobs[knob] = value
    return knobs


def make_request(schedule: str, target: str, topology_name: str | None, shape: str | None, knobs: list[str] | None) -> _core.Request:
    """The compilation that the options describe; what they leave out comes from the schedule file."""
    path = schedule_path(schedule)
    text = path.read_text()
    named = topology_name or json.loads(text).get("topology") or "1x2"
    if named.endswith(".json") and not Path(named).exists():
        named = str(path.parent / named)
    limits = json.loads(text).get("problem", {}).get("limits", {})
    sizes = parse_shape(shape, limits)
    return _core.Request(text, str(path), topology(named), target, parse_knobs(knobs),
                         sizes.get("M", 0), sizes.get("N", 0), sizes.get("K", 0),
                         {name: size for name, size in sizes.items() if name in limits})


@app.command()
def run(schedule: ScheduleArgument, target: TargetOption = "host", topology: TopologyOption = None, shape: ShapeOption = None,
        m: Annotated[int, typer.Option("--m", help="rows of this launch; default: the maximum")] = 0,
        knobs: SetOption = None,
        seed: Annotated[int, typer.Option(help="chooses inputs, interleaving and delivery order")] = 1,
        network: Annotated[str, typer.Option(help="ordered (as RC) or unordered (as SRD)")] = "ordered",
        out: Annotated[Optional[Path], typer.Option(help="folder for timeline.json and timeline.png")] = None) -> None:
    """Compile a schedule, run it on a simulated cluster and check every output tile against float64.

    Exit code 0 only if all tiles are correct.
    """
    request = make_request(schedule, target, topology, shape, knobs)
    if not demo.run(request, Console(), m=m, seed=seed, network=network, out=out):
        raise typer.Exit(1)


@app.command()
def show(schedule: ScheduleArgument,
         stage: Annotated[str, typer.Argument(help="schedule, choice, plan, source or summary")] = "plan",
         target: TargetOption = "host", topology: TopologyOption = None, shape: ShapeOption = None, knobs: SetOption = None) -> None:
    """Print a stage of the compilation."""
    request = make_request(schedule, target, topology, shape, knobs)
    if stage == "schedule":
        print(request.schedule_text())
    elif stage == "choice":
        print(request.choose()[0])
    elif stage == "plan":
        print(request.plan_text())
    elif stage == "source":
        print(request.source()[0])
    elif stage == "summary":
        demo.print_summary(request.summary(), Console())
    else:
        raise ArgumentError(f"no stage '{stage}'", "use schedule, choice, plan, source or summary")


@cache_app.command()
def stats(folder: Annotated[str, typer.Option(help="cache folder; default: the setting's")] = "") -> None:
    """Print entries, bytes and hits of the cache."""
    table = Table("what", "value")
    for name, value in tools.cache_stats(folder).items():
        table.add_row(name, str(value))
    Console().print(table)


@cache_app.command()
def clear(folder: Annotated[str, typer.Option(help="cache folder; default: the setting's")] = "") -> None:
    """Remove every entry of the cache."""
    print(f"removed {tools.cache_clear(folder)} entries")


@app.command()
def doctor(settings: Annotated[bool, typer.Option("--settings", help="also list the settings and their values")] = False) -> None:
    """Print what plait finds on this machine, and what each missing part is needed for."""
    console = Console()
    table = Table("part", "found", "needed for")
    for finding in tools.examine():
        table.add_row(finding.part, escape(finding.found) or "[red]missing[/red]", escape(finding.needed_for))
    console.print(table)
    if settings:
        print(tools.settings_text())


def main() -> None:
    """Entry point: plait's errors become one line and exit code 2."""
    try:
        app()
    except Error as error:
        Console(stderr=True).print(f"[red]{type(error).__name__}[/red]: {escape(error.message)}", highlight=False)
        if error.hint:
            Console(stderr=True).print(f"  hint: {escape(error.hint)}", highlight=False)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
