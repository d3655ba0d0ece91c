"""Timelines from events."""

from __future__ import annotations

import json

from plait.session import Event, Report
from plait.timeline import chrome_trace, spans, write_chrome_trace, write_picture

EVENTS = [
    Event(0, 0, 0, "load", 3, 10), Event(0, 0, 0, "wait", 1, 14), Event(0, 0, 0, "idle", 0, 20),
    Event(0, 0, 1, "compute", 3, 12), Event(1, 2, 1, "compute", 0, 5),
]


def test_a_span_ends_where_the_agent_s_next_one_begins() -> None:
    assert sorted((e.rank, e.cta, e.agent, e.kind, e.step, stop) for e, stop in spans(EVENTS, 40)) == [
        (0, 0, 0, "load", 10, 14), (0, 0, 0, "wait", 14, 20), (0, 0, 1, "compute", 12, 40), (1, 2, 1, "compute", 5, 40)]


def test_chrome_trace_has_a_process_a_rank_and_a_track_an_agent(tmp_path) -> None:
    write_chrome_trace(tmp_path / "deep" / "timeline.json", Report(40, [], EVENTS), ["loader", "consumer0"])
    rows = json.loads((tmp_path / "deep" / "timeline.json").read_text())["traceEvents"]
    assert {row["pid"] for row in rows} == {0, 1}
    assert {row["args"]["name"] for row in rows if row["name"] == "thread_name"} == {"cta 00 loader", "cta 00 consumer0", "cta 02 consumer0"}
    assert [row["dur"] for row in rows if row["name"] == "load 3"] == [4]


def test_tracks_of_different_ctas_do_not_collide() -> None:
    events = [Event(0, cta, agent, "load", 0, 1) for cta in range(4) for agent in range(6)]
    rows = chrome_trace(Report(5, [], events), [])["traceEvents"]
    assert len({row["tid"] for row in rows if row["ph"] == "X"}) == 24


def test_picture_is_drawn(tmp_path) -> None:
    write_picture(tmp_path / "t.png", Report(40, [], EVENTS), ["loader", "consumer0"], 2)
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
