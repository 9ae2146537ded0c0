"""Foreign programs that offer a known capability: what they are sent, and what a person is told of them."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from flycore.model.approval import Answer
from flycore.model.call import ToolResult
from flycore.model.enums import Choice, Code, Effective, ReasonCode, Status
from flycore.model.stability import Reason
from kits.kernel import Root, approver_of, kernel_of, request, until, waiting_ask

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


IGNORES = """#!/bin/sh
read -r request
printf '{"ok": true, "output": "other.zip"}\\n'
"""
SILENT = """#!/bin/sh
read -r request
printf '{"ok": true}\\n'
"""


@pytest.mark.parametrize("script", [IGNORES, SILENT])
async def test_a_success_without_the_file_that_was_asked_for_is_not_done(tmp_path: Path, script: str) -> None:
    root = Root(tmp_path)
    root.sidecar("theirs", script, TOOL, probe={"mode": "off"})
    root.policy({"tool": TOOL, "decision": "allow", "because": "test"})
    given = {"paths": ["a"], "output": "b.zip"}
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, TOOL, given))
        assert result.error is not None
        assert (result.status, result.error.code) == (Status.FAILED, Code.NOT_DONE)
        assert "b.zip" in result.error.message
        (root.folder / "b.zip").write_bytes(b"")
        again = await kernel.call(request(kernel, TOOL, given))
    # What the answer says still contradicts; where it says nothing, the file is enough.
    assert (again.status is Status.SUCCESS) == (script == SILENT)


SOMETIMES = """#!/bin/sh
read -r request
if [ -e {base}/well ]; then printf '{{"ok": true, "text": "a"}}\\n'; exit; fi
printf '{{"ok": false, "code": "unavailable", "error": "no engine", "remedy": "install one"}}\\n'
exit 1
"""


async def test_a_tool_that_answers_unavailable_is_degraded_until_it_works(tmp_path: Path) -> None:
    root = Root(tmp_path)
    (tmp_path / "a.png").touch()
    root.sidecar(
        "theirs", SOMETIMES.format(base=tmp_path), "vision.ocr", "vision.analyze", probe={"mode": "off"}
    )
    root.policy({"tool": "*", "decision": "allow", "because": "test"})

    def state(name: str) -> tuple[Effective, tuple[Reason, ...]]:
        view = kernel.catalog().capability(name)
        assert view is not None
        return view.stability.effective, view.stability.reasons

    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "vision.ocr", {"path": "a.png"}))
        assert result.status is Status.UNAVAILABLE
        await until(lambda: state("vision.ocr")[0] is Effective.DEGRADED)
        (reason,) = state("vision.ocr")[1]
        assert reason.code is ReasonCode.ANSWERED_UNAVAILABLE
        assert "no engine" in reason.message
        assert "external.tools.jsonc:" in reason.remedy
        assert state("vision.analyze") == (Effective.AVAILABLE, ())
        kernel.probe("theirs")
        await until(lambda: state("vision.ocr") == (Effective.AVAILABLE, ()))
        await kernel.call(request(kernel, "vision.ocr", {"path": "a.png"}))
        await until(lambda: state("vision.ocr")[0] is Effective.DEGRADED)
        (tmp_path / "well").touch()
        worked = await kernel.call(request(kernel, "vision.ocr", {"path": "a.png"}))
        assert worked.status is Status.SUCCESS
        await until(lambda: state("vision.ocr") == (Effective.AVAILABLE, ()))
