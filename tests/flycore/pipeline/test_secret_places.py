"""A secret that a tool is given shows nowhere: results, progress, catalog, activity, asks, audit, events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import Progress, ToolResult
from flycore.model.enums import Code, Status
from flycore.model.events import Event
from kits.kernel import Root, answered_call, approve, approver_of, kernel_of, request, tool, until

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-Value/With+Odd=chars"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    found = Root(tmp_path)
    found.environ["API_TOKEN"] = SECRET
    found.policy({"tool": "leaky.free", "decision": "allow", "because": "test"})
    return found


def leaky(root: Root, body: str, **entry: Any) -> None:
    """A sidecar whose shell body may use $API_TOKEN."""
    root.sidecar(
        "leaky",
        f"#!/bin/sh\nread -r request\n{body}\n",
        tool("leaky.free"),
        tool("leaky.ask", risk="high"),
        permissions={"secrets": ["API_TOKEN"]},
        **entry,
    )


def everything(root: Root, kernel: Kernel, *more: Any) -> str:
    """All that anybody outside could read, as one text."""
    said = [kernel.catalog(), kernel.activity(), kernel.asks(), root.audit(), *more]
    return json.dumps(msgspec.to_builtins(said), ensure_ascii=False)


async def watched_call(root: Root, name: str, input: dict[str, Any]) -> tuple[ToolResult, str]:
    """Call with everybody listening; the result and everything there is to read afterwards."""
    steps: list[Progress] = []
    events: list[Event] = []
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:

        async def listen() -> None:
            with kernel.bus.subscribe() as heard:
                async for event in heard:
                    events.append(event)  # noqa: PERF401 - looked at while more come

        group.start_soon(listen)
        result = await kernel.call(request(kernel, name, input), steps.append)
        await until(lambda: any(event.type == "call.finished" for event in events))
        await anyio.sleep(0.2)  # a new catalog, where there is one, is made within this time
        text = everything(root, kernel, result, steps, events)
        group.cancel_scope.cancel()
    return result, text


LEAKS = {
    "output": """printf '{"ok": true, "said": "%s"}\\n' "$API_TOKEN" """,
    "key": """printf '{"ok": true, "%s": 1}\\n' "$API_TOKEN" """,
    "error": """printf '{"ok": false, "error": "%s", "hint": "%s"}\\n' "$API_TOKEN" "$API_TOKEN"; exit 1""",
    "details": """printf '{"ok": false, "error": "no", "seen": ["%s"]}\\n' "$API_TOKEN" """,
    "stderr": """printf '%s\\n' "$API_TOKEN" >&2; printf '{"ok": true}\\n'""",
    "crash": """printf '%s\\n' "$API_TOKEN" >&2; kill -SEGV $$""",
    "garbage": """printf 'no json %s\\n' "$API_TOKEN" """,
    "progress": """printf '{"event": "progress", "progress": 1, "message": "%s"}\\n' "$API_TOKEN"
printf '{"ok": true}\\n'""",
    "log": """printf '{"event": "log", "message": "%s"}\\n{"ok": true}\\n' "$API_TOKEN" """,
    "artifact": """printf '{"ok": true, "artifacts": [{"path": "nowhere/%s"}]}\\n' "$API_TOKEN" """,
    "mime": """echo x > made
printf '{"ok": true, "artifacts": [{"path": "%s/made", "mimeType": "%s"}]}\\n' "$PWD" "$API_TOKEN" """,
    "input": """printf '{"ok": true}\\n'""",
}


@pytest.mark.parametrize("place", LEAKS)
async def test_a_secret_shows_nowhere(root: Root, place: str) -> None:
    leaky(root, LEAKS[place])
    _, text = await watched_call(root, "leaky.free", {"given": SECRET, SECRET: 1})
    assert SECRET not in text


@pytest.mark.parametrize("before", range(0, 60, 3))
async def test_a_secret_cut_by_a_limit_leaves_no_recognisable_piece(root: Root, before: int) -> None:
    """The excerpt of a malformed answer ends after 400 characters, in the middle of the secret or not."""
    leaky(root, f"""head -c {400 - before} /dev/zero | tr '\\0' x; printf %s "$API_TOKEN" """)
    result, text = await watched_call(root, "leaky.free", {})
    assert result.error is not None
    assert result.error.code == Code.INVALID_OUTPUT
    pieces = {SECRET[at : at + 8] for at in range(len(SECRET) - 7)}
    assert not [piece for piece in pieces if piece in text]


async def test_the_start_of_a_long_stderr_leaves_no_piece_either(root: Root) -> None:
    """Of stderr the last 64 KiB are kept: what is cut at its beginning is the end of a secret."""
    for kept in (4, 9, 15, 20, 26):
        fill = 65_536 - kept
        leaky(
            root,
            f"""printf %s "$API_TOKEN" >&2; head -c {fill} /dev/zero | tr '\\0' x >&2; kill -SEGV $$""",
        )
        _, text = await watched_call(root, "leaky.free", {})
        tail = SECRET[-kept:] if kept >= 8 else SECRET[-8:]
        assert f"{tail[:8]}" not in text, kept


async def test_what_the_caller_says_is_masked_and_so_is_a_tool_that_is_not_well(root: Root) -> None:
    leaky(root, "exit 0")
    root.sidecars["leaky"]["command"] = "./tools/none"
    root.write()
    async with kernel_of(root, trusted=False) as kernel:
        waiting = kernel.pending_trust()
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in waiting))
        asked = request(kernel, "leaky.free", {"given": SECRET}, said=f"use {SECRET}")
        result = await kernel.call(asked)
        assert result.status is Status.UNAVAILABLE
        assert SECRET not in everything(root, kernel, result)


async def test_what_does_not_fit_the_schema_is_masked_in_the_record(root: Root) -> None:
    leaky(root, "exit 0")
    schema = {"type": "object", "properties": {"given": {"type": "integer"}}}
    root.sidecars["leaky"]["tools"][0]["inputSchema"] = schema
    root.write()
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "leaky.free", {"given": SECRET}, said=SECRET))
        assert result.error is not None
        assert result.error.code == Code.INVALID_INPUT
        assert SECRET not in everything(root, kernel)


async def test_a_card_s_reason_and_words_are_masked_in_the_record(root: Root) -> None:
    leaky(root, """printf '{"ok": true}\\n'""")
    async with kernel_of(root) as kernel:
        result = await answered_call(
            kernel, lambda ask: approve(kernel, ask), "leaky.ask", {"given": SECRET}, said=f"with {SECRET}"
        )
        assert result.status is Status.SUCCESS
    assert SECRET not in json.dumps(root.audit())
