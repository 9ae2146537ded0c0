"""`flytui metrics` and `flytui audit export`, as processes on a root with real calls."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import jsonschema
import pytest

from flycore.audit.log import AuditLog
from flycore.registry.paths import find_paths
from kits.command_line import Desk


@pytest.fixture(scope="module")
def used(settled: Desk) -> Desk:
    """A root on which tools were called: one that works, one that does not, one there is not."""
    for words in (("try.echo", "message=hello"), ("try.echo", "other=1"), ("vision.ocr",), ("no.tool",)):
        settled.run("call", *words)
    return settled


def test_what_the_log_says_of_each_tool(used: Desk) -> None:
    done = used.run("metrics")
    assert done.returncode == 0, done.stderr
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[:4] == ["TOOL", "CALLS", "SUCCESS", "FAILED"]
    echo = next(row for row in rows if row.startswith("try.echo"))
    assert echo.split()[1:7] == ["2", "1", "1", "0", "0", "0"]
    assert "invalid-input" in echo
    assert "(no such tool)" in done.stdout


def test_the_document_is_as_its_schema_says(used: Desk) -> None:
    document = used.document("metrics")
    assert document["schema"] == "flytui.metrics/1"
    schema = json.loads(used.run("schema", "metrics").stdout)
    jsonschema.Draft202012Validator(schema).validate(document)
    tools: dict[str, Any] = {tool["tool"]: tool for tool in document["metrics"]["tools"]}
    assert (tools["try.echo"]["success"], tools["try.echo"]["ran"]) == (1, 1)
    assert document["approvals"]["total"]["prompts"] == 0


def test_text_for_prometheus(used: Desk) -> None:
    done = used.run("metrics", "--prometheus")
    assert '\nflytui_tool_calls_total{tool="try.echo",status="success"} 1\n' in done.stdout
    assert done.stdout.startswith("# HELP ")
    assert used.run("metrics", "--prometheus", "--json").returncode == 2


def test_nobody_was_asked(used: Desk) -> None:
    done = used.run("metrics", "--approvals")
    assert (done.returncode, done.stdout) == (0, "")
    assert "nobody was asked" in done.stderr


def test_how_much_a_person_was_asked(desk: Desk) -> None:
    places = find_paths(str(desk.root), None, desk.environ, desk.root)
    anchors = places.anchors_file
    log = AuditLog.open(places.audit_dir, anchors, clock=lambda: 1.8e9, monotonic=lambda: 1.0)
    for number, took_ms in enumerate((400, 2_500, 90_000)):
        card = {
            "requestId": f"r{number}",
            "tool": "try.echo",
            "callerKey": f"socket:/usr/bin/agent:{number}:1",
        }
        log.append("APPROVAL_ASKED", card)
        decided = {"decision": "approved", "choice": "approve-once", "tookMs": took_ms}
        log.append("APPROVAL_DECIDED", {**card, **decided})
    log.close()
    done = desk.run("metrics", "--approvals")
    assert "prompts          3; hours that had any: 1" in done.stdout
    assert "within 1 s     1, 33% of them" in done.stdout
    assert "time to decide   2.5 s median, 1 min 30 s p95" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("socket:/usr/bin/agent"))
    assert row.split()[1:6] == ["3", "3", "0", "0", "0"]
    assert row.endswith("try.echo")


def test_a_stretch_of_time(used: Desk) -> None:
    assert "no call in that time" in used.run("metrics", "--until", "2020-01-01").stderr
    assert "try.echo" in used.run("metrics", "--since", "1d").stdout
    for command in (("metrics",), ("audit", "export")):
        done = used.run(*command, "--since", "never")
        assert done.returncode == 2
        assert "never is not a time" in done.stderr


def test_the_log_in_three_shapes(used: Desk) -> None:
    plain = used.run("audit", "export")
    files = sorted((used.home / "state").rglob("audit/*.jsonl"))
    assert plain.stdout == "".join(path.read_text("ascii") for path in files)
    count = len(plain.stdout.splitlines())
    rows = list(csv.DictReader(io.StringIO(used.run("audit", "export", "--format", "csv").stdout)))
    assert [row["seq"] for row in rows] == [str(number) for number in range(1, count + 1)]
    text = used.run("audit", "export", "--format", "text").stdout.splitlines()
    assert len(text) == count
    assert any("TOOL_EXECUTED name=try.echo" in line for line in text)
    document = used.document("audit", "export")
    assert [line["seq"] for line in document["lines"]] == list(range(1, count + 1))
    schema = json.loads(used.run("schema", "audit").stdout)
    jsonschema.Draft202012Validator(schema).validate(document)
    assert used.run("audit", "export", "--format", "csv", "--json").returncode == 2


def test_no_log_is_an_empty_document(desk: Desk) -> None:
    assert desk.document("audit", "export") == {"schema": "flytui.audit/1", "lines": [], "verification": None}
    assert desk.document("metrics")["metrics"]["tools"] == []
    assert desk.run("audit", "export").stdout == ""


def test_inspect_shows_how_a_tool_was_used(trusted: Desk) -> None:
    assert "none yet" in trusted.run("inspect", "try.echo").stdout
    assert trusted.run("call", "try.echo", "message=hello").returncode == 0
    shown = trusted.run("inspect", "try.echo")
    assert "1 call: 1 success" in shown.stdout
    document = trusted.document("inspect", "try.echo")
    assert (document["metrics"]["calls"], document["metrics"]["success"]) == (1, 1)
    [recent] = document["recent"]
    assert recent["result"]["status"] == "success"
    assert "hello" in recent["inputText"]
