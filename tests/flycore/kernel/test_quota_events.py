"""Events of quotas and of the audit log, as a viewer and as an agent hear them."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from flycore.client.client import connect_unix
from flycore.model.events import EventClass
from flycore.rpc.events import EVENTS
from kits.kernel import ECHO, PATIENCE, Root, tool
from kits.unix_socket import served

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.free"))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    settings = root.places.policy_file.parent / "config.jsonc"
    settings.write_text(json.dumps({"quota": {"callsPerMinute": 30, "running": 100}}))
    return root


async def test_a_caller_is_told_that_it_is_refused_and_when_it_may_call_again(root: Root) -> None:
    async with (
        served(root),
        connect_unix(root.places.socket) as agent,
        agent.events(frozenset((EventClass.QUOTA,))) as events,
    ):
        async with anyio.create_task_group() as group:
            for _ in range(40):
                group.start_soon(agent.call, "echo.free", {})
        with anyio.fail_after(PATIENCE):
            denied, freed = await anext(events), await anext(events)
    assert (denied.type, freed.type) == ("quota.denied", "quota.freed")
    assert "30 calls in the last minute" in str(denied.payload["message"])
    assert denied.payload["about"] == freed.payload["about"]


async def test_every_line_of_the_log_is_an_event(root: Root) -> None:
    async with (
        served(root),
        connect_unix(root.places.socket, viewer=True) as viewer,
        connect_unix(root.places.socket) as agent,
        connect_unix(root.places.socket) as other,
        viewer.events(frozenset((EventClass.AUDIT,))) as told,
        agent.events(frozenset((EventClass.AUDIT,))) as own,
    ):
        before = len(root.audit())
        result = await agent.call("echo.free", {})
        await other.panic()
        expected = [(line["seq"], line["event"]) for line in root.audit()[before:]]
        with anyio.fail_after(PATIENCE):
            heard = [await anext(told) for _ in expected]
            mine = [
                await anext(own) for line in root.audit()[before:] if line.get("callId") == result.call_id
            ]
    assert [(event.payload["seq"], event.payload["event"]) for event in heard] == expected
    assert {event.payload["callId"] for event in mine} == {result.call_id}
    assert {event.type for event in heard} == {"audit.line"} <= EVENTS.keys()
