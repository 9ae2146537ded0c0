"""`flytui mcp` as a process, spoken to by the official client in both eras."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from kernelkit import ECHO, Root, kernel_of, tool
from mcpkit import ERAS, about, over_stdio, text_of

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
async def test_visible_tools_are_listed_and_called_through_a_kernel_of_its_own(root: Root, era: str) -> None:
    async with over_stdio(root, era) as client:
        listed = {one.name for one in (await client.list_tools()).tools}
        assert {"echo_free", "echo_ask"} <= listed
        assert listed.isdisjoint({"echo_never", "gone_do", "web_search"})
        for name in ("echo_free", "echo.free"):
            result = await client.call_tool(name, {})
            assert not result.is_error, text_of(result)
            assert result.structured_content == {"said": "hello"}
            assert about(result)["status"] == "success"


@pytest.mark.parametrize("era", ERAS)
async def test_what_cannot_be_called_says_why(root: Root, era: str) -> None:
    async with over_stdio(root, era) as client:
        ends = {"echo_ask": "no-approver", "echo_never": "policy", "gone_do": "command-not-found"}
        for name, code in ends.items():
            result = await client.call_tool(name, {})
            assert result.is_error
            assert about(result)["error"]["code"] == code
            assert text_of(result).startswith(f"{code}: ")
        with pytest.raises(MCPError, match="did you mean echo_free") as refused:
            await client.call_tool("echo_fre", {})
        assert refused.value.code == INVALID_PARAMS
