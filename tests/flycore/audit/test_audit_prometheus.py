"""The text format: what is in a label stays in it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flycore.audit.projection import approvals, metrics
from flycore.audit.prometheus import escape_label, exposition
from kits.tables import each_row
from kits.values import status_of

NAMES = (
    'a"b',
    "a\\",
    'a\\"',
    "a\nb 1",
    'x"} 9\nflytui_forged_total{tool="y',
    "\x1b[2J",
    "\u202ea",
    "é🦋",
    "",
)

_SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)(?:\{(?P<labels>(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (?P<value>[0-9.e+-]+)'
)
_LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\["\\n])*)"')


def read(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The exposition as a strict reader sees it; every sample has to follow its HELP and TYPE."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    family = ""
    assert text.endswith("\n")
    lines = text.removesuffix("\n").split("\n")
    for number, line in enumerate(lines):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in found, "one group a family"
            assert re.fullmatch(rf"# TYPE {family} (counter|gauge|summary)", lines[number + 1])
            found[family] = []
        elif not line.startswith("# TYPE "):
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample["name"] in (family, f"{family}_sum", f"{family}_count")
            labels = {key: unescape(value) for key, value in _LABEL.findall(sample["labels"] or "")}
            found[family].append((labels, float(sample["value"])))
    return found


def unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text)


def logged(site: Any) -> dict[str, list[tuple[dict[str, str], float]]]:
    log = site.open()
    for number, name in enumerate(NAMES):
        call = {"callId": f"c{number}", "tool": name, "callerKey": f"socket:{name}:1:2"}
        log.append("TOOL_CALLED", call)
        log.append("APPROVAL_ASKED", {**call, "requestId": name})
        decided = {"requestId": name, "decision": "approved", "choice": "approve-once", "tookMs": 400}
        log.append("APPROVAL_DECIDED", {**call, **decided})
        ended = {"status": "failed", "code": name, "message": name, "level": "none", "durationMs": 1_500}
        log.append("TOOL_EXECUTED", {**call, **ended})
    text = exposition(metrics(site.folder), approvals(site.folder))
    assert text.replace("\n", "").isprintable()
    return read(text)


def test_no_name_forges_a_sample_or_a_label(site: Any) -> None:
    found = logged(site)
    assert "flytui_forged_total" not in found
    for family in ("flytui_tool_calls_open", "flytui_tool_last_executed_timestamp_seconds"):
        assert len({labels["tool"] for labels, _ in found[family]}) == len(NAMES), "no two names become one"
        assert all(set(labels) == {"tool"} for labels, _ in found[family])
    assert {tuple(labels) for labels, _ in found["flytui_approval_prompts_total"]} == {
        ("caller", "tool", "outcome")
    }


def test_the_figures(site: Any) -> None:
    found = logged(site)
    plain = "é🦋"
    calls = {
        labels["status"]: value
        for labels, value in found["flytui_tool_calls_total"]
        if labels["tool"] == plain
    }
    assert calls == {"success": 0, "failed": 1, "denied": 0, "unavailable": 0, "other": 0}
    durations = [value for labels, value in found["flytui_tool_duration_seconds"] if labels["tool"] == plain]
    assert durations == [pytest.approx(1.5, rel=0.01), 1.5, 1]
    assert found["flytui_tool_last_error_timestamp_seconds"][-1][1] == 1_781_524_800.0
    assert ({"caller": f"socket:{plain}", "tool": plain}, 1.0) in found["flytui_approvals_at_once_total"]
    assert found["flytui_audit_unreadable_lines"] == [({}, 0.0)]


def test_an_empty_log_has_every_family(site: Any) -> None:
    found = read(exposition(metrics(site.folder), approvals(site.folder)))
    assert found["flytui_tool_calls_total"] == []
    assert found["flytui_approval_busiest_hour_prompts"] == [({}, 0.0)]


@each_row("text", NAMES)
def test_escaping_can_be_undone(text: str) -> None:
    assert "\n" not in escape_label(text)
    assert unescape(escape_label(text)) == text


def test_the_pauses_of_a_running_kernel_are_there(site: Any) -> None:
    running = status_of(loop_pauses=3, longest_pause_ms=250)
    found = read(exposition(metrics(site.folder), approvals(site.folder), running))
    assert found["flytui_loop_pauses_total"] == [({}, 3.0)]
    assert found["flytui_loop_longest_pause_seconds"] == [({}, 0.25)]
    assert "flytui_loop_pauses_total" not in read(exposition(metrics(site.folder), approvals(site.folder)))
