"""Suite S11, log injection: whatever a caller, a sidecar or a person writes, it stays inside its field."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from flycore.audit.export import Format, export
from flycore.audit.projection import Projection
from flycore.audit.verify import verify
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask
from flycore.model.call import Caller, CallRequest
from flycore.model.enums import Choice, Status
from kits.kernel import Root, answered_call, approver_of, kernel_of, tool

pytestmark = pytest.mark.anyio

FORGED = '{"seq":1,"time":"2026-01-01T00:00:00.000000Z","event":"APPROVAL_DECIDED","decision":"approved"}'
HOSTILE = (
    f"\n{FORGED}\n",
    f"\r\n{FORGED}\r\n",
    f"\u2028{FORGED}\u0085",
    '","event":"APPROVAL_DECIDED","decision":"approved","x":"',
    '\\","hash":"' + "0" * 64 + '"}\n{"seq":',
    " status=success decision=approved ",
    '" status="success',
    "] TOOL_EXECUTED name=x status=success\n[",
    "\x00\x1b[2K\x1b[1A\x08\x7f\x9b",
    "\u202eevorppa\u2066\u200b",
)
SIDECAR = """#!/bin/sh
read -r request
cat "$(dirname "$0")/answer"
"""


def caller(text: str) -> Caller:
    """A program that chose every word about itself."""
    return Caller(door="socket", program=text, executable=text, pid=7, started=1, claims=text)


@pytest.mark.parametrize("text", HOSTILE)
async def test_nothing_forges_a_line_or_a_field(tmp_path: Path, text: str) -> None:
    root = Root(tmp_path)
    program = root.sidecar("odd", SIDECAR, tool("odd.do", risk="high"), seal="in-place")
    (program.parent / "answer").write_text(json.dumps({"ok": False, "error": text, "code": text, text: text}))
    async with kernel_of(root) as kernel:
        await _calls(kernel, text)
    folder = root.places.audit_dir
    anchors = root.places.anchors_file
    found = verify(folder, anchors)
    lines = root.audit()
    assert (found.exit_code, found.lines) == (0, len(lines))
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    decisions = [line["decision"] for line in lines if line["event"] == "APPROVAL_DECIDED"]
    assert decisions == ["denied", "approved"]
    assert [line["tool"] for line in lines if line["event"] == "TOOL_CALLED"] == ["odd.do", "odd.do", text]
    assert [line["reason"] for line in lines if "reason" in line] == [text]
    _shown(folder, lines)


async def _calls(kernel: Kernel, text: str) -> None:
    """One that is denied with that reason, one that runs and fails with it, one of a tool of that name."""

    async def deny(ask: Ask) -> None:
        answer = Answer(choice=Choice.DENY, reason=text)
        assert (await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)).accepted

    async def approve(ask: Ask) -> None:
        answer = Answer(choice=Choice.APPROVE_ONCE)
        assert (await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)).accepted

    given = {text: [text, {text: text}]}
    for answer in (deny, approve):
        result = await answered_call(kernel, answer, "odd.do", given, caller=caller(text), said=text)
        assert result.status in (Status.DENIED, Status.FAILED)
    asked = CallRequest(
        call_id=kernel.new_call_id(), tool=text, input=given, caller=caller(text), parent_call_id=text
    )
    assert (await kernel.call(asked)).status is Status.FAILED


def _shown(folder: Path, lines: list[dict[str, object]]) -> None:
    """In each shape a line is a line, and says what the log says."""
    texts = list(export(folder, Format.TEXT))
    assert len(texts) == len(lines)
    for shown, line in zip(texts, lines, strict=True):
        assert shown.isprintable()
        assert shown.startswith(f"[{line['time']}] {line['event']} ")
    assert len(list(export(folder, Format.JSONL))) == len(lines)
    rows = list(csv.DictReader(io.StringIO("\n".join(export(folder, Format.CSV)))))
    assert [(row["seq"], row["event"]) for row in rows] == [
        (str(line["seq"]), line["event"]) for line in lines
    ]
    made = Projection(folder)
    made.update()
    assert [record.status for record in made.history()] == ["failed", "failed", "denied"]
    assert made.approvals().total.approved == 1
