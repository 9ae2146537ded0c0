"""The values that the console fetches, counted at a real kernel: those that an event made stale, and no
others."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.client.client import KernelClient, connect_unix
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer
from flycore.model.call import ToolResult
from flycore.model.enums import Choice, Status
from flycore.model.events import MISSED, Event, EventClass
from flycore.model.json import JsonObject
from flycore.rpc.events import EVENTS
from flytui.console.kernel_connection import OpenConnection
from flytui.console.state import _BY_EVENT, ALL_TOPICS, ConsoleState, Topic
from flytui.console.state_sync import StateSync
from kits.attach import own_console
from kits.kernel import ECHO, Root, kernel_of, tool, until, waiting_ask

pytestmark = pytest.mark.anyio

READS = {
    Topic.STATUS: "gateway.status.get",
    Topic.ASKS: "ask.list",
    Topic.TRUST: "trust.list",
    Topic.QUESTIONS: "question.list",
    Topic.PACKAGES: "package.list",
    Topic.CATALOG: "capability.catalog.get",
    Topic.ACTIVITY: "history.list",
    Topic.METRICS: "tool.metrics.get",
    Topic.LEASES: "lease.list",
    Topic.RULES: "rule.list",
    Topic.BLOCKS: "block.list",
}
OF_A_CALL = {READS[topic] for topic in (Topic.STATUS, Topic.ASKS, Topic.ACTIVITY, Topic.METRICS)}


class Console:
    """A console at a real kernel, whose messages are counted."""

    def __init__(self, state: ConsoleState, sync: StateSync, sent: Counter[str]) -> None:
        self.state = state
        self.sync = sync
        self.sent = sent
        self.shown: Counter[Topic] = Counter()
        self.of_catalog: set[Topic] = set()
        """What the catalog's events lead to: the kernel may still find out what this machine enforces."""

    def note(self, event: Event) -> bool:
        """Note an event of the catalog."""
        if event.cls is EventClass.CATALOG:
            self.of_catalog |= _BY_EVENT[event.type]
        return False

    async def decide(self, kernel: Kernel, answer: Answer) -> None:
        """Answer the request that waits, as soon as the console has it."""
        ask = await waiting_ask(kernel)
        await until(lambda: self.state.waiting)
        await self.state.approver.decide(ask.request.id, ask.request.subject_digest, answer)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The messages of all clients that wait for an answer, counted by type."""
    found: Counter[str] = Counter()
    ask = KernelClient._answer

    async def counted(client: KernelClient, kind: str, payload: JsonObject, *, again: bool) -> Any:
        found[kind] += 1
        return await ask(client, kind, payload, again=again)

    monkeypatch.setattr(KernelClient, "_answer", counted)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO, tool("echo.ask"), tool("echo.free"))
    root.policy({"tool": "echo.free", "decision": "allow", "because": "it only says hello"})
    return root


@asynccontextmanager
async def at_kernel(root: Root, sent: Counter[str]) -> AsyncIterator[tuple[Console, Kernel]]:
    """A console that has fetched everything once, beside its kernel."""
    async with (
        kernel_of(root) as kernel,
        own_console(root, kernel) as (client, approver),
        anyio.create_task_group() as group,
    ):
        state = ConsoleState(connection=OpenConnection(client, approver), title="x")

        async def changed(topics: frozenset[Topic]) -> None:
            console.shown.update(topics)

        sync = StateSync(state, changed, lambda on: None, lambda event: None)
        console = Console(state, sync, sent)
        with kernel.bus.subscribe(wants=console.note):
            group.start_soon(sync.run)
            await until(lambda: console.shown[Topic.BLOCKS] and state.offers("echo.ask"))
            await until(lambda: state.status is not None and not state.status.agents)
            sent.clear()
            console.shown.clear()
            yield console, kernel
        group.cancel_scope.cancel()


async def called(console: Console, root: Root, kernel: Kernel, name: str, answer: Answer | None) -> None:
    """Have an agent call a tool, decide the request if there is one, and wait until the console shows the
    result and that the agent has left."""
    results: list[ToolResult] = []

    async def run() -> None:
        async with connect_unix(root.places.socket) as agent:
            results.append(await agent.call(name, {}))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        if answer is not None:
            await console.decide(kernel, answer)
    assert results[0].status is Status.SUCCESS
    state = console.state
    await until(lambda: any(call.result == results[0] for call in state.activity))
    await until(lambda: console.shown[Topic.METRICS])
    await until(lambda: state.status is not None and not state.status.agents)


async def test_an_approved_call_has_nothing_fetched_but_what_it_changes(
    root: Root, sent: Counter[str]
) -> None:
    async with at_kernel(root, sent) as (console, kernel):
        await called(console, root, kernel, "echo.ask", Answer(choice=Choice.APPROVE_ONCE))
        reads = set(sent) - {"client.hello", "ask.decide"}
        assert OF_A_CALL <= reads <= OF_A_CALL | {READS[topic] for topic in console.of_catalog}
        assert not console.state.waiting


async def test_the_use_of_a_rule_of_the_person_is_fetched(root: Root, sent: Counter[str]) -> None:
    async with at_kernel(root, sent) as (console, kernel):
        assert [rule.used for rule in console.state.rules] == [0]
        await called(console, root, kernel, "echo.free", None)
        await until(lambda: console.state.rules[0].used)


async def test_after_missed_events_everything_is_fetched(root: Root, sent: Counter[str]) -> None:
    async with at_kernel(root, sent) as (console, kernel):
        kernel.bus.publish(Event(cls=EventClass.SNAPSHOT, type=MISSED, at=0.0))
        await until(lambda: console.shown.keys() == ALL_TOPICS)
        assert set(sent) == {READS[topic] for topic in ALL_TOPICS}


def test_every_event_that_leads_to_a_read_is_one_of_the_protocol() -> None:
    assert _BY_EVENT.keys() - EVENTS.keys() == {"call.outcome-unknown"}
    assert frozenset().union(*_BY_EVENT.values()) == frozenset(Topic)
