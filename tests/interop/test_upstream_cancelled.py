"""Published MCP servers go on with their state, and for other callers, while calls are cancelled or slow."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.enums import Code, RequestState, Status
from flycore.runners.mcp import stdio
from kits.browser import Site, browsing, serving
from kits.kernel import Root, approve, approved_call, kernel_of, request, until
from kits.mcp_servers import capability
from kits.programs import needs, needs_bubblewrap
from kits.published_servers import PAGE, SERVERS, find_servers, in_place, is_installed

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(300)]
CANCELLED = 10


def root_with(base: Path, name: str, **places: str) -> Root:
    """A root with that published server. Skips the test where the server is not installed."""
    server = SERVERS[name]
    needs_bubblewrap()
    root = Root(base)
    find_servers(root)
    if not is_installed(root, server):
        needs(server.command)
    root.sidecars[name] = {
        "kind": "mcp",
        "command": server.command,
        "args": in_place(list(server.args), places),
        "env": dict(server.env),
        "permissions": dict(server.permissions),
        **server.entry,
    }
    root.write()
    return root


async def test_a_page_in_the_browser_survives_ten_cancelled_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "CANCEL_GRACE_S", 0.1)
    needs("chromium")
    with ExitStack() as stack:
        site = stack.enter_context(serving())
        site.pages["/"] = PAGE
        root = root_with(tmp_path, "pages", BROWSER=stack.enter_context(browsing(tmp_path)).endpoint)
        async with kernel_of(root) as kernel:
            await until(lambda: capability(kernel, "pages.new_page"), patience=90)
            opened = await approved_call(kernel, "pages.new_page", {"url": f"{site.url}/"})
            assert opened.status is Status.SUCCESS, opened.error
            mark = {"function": "() => { window.mark = 'kept'; return window.mark }"}
            assert "kept" in str((await approved_call(kernel, "pages.evaluate_script", mark)).text)
            for number in range(CANCELLED):
                await cancel_one(kernel, site, number)
            seen = await approved_call(kernel, "pages.evaluate_script", {"function": "() => window.mark"})
            assert "kept" in str(seen.text), seen


async def cancel_one(kernel: Kernel, site: Site, number: int) -> None:
    """Cancel a call whose script waits for the site, once it does; then let the site answer."""
    asked = request(
        kernel, "pages.evaluate_script", {"function": f"() => fetch('/never?{number}').then(() => 'late')"}
    )
    site.held.clear()
    results = await run_until(kernel, asked, lambda: f"/never?{number}" in site.asked)
    assert results[0].error is not None
    assert results[0].error.code == Code.CANCELLED
    site.held.set()


async def run_until(kernel: Kernel, asked: Any, ready: Any) -> list[ToolResult]:
    """The result of an approved call that its caller cancels when `ready` returns True."""
    results: list[ToolResult] = []

    async def run() -> None:
        results.append(await kernel.call(asked))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await approve_call(kernel, asked.call_id)
        await until(ready)
        kernel.cancel(asked.call_id)
    return results


async def approve_call(kernel: Kernel, call_id: str) -> None:
    """Approve the request of that call when it waits."""

    def found() -> Any:
        waiting = (ask for ask in kernel.asks() if ask.state is RequestState.WAITING)
        return next((ask for ask in waiting if ask.request.call_id == call_id), None)

    await approve(kernel, await until(found))


async def test_an_echo_answers_while_another_call_of_its_server_runs(tmp_path: Path) -> None:
    root = root_with(tmp_path, "everything")
    async with kernel_of(root) as kernel:
        await until(lambda: capability(kernel, "everything.echo"), patience=90)
        steps: list[Any] = []
        asked = request(
            kernel, "everything.trigger-long-running-operation", {"duration": 600, "steps": 6_000}
        )
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await kernel.call(asked, steps.append))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await approve_call(kernel, asked.call_id)
            await until(lambda: any(step.progress for step in steps))
            echo = request(kernel, "everything.echo", {"message": "meanwhile"})
            heard: list[ToolResult] = []

            async def say() -> None:
                heard.append(await kernel.call(echo))

            group.start_soon(say)
            await approve_call(kernel, echo.call_id)
            await until(lambda: heard)
            assert heard[0].text == "Echo: meanwhile"
            assert results == []
            kernel.cancel(asked.call_id)
