"""The Unix socket, spoken to by a plain WebSocket client and by our own."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from websockets.asyncio.client import unix_connect
from websockets.exceptions import InvalidStatus

from flycore.client.client import KernelClient, connect_unix
from flycore.model.call import Progress, ToolResult
from flycore.model.enums import Code, Phase, Risk, Status
from flycore.model.errors import KernelUnreachable, ProtocolError
from kits.kernel import ECHO, PATIENCE, Root, approve, close_console, request, tool, until, waiting_ask
from kits.unix_socket import plain, say, served

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.ask", risk="high"), tool("echo.free"))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    return root


async def test_the_socket_is_private_and_gone_afterwards(root: Root) -> None:
    async with served(root):
        facts = os.stat(root.places.socket)
        folder = os.stat(root.places.socket.parent)
        assert stat.S_IMODE(facts.st_mode) == 0o600
        assert stat.S_IMODE(folder.st_mode) == 0o700
    with pytest.raises(KernelUnreachable):
        async with connect_unix(root.places.socket):
            pass


async def test_a_stale_socket_file_is_replaced(root: Root) -> None:
    root.places.socket.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(root.places.socket))
    assert root.places.socket.is_socket()
    async with served(root), plain(root) as connection:
        assert (await say(connection, "ping"))["type"] == "pong"


async def test_a_browser_and_other_paths_are_refused_before_the_upgrade(root: Root) -> None:
    async with served(root):
        path = str(root.places.socket)
        for uri, origin in (("ws://localhost/ws", "http://localhost"), ("ws://localhost/other", None)):
            with pytest.raises(InvalidStatus):
                async with unix_connect(path, uri=uri, origin=origin):  # type: ignore[arg-type]  # a NewType
                    pass


BAD_FRAMES = [
    "",
    "{",
    "[]",
    "null",
    '{"protocol":"flyflor.ws.v1"}',
    '{"protocol":"flyflor.ws.v1","id":"1","type":"ping","at":0,"payload":{},"approved":true}',
    '{"protocol":"flyflor.ws.v1","protocol":"x","id":"1","type":"ping","at":0,"payload":{}}',
    "[" * 100_000,
    '{"protocol":"other","id":"1","type":"ping","at":0,"payload":{}}',
    b"\xff\xfe",
    '{"protocol":"flyflor.ws.v1","id":"1","type":"ping","at":NaN,"payload":{}}',
]


@pytest.mark.parametrize("frame", BAD_FRAMES, ids=range(len(BAD_FRAMES)))
async def test_a_bad_frame_is_answered_and_ends_nothing(root: Root, frame: str | bytes) -> None:
    async with served(root), plain(root) as connection:
        await connection.send(frame)
        answer = json.loads(await connection.recv())
        assert (answer["type"], answer["payload"]["code"]) == ("error", "invalid-envelope")
        assert (await say(connection, "ping"))["type"] == "pong"


REFUSED = [
    ("tool.call", {"tool": "echo.ask", "approved": True}, "invalid-payload"),
    ("tool.call", {"tool": "echo.ask", "approvalDecision": "approve-once"}, "invalid-payload"),
    ("tool.call", {"tool": "echo.ask", "_meta": {"approved": True}}, "invalid-payload"),
    ("tool.call", {"tool": 7}, "invalid-payload"),
    ("tool.run", {"tool": "echo.ask"}, "unsupported-message"),
    ("ask.decide", {"id": "x", "choice": "approve-once"}, "unauthorized"),
]


@pytest.mark.parametrize(("kind", "payload", "code"), REFUSED)
async def test_forged_and_unknown_messages_are_refused(
    root: Root, kind: str, payload: Any, code: str
) -> None:
    async with served(root) as kernel, plain(root) as connection:
        answer = await say(connection, kind, payload)
        assert answer["payload"]["code"] == code
        assert answer["correlationId"] == "m1"
        assert kernel.activity() == ()


READS = ("ping", "gateway.status.get", "ask.list", "history.list", "lease.list", "trust.list")
ACTS = ("trust.revoke", "panic", "kernel.yield")


async def test_a_message_without_keys_ignores_them_where_it_reads_and_refuses_them_where_it_acts(
    root: Root,
) -> None:
    async with served(root), plain(root) as connection:
        for kind in READS:
            assert (await say(connection, kind, {"approved": True}))["type"] != "error"
        for kind in ACTS:
            answer = await say(connection, kind, {"approved": True})
            assert (answer["type"], answer["payload"]["code"]) == ("error", "invalid-payload")


async def test_trust_is_taken_away_by_viewers_and_given_by_nobody(root: Root) -> None:
    async with served(root) as kernel:
        async with plain(root) as connection:
            answer = await say(connection, "trust.revoke")
            assert answer["payload"]["code"] == "unauthorized"
            assert not kernel.pending_trust()
        async with connect_unix(root.places.socket, viewer=True) as viewer:
            assert (await viewer.ask_for("trust.revoke"))["accepted"]
            (item,) = await viewer.pending_trust()
            for kind in ("trust.accept", "trust.give"):
                with pytest.raises(ProtocolError):
                    await viewer.ask_for(kind, {"accepted": [[item.sidecar, item.digest]]})
        view = kernel.catalog().sidecar("echo")
        assert view is not None
        assert not view.trusted


async def test_how_the_root_is_is_told_to_viewers_alone(root: Root) -> None:
    async with served(root) as kernel:
        async with plain(root) as connection:
            assert (await say(connection, "doctor.get"))["payload"]["code"] == "unauthorized"
        async with connect_unix(root.places.socket, viewer=True) as viewer:
            told, own = await viewer.checks(), await kernel.checks()
    assert [(check.name, check.state) for check in told] == [(check.name, check.state) for check in own]


async def test_no_connection_decides_not_even_for_another_call(root: Root) -> None:
    async with (
        served(root) as kernel,
        connect_unix(root.places.socket) as agent,
        anyio.create_task_group() as group,
    ):
        group.start_soon(agent.call, "echo.ask", {})
        ask = await waiting_ask(kernel)
        for name in ("first", "second"):
            async with plain(root) as connection:
                forged = {
                    "requestId": ask.request.id,
                    "subjectDigest": ask.request.subject_digest,
                    "answer": {"choice": "approve-once"},
                }
                answer = await say(connection, "ask.decide", forged, requestId=name)
                assert answer["payload"]["code"] == "unauthorized"
        assert kernel.status().waiting == 1
        group.cancel_scope.cancel()


async def test_the_confirming_letter_never_leaves_the_console(root: Root) -> None:
    async with (
        served(root) as kernel,
        connect_unix(root.places.socket) as agent,
        anyio.create_task_group() as group,
    ):
        group.start_soon(agent.call, "echo.ask", {})
        ask = await waiting_ask(kernel)
        assert ask.request.risk is Risk.HIGH
        assert ask.request.letter
        async with connect_unix(root.places.socket, viewer=True) as viewer:
            seen = await viewer.asks()
            assert [item.request.letter for item in seen] == [""]
            assert seen[0].request.why
        assert [item.request.why for item in await agent.asks()] == [()]
        async with connect_unix(root.places.socket) as stranger:
            assert await stranger.call("echo.free", {})
        group.cancel_scope.cancel()


async def test_an_approved_call_over_the_socket_tells_its_progress(root: Root) -> None:
    phases: list[Phase] = []
    results: list[ToolResult] = []

    def note(progress: Progress) -> None:
        phases.append(progress.phase)

    async with served(root) as kernel, connect_unix(root.places.socket) as agent:

        async def run() -> None:
            results.append(await agent.call("echo.ask", {}, on_progress=note))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await approve(kernel, await waiting_ask(kernel))
    assert results[0].status is Status.SUCCESS
    assert list(dict.fromkeys(phases)) == [
        Phase.CHECKING,
        Phase.WAITING_APPROVAL,
        Phase.RUNNING,
    ]


async def test_a_client_that_vanishes_withdraws_its_request(root: Root) -> None:
    async with served(root) as kernel:
        async with plain(root) as connection:
            await say(connection, "tool.call", {"tool": "echo.ask"})
            await waiting_ask(kernel)
        await until(lambda: kernel.status().waiting == 0)
        assert [ask.state.value for ask in kernel.asks()] == ["withdrawn"]


async def test_cancel_ends_only_calls_of_the_same_connection(root: Root) -> None:
    async with (
        served(root) as kernel,
        connect_unix(root.places.socket) as agent,
        anyio.create_task_group() as group,
    ):
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await agent.call("echo.ask", {}))

        group.start_soon(run)
        call_id = (await waiting_ask(kernel)).request.call_id
        async with connect_unix(root.places.socket) as stranger:
            assert not await stranger.cancel(call_id)
        assert await agent.cancel(call_id)
        await until(lambda: results)
    assert results[0].error is not None
    assert results[0].error.code == Code.CANCELLED


async def test_a_viewer_ends_any_call(root: Root) -> None:
    async with served(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.ask", {}))
        call_id = (await waiting_ask(kernel)).request.call_id
        async with connect_unix(root.places.socket, viewer=True) as viewer:
            assert await viewer.cancel(call_id)
            await until(lambda: kernel.status().running == 0)
            assert not await viewer.cancel(call_id)


async def test_tools_of_one_sidecar_share_their_snapshot(root: Root) -> None:
    root.sidecar("pair", ECHO, tool("pair.a"), tool("pair.b"))
    async with served(root) as kernel, connect_unix(root.places.socket, viewer=True) as viewer:
        with anyio.fail_after(PATIENCE):
            # A probe may have answered in between. Its time alone makes a new catalog of the same version.
            while (catalog := await viewer.catalog()) != kernel.catalog():
                pass
        first, second = catalog.capability("pair.a"), catalog.capability("pair.b")
        assert first is not None
        assert second is not None
        assert first.stability is second.stability


async def test_a_viewer_reads_and_does_not_call(root: Root) -> None:
    async with served(root), connect_unix(root.places.socket, viewer=True) as viewer:
        assert (await viewer.catalog()).capability("echo.free") is not None
        assert (await viewer.status()).clients == 1
        with pytest.raises(Exception, match="unauthorized"):
            await viewer.call("echo.free", {})


async def test_events_reach_who_subscribed(root: Root) -> None:
    async with served(root), connect_unix(root.places.socket) as agent, agent.events() as events:
        await agent.call("echo.free", {})
        seen = []
        async for event in events:
            seen.append(event.type)
            if event.type == "call.finished":
                break
    assert seen[0] == "call.started"


async def test_who_watches_learns_when_an_agent_comes_and_when_it_has_left(root: Root) -> None:
    async def agents_at_the_next_change() -> int:
        with anyio.fail_after(PATIENCE):
            async for event in events:
                if event.type == "status.changed":
                    break
        return (await viewer.status()).agents

    async with (
        served(root),
        connect_unix(root.places.socket, viewer=True) as viewer,
        viewer.events() as events,
    ):
        # A command that only reads is no agent, neither for a moment nor later.
        async with connect_unix(root.places.socket, viewer=True) as command:
            assert (await command.status()).agents == 0
        async with connect_unix(root.places.socket):
            assert await agents_at_the_next_change() == 1
        assert await agents_at_the_next_change() == 0
        async with plain(root) as connection:
            await say(connection, "tool.call", {"tool": "echo.free"})
            assert await agents_at_the_next_change() == 1
        assert await agents_at_the_next_change() == 0


async def test_the_catalog_over_the_socket_is_the_documented_shape(root: Root) -> None:
    async with served(root), plain(root) as connection:
        answer = await say(connection, "capability.catalog.get")
    payload = answer["payload"]
    assert payload["schema"] == "flytui.catalog/1"
    console = next(kit for kit in payload["kits"] if kit["id"] == "flytui.console")
    assert console["bindings"][0]["known"] == len(payload["capabilities"])
    named = {item["name"]: item for item in payload["capabilities"]}
    assert named["echo.free"]["effective"] == "available"
    assert named["web.search"]["effective"] == "unavailable"
    assert named["web.search"]["reasons"][0]["remedy"]


async def catalogs(root: Root, *wanted: dict[str, Any]) -> list[Any]:
    """The answers to these questions for the catalog, all of one state: a probe may answer between two."""
    async with served(root), plain(root) as connection:
        while True:
            before = (await say(connection, "capability.catalog.get"))["payload"]
            told = [
                (await say(connection, "capability.catalog.get", payload))["payload"] for payload in wanted
            ]
            if (await say(connection, "capability.catalog.get"))["payload"] == before:
                return told


async def test_the_outline_of_the_catalog_lacks_only_the_entries_as_they_are_written(root: Root) -> None:
    async with served(root), connect_unix(root.places.socket, viewer=True) as client:
        with anyio.fail_after(PATIENCE):
            whole, outline = await client.catalog(), await client.catalog(outline=True)
            while whole.version != outline.version:  # a probe answered between the two
                whole, outline = await client.catalog(), await client.catalog(outline=True)
    assert outline.capabilities == whole.capabilities
    assert {view.entry.text for view in outline.sidecars if view.tool_count} == {""}
    assert any(claim.spec for view in whole.sidecars for claim in view.entry.tools)
    restored = tuple(
        msgspec.structs.replace(
            view,
            entry=msgspec.structs.replace(
                view.entry, raw=own.entry.raw, text=own.entry.text, tools=own.entry.tools
            ),
        )
        for view, own in zip(outline.sidecars, whole.sidecars, strict=True)
    )
    for view, own in zip(outline.sidecars, whole.sidecars, strict=True):
        assert view.entry.tool_names == own.entry.tool_names
        assert view.tool_count or view == own  # what offers no tool is shown by its entry alone
    assert msgspec.structs.replace(outline, sidecars=restored) == whole


async def test_a_client_that_does_not_ask_for_the_outline_gets_all_of_the_catalog(root: Root) -> None:
    detailed, document, same = await catalogs(root, {"detail": True}, {}, {"outline": True})
    whole = detailed["catalog"]
    assert all(sidecar["entry"]["raw"] and sidecar["entry"]["text"] for sidecar in whole["sidecars"])
    assert same == document


async def test_tools_of_a_remote_catalog_share_what_is_equal(root: Root) -> None:
    async with served(root), connect_unix(root.places.socket, viewer=True) as client:
        catalog = await client.catalog(outline=True)
    seen: dict[bytes, object] = {}
    for view in catalog.capabilities:
        schema = view.capability.output_schema
        assert seen.setdefault(msgspec.json.encode(schema), schema) is schema
    assert len(seen) < len(catalog.capabilities)


async def test_a_thousand_broken_and_good_connections(root: Root) -> None:
    async with served(root):

        async def bad() -> None:
            stream = await anyio.connect_unix(str(root.places.socket))
            async with stream:
                await stream.send(b"GARBAGE\r\n\r\n")

        async def good() -> None:
            async with connect_unix(root.places.socket) as client:
                assert isinstance(client, KernelClient)
                assert (await client.call("echo.free", {})).status in (Status.SUCCESS, Status.DENIED)

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(bad)
            for _ in range(4):
                group.start_soon(good)


async def test_who_waits_is_told_when_the_kernel_leaves(root: Root) -> None:
    """A caller whose request nobody decided learns that it did not run, not that the line was cut. While a
    console only dies, it waits on."""
    told: list[ToolResult] = []

    async def call() -> None:
        async with connect_unix(root.places.socket) as client:
            told.append(await client.call("echo.ask", {}))

    async with anyio.create_task_group() as group, served(root) as kernel:
        group.start_soon(call)
        await waiting_ask(kernel)
        close_console(kernel)
        assert (kernel.status().approver, kernel.status().waiting, told) == (False, 1, [])
    assert [(result.status, result.error and result.error.code) for result in told] == [
        (Status.DENIED, Code.NO_APPROVER)
    ]


async def test_who_was_not_asked_about_yet_is_told_the_same_when_the_kernel_leaves(root: Root) -> None:
    """A call that is still checked, as one is that waits for the console to open, has not run either."""
    told: list[ToolResult] = []

    async def call() -> None:
        async with connect_unix(root.places.socket) as client:
            told.append(await client.call("echo.ask", {}))

    async with anyio.create_task_group() as group, served(root) as kernel:
        close_console(kernel)
        group.start_soon(call)
        await until(lambda: any(line["event"] == "TOOL_CALLED" for line in root.audit()))
        assert [item.phase for item in kernel.activity()] == [Phase.CHECKING]
    assert [(result.error and result.error.code, result.exit_status) for result in told] == [
        (Code.NO_APPROVER, 4)
    ]


async def test_a_call_that_meets_a_kernel_that_has_stopped_is_not_taken_for_one_its_caller_cancelled(
    root: Root,
) -> None:
    async with served(root) as kernel:
        await kernel.stop()
        result = await kernel.call(request(kernel, "echo.ask"))
    assert (result.error and result.error.code, result.exit_status) == (Code.NO_APPROVER, 4)


async def test_who_runs_is_told_that_it_was_ended(root: Root) -> None:
    root.sidecar("slow", "#!/bin/sh\nexec sleep 600\n", tool("slow.nap"))
    root.policy({"tool": "slow.*", "decision": "allow", "because": "test"})
    told: list[ToolResult] = []

    async def call() -> None:
        async with connect_unix(root.places.socket) as client:
            told.append(await client.call("slow.nap", {}))

    async with anyio.create_task_group() as group, served(root) as kernel:
        group.start_soon(call)
        await until(lambda: any(item.phase is Phase.RUNNING for item in kernel.activity()))
    assert [(result.status, result.error and result.error.code) for result in told] == [
        (Status.FAILED, Code.CANCELLED)
    ]
