"""Timelines of a simulated launch: a Chrome trace (Perfetto opens it) and a picture of roles across SMs."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from .session import Event, Report

# What a span shows as; the words are the trace statements of the Plan.
_COLORS = {
    "wait": "#d9d9d9", "load": "#9ecae1", "compute": "#2ca25f", "store": "#74c476", "push": "#fd8d3c", "send": "#e6550d",
    "relay": "#bcbddc", "arrived": "#756bb1",
}


def spans(events: list[Event], end: int) -> list[tuple[Event, int]]:
    """Each event with the step at which it ends: where the next one of its agent begins, or at the end."""
    by_agent: dict[tuple[int, int, int], list[Event]] = defaultdict(list)
    for event in events:
        by_agent[(event.rank, event.cta, event.agent)].append(event)
    result = []
    for agent_events in by_agent.values():
        agent_events.sort(key=lambda event: event.step)
        ends = [event.step for event in agent_events[1:]] + [end]
        result += [(event, max(stop, event.step + 1)) for event, stop in zip(agent_events, ends) if event.kind != "idle"]
    return result


def chrome_trace(report: Report, agents: list[str]) -> dict[str, object]:
    """The trace as JSON data: one process a rank, one track an agent of a CTA, one microsecond a simulator step."""
    rows: list[dict[str, object]] = []
    tracks = set()
    for event, stop in spans(report.events, report.steps):
        name = agents[event.agent] if event.agent < len(agents) else f"agent {event.agent}"
        track = event.cta * 64 + event.agent
        if (event.rank, track) not in tracks:
            tracks.add((event.rank, track))
            rows.append({"ph": "M", "pid": event.rank, "tid": track, "name": "thread_name",
                         "args": {"name": f"cta {event.cta:02d} {name}"}})
            rows.append({"ph": "M", "pid": event.rank, "name": "process_name", "args": {"name": f"rank {event.rank}"}})
        rows.append({"ph": "X", "pid": event.rank, "tid": track, "name": f"{event.kind} {event.value}", "cat": event.kind,
                     "ts": event.step, "dur": stop - event.step, "args": {"value": event.value}})
    return {"traceEvents": rows, "displayTimeUnit": "ms", "otherData": {"unit": "simulator steps"}}


def write_chrome_trace(path: Path, report: Report, agents: list[str]) -> None:
    """Writes chrome_trace() to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(chrome_trace(report, agents)))


def write_picture(path: Path, report: Report, agents: list[str], ranks: int) -> None:
    """Draws, for each rank, every SM's agents over simulator steps. Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    rows = sorted({(event.cta, event.agent) for event in report.events if event.kind != "idle"})
    figure, axes = pyplot.subplots(ranks, 1, figsize=(14, 1.2 + ranks * max(1.5, 0.16 * len(rows))), sharex=True, squeeze=False)
    bars: dict[tuple[int, int, str], list[tuple[int, int]]] = defaultdict(list)
    for event, stop in spans(report.events, report.steps):
        bars[(event.rank, rows.index((event.cta, event.agent)), event.kind)].append((event.step, stop - event.step))
    for (rank, row, kind), pieces in bars.items():
        axes[rank, 0].broken_barh(pieces, (row - 0.45, 0.9), facecolors=_COLORS.get(kind, "#333333"), linewidth=0)
    for rank in range(ranks):
        axis = axes[rank, 0]
        axis.set_ylabel(f"rank {rank}")
        axis.set_yticks(range(len(rows)), [f"SM {cta} {agents[agent] if agent < len(agents) else agent}" for cta, agent in rows],
                        fontsize=6)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlim(0, report.steps)
    axes[-1, 0].set_xlabel("simulator steps")
    kinds = [kind for kind in _COLORS if any(key[2] == kind for key in bars)]
    figure.legend(handles=[Patch(color=_COLORS[kind], label=kind) for kind in kinds], loc="upper center", ncols=len(kinds) or 1)
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
