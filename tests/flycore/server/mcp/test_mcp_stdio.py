"""`flytui mcp` as a process, spoken to by the official client in both eras."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from flycore.model.approval import Answer
from flycore.model.enums import Choice
from kits.attach import open_console_kernel
from kits.kernel import ECHO, Root, kernel_of, tool, until
from kits.mcp_clients import ERAS, NEW, ProgressRecorder, about, over_stdio, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def root(tmp_path: Path) -> Root:
    found = Root(tmp_path)
    found.sidecar("echo", ECHO, tool("echo.free"), tool("echo.ask", risk="high"), tool("echo.never"))
    found.sidecar("gone", ECHO, tool("gone.do")).unlink()
    found.policy(
        {"tool": "echo.free", "decision": "allow", "because": "test"},
        {"tool": "echo.never", "decision": "deny", "because": "test"},
    )
    async with kernel_of(found):
        pass
    return found


@pytest.mark.parametrize("era", ERAS)
async def test_what_works_is_listed_and_called_and_the_rest_says_why(root: Root, era: str) -> None:
    async with over_stdio(root, era) as client:
        listed = {one.name for one in (await client.list_tools()).tools}
        assert {"echo_free", "echo_ask"} <= listed
        assert listed.isdisjoint({"echo_never", "gone_do", "web_search"})
        for name in ("echo_free", "echo.free"):
            result = await client.call_tool(name, {})
            assert not result.is_error, text_of(result)
            assert result.structured_content == {"said": "hello"}
            assert about(result)["status"] == "success"
        ends = {"echo_ask": "no-approver", "echo_never": "policy", "gone_do": "command-not-found"}
        for name, code in ends.items():
            result = await client.call_tool(name, {})
            assert result.is_error
            assert about(result)["error"]["code"] == code
            assert text_of(result).startswith(f"{code}: ")
        with pytest.raises(MCPError, match="did you mean echo_free") as refused:
            await client.call_tool("echo_fre", {})
        assert refused.value.code == INVALID_PARAMS


@pytest.mark.parametrize("words", [(), ("--wait-approver", "60")])
async def test_a_console_that_opens_later_decides(root: Root, words: tuple[str, ...]) -> None:
    told = ProgressRecorder()
    async with over_stdio(root, NEW, *words) as client, anyio.create_task_group() as group:
        assert not (await client.call_tool("echo_free", {})).is_error
        ended: list[str] = []

        async def run() -> None:
            result = await client.call_tool("echo_ask", {}, progress_callback=told)
            ended.append(about(result)["status"])

        if words:
            group.start_soon(run)
            await until(lambda: told.numbers)
        opening = open_console_kernel(root.places, on_wait=lambda *_: None)
        async with opening as (console, approver):
            if not words:
                group.start_soon(run)

            await until(lambda: "waiting for approval" in told.words)
            ask = (await console.asks())[0].request
            assert (ask.caller.door, ask.caller.pid) == ("socket", os.getpid())
            await approver.decide(ask.id, ask.subject_digest, Answer(choice=Choice.APPROVE_ONCE))
            await until(lambda: ended)
        assert ended == ["success"]
        assert told.grows
