"""Foreign programs that offer a known capability: what they are sent, and what a person is told of them."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from flycore.model.approval import Answer
from flycore.model.call import ToolResult
from flycore.model.enums import Choice, Code, Effective, Status
from kits.kernel import Root, approver_of, kernel_of, request, waiting_ask

pytestmark = pytest.mark.anyio
TOOL = "archive.create"
OWN = {
    "name": TOOL,
    "inputSchema": {
        "type": "object",
        "properties": {"files": {"type": "array", "items": {"type": "string"}}, "target": {"type": "string"}},
        "required": ["files", "target"],
        "additionalProperties": False,
    },
}
PROGRAM = """#!/bin/sh
read -r request
printf '%s' "$request" > {base}/request
printf '{{"ok": true, "made": true}}\\n'
"""


async def test_the_entry_s_own_schema_decides_what_the_program_gets(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("theirs", PROGRAM.format(base=tmp_path), OWN, probe={"mode": "off"})
    root.policy({"tool": TOOL, "decision": "allow", "because": "test"})
    async with kernel_of(root) as kernel:
        view = kernel.catalog().capability(TOOL)
        assert view is not None
        assert (view.stability.effective, view.stability.reasons) == (Effective.AVAILABLE, ())
        refused = await kernel.call(request(kernel, TOOL, {"paths": ["a"], "output": "b.zip"}))
        assert refused.error is not None
        assert refused.error.code == Code.INVALID_INPUT
        result = await kernel.call(request(kernel, TOOL, {"files": ["a"], "target": "b.zip"}))
        assert (result.status, result.warnings) == (Status.SUCCESS, ())
    assert '"target":"b.zip"' in (tmp_path / "request").read_text().replace(" ", "")


async def test_a_bare_name_is_degraded_and_its_card_says_why(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("theirs", PROGRAM.format(base=tmp_path), TOOL, probe={"mode": "off"})
    async with kernel_of(root) as kernel:
        view = kernel.catalog().capability(TOOL)
        assert view is not None
        (reason,) = view.stability.reasons
        assert (view.stability.effective, reason.code) == (Effective.DEGRADED, "dialect-unknown")
        assert "inputSchema" in reason.remedy
        results: list[ToolResult] = []

        async def call() -> None:
            given = {"paths": ["a"], "output": "b.zip"}
            results.append(await kernel.call(request(kernel, TOOL, given)))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            ask = await waiting_ask(kernel)
            assert ask.request.notices == (reason.message,)
            denied = Answer(choice=Choice.DENY)
            await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, denied)
        assert results[0].status is Status.DENIED
