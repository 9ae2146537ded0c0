"""Entries that change after they were trusted: what was trusted goes on, what was not never starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, LeaseTerms
from flycore.model.catalog import SidecarView
from flycore.model.enums import Choice, Effective, ProbeState, RequestState, Status
from kits.kernel import (
    Root,
    answered_call,
    approve,
    approved_call,
    approver_of,
    kernel_of,
    request,
    tool,
    until,
    waiting_ask,
)

pytestmark = pytest.mark.anyio

MARKED = """#!/bin/sh
read -r request
echo {name} "$@" >> {marks}
printf '{{"ok": true, "by": "{name}"}}\\n'
"""
ALLOW = {"tool": "*", "decision": "allow", "because": "test"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root whose entry `own` is a program that leaves a mark, and whose `evil` program waits beside it."""
    made = Root(tmp_path)
    for name in ("own", "evil"):
        made.sidecar(name, MARKED.format(name=name, marks=made.base / "marks"), probe={"mode": "request"})
    del made.sidecars["evil"]
    made.write()
    return made


def marks(root: Root) -> list[str]:
    """First words of what ran."""
    file = root.base / "marks"
    return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []


def turned(root: Root, **more: Any) -> dict[str, Any]:
    """The entry `own` with the other program."""
    return {**root.sidecars["own"], "command": "./tools/bin-evil/run", **more}


def shown(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """What waits, as a person sees it."""
    return tuple((item.sidecar, item.digest) for item in kernel.pending_trust())


def own(kernel: Kernel) -> SidecarView:
    """The view of the entry, which is there."""
    view = kernel.catalog().sidecar("own")
    assert view is not None
    return view


async def test_the_trusted_value_goes_on_while_the_changed_one_waits(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        await until(lambda: marks(root) == ["own"])
        trusted = own(kernel).entry.digest
        root.sidecars["own"] = turned(
            root,
            permissions={"network": True, "fs": {"write": [str(root.base), "."]}},
            delegates={"more": {"command": "./tools/bin-evil/run"}},
        )
        root.write()
        (item,) = await until(kernel.pending_trust)
        assert item.changed
        assert item.difference == (
            '- /command: "./tools/bin-own/run"',
            '+ /command: "./tools/bin-evil/run"',
            '+ /delegates/more/command: "./tools/bin-evil/run"',
            '+ /permissions/fs/write/1: "."',
            "+ /permissions/network: true",
        )
        view = own(kernel)
        assert (view.trusted, view.changed, view.entry.digest) == (True, item.difference, trusted)
        assert view.entry.permissions.write == (str(root.base),)
        assert view.stability.effective is Effective.AVAILABLE
        (note,) = view.entry.problems
        assert "last trusted value is in force" in note.message
        result = await kernel.call(request(kernel, "own.do"))
        assert result.output == {"by": "own"}
        kernel.probe("own")
        await until(lambda: len(marks(root)) >= 3)
        assert set(marks(root)) == {"own"}

        await approver_of(kernel).trust(shown(kernel))
        assert own(kernel).changed == ()
        assert (await kernel.call(request(kernel, "own.do"))).output == {"by": "evil"}


async def test_what_was_trusted_holds_in_the_next_kernel(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root):
        await until(lambda: marks(root) == ["own"])
    root.sidecars["own"] = turned(root)
    root.write()
    async with kernel_of(root, trusted=False) as kernel:
        shown = kernel.catalog().sidecar("own")
        assert shown is not None
        assert (shown.trusted, shown.changed[1]) == (True, '+ /command: "./tools/bin-evil/run"')
        assert (await kernel.call(request(kernel, "own.do"))).output == {"by": "own"}
        kernel.probe("own")
        await until(lambda: len(marks(root)) >= 3)
    assert set(marks(root)) == {"own"}


async def test_calls_find_an_entry_trusted_once_trust_has_answered(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root, trusted=False) as kernel:
        for round_ in range(10):
            before = shown(kernel)
            root.sidecars["own"]["timeoutMs"] = 20_000 + round_
            root.write()
            await until(lambda old=before: shown(kernel) not in (old, ()))
            assert (await approver_of(kernel).trust(shown(kernel))).accepted
            assert (await kernel.call(request(kernel, "own.do"))).status is Status.SUCCESS
            assert kernel.pending_trust() == ()


async def test_an_entry_swapped_between_show_and_accept_is_refused(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root, trusted=False) as kernel:
        seen = shown(kernel)
        root.sidecars["own"] = turned(root)
        root.write()
        outcome = await approver_of(kernel).trust(seen)
        assert not outcome.accepted
        assert "changed since it was shown: own" in outcome.why_not
        assert not own(kernel).trusted
        assert (await kernel.call(request(kernel, "own.do"))).status is Status.UNAVAILABLE
    assert marks(root) == []


async def test_gone_off_and_broken_hold_at_once_and_user_s_own_too(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        entry = root.sidecars["own"]
        for changed, expected in (
            ({"enabled": False}, Effective.DISABLED),
            ({"command": 7}, Effective.UNAVAILABLE),
        ):
            root.sidecars["own"] = {**entry, **changed}
            root.write()
            await until(lambda wanted=expected: own(kernel).stability.effective is wanted)
            assert kernel.pending_trust() == ()
            assert (await kernel.call(request(kernel, "own.do"))).status is not Status.SUCCESS
        del root.sidecars["own"]
        root.write()
        await until(lambda: kernel.catalog().sidecar("own") is None)
        assert (await kernel.call(request(kernel, "own.do"))).status is Status.FAILED
        root.sidecars["own"] = entry
        root.write()
        await until(lambda: kernel.catalog().sidecar("own"))
        assert own(kernel).trusted


async def test_a_tool_newly_claimed_by_a_changed_entry_stays_with_whoever_has_it(root: Root) -> None:
    root.policy(ALLOW)
    mark = root.base / "marks"
    root.sidecar("second", MARKED.format(name="second", marks=mark), probe={"mode": "off"})
    async with kernel_of(root) as kernel:
        root.sidecars["own"] = {**root.sidecars["own"], "tools": [tool("own.do"), tool("second.do")]}
        root.write()
        await until(kernel.pending_trust)
        view = kernel.catalog().capability("second.do")
        assert view is not None
        assert view.sidecar == "second"
        assert (await kernel.call(request(kernel, "second.do"))).output == {"by": "second"}


async def test_an_approval_and_a_lease_of_the_old_value_hold_for_the_old_value(root: Root) -> None:
    async with kernel_of(root) as kernel:

        async def lease(ask: Any) -> None:
            terms = LeaseTerms(minutes=5, calls=5)
            answer = Answer(choice=Choice.LEASE, lease=terms)
            await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)

        root.sidecars["own"]["seal"] = "auto"
        good = dict(root.sidecars["own"])
        root.write()
        await until(kernel.pending_trust)
        await approver_of(kernel).trust(shown(kernel))

        async def swap_then_approve(ask: Any) -> None:
            root.sidecars["own"] = turned(root)
            root.write()
            await until(kernel.pending_trust)
            await approve(kernel, ask)

        result = await answered_call(kernel, swap_then_approve, "own.do")
        assert result.output == {"by": "own"}
        result = await answered_call(kernel, lease, "own.do")
        assert result.output == {"by": "own"}
        assert (await kernel.call(request(kernel, "own.do"))).output == {"by": "own"}

        await approver_of(kernel).trust(shown(kernel))
        result = await approved_call(kernel, "own.do")
        assert result.output == {"by": "evil"}
        root.sidecars["own"] = good
        root.write()
        await until(kernel.pending_trust)
        assert own(kernel).changed


async def test_trust_taken_away_while_a_card_is_open_stops_the_call(root: Root) -> None:
    async with kernel_of(root) as kernel:

        async def revoke_then_approve(ask: Any) -> None:
            assert (await kernel.revoke_trust(by="test")).accepted
            await approve(kernel, ask)

        result = await answered_call(kernel, revoke_then_approve, "own.do")
        assert result.error is not None
        assert result.error.code == "folder-untrusted"
    assert [line["decision"] for line in root.audit() if line["event"] == "TRUST_DECIDED"] == [
        "trusted",
        "revoked",
    ]


async def test_only_trusted_values_ran_through_two_hundred_flips(root: Root) -> None:
    root.policy(ALLOW)
    good = dict(root.sidecars["own"])
    evil = turned(root, permissions={"network": True})
    results: list[Any] = []
    async with kernel_of(root) as kernel:

        async def calls() -> None:
            while len(results) < 40:  # a minute's quota is more
                results.append(await kernel.call(request(kernel, "own.do")))

        async with anyio.create_task_group() as group:
            group.start_soon(calls)
            for round_ in range(200):
                root.sidecars = [{"own": good}, {"own": evil}, {"own": good, "evil": evil}][round_ % 3]
                root.write()
                if round_ % 20 == 0:
                    kernel.probe("own")
                    await anyio.sleep(0.06)
                await anyio.lowlevel.checkpoint()
            root.sidecars = {"own": good}
            root.write()
            await until(lambda: not own(kernel).changed and not kernel.pending_trust())
        assert own(kernel).stability.probe is not ProbeState.UNAVAILABLE
    assert set(marks(root)) == {"own"}
    ran = [result for result in results if result.status is Status.SUCCESS]
    assert ran
    assert {result.output["by"] for result in ran} == {"own"}


async def test_a_value_in_the_trust_file_that_is_not_its_digest_s_does_not_run(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root):
        await until(lambda: marks(root) == ["own"])
    file = root.places.trust_file
    kept = json.loads(file.read_text())
    kept["own"]["raw"] = turned(root)
    file.write_text(json.dumps(kept))
    root.sidecars["own"]["timeoutMs"] = 9_000
    root.write()
    async with kernel_of(root, trusted=False) as kernel:
        assert not own(kernel).trusted
        assert (await kernel.call(request(kernel, "own.do"))).status is Status.UNAVAILABLE
    assert marks(root) == ["own"]


async def test_a_waiting_card_is_not_disturbed_by_flips_back_and_forth(root: Root) -> None:
    good = dict(root.sidecars["own"])
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        results: list[Any] = []

        async def call() -> None:
            results.append(await kernel.call(request(kernel, "own.do")))

        group.start_soon(call)
        ask = await waiting_ask(kernel)
        for entry in (turned(root), good, turned(root)):
            root.sidecars["own"] = entry
            root.write()
            await until(lambda wanted=entry: bool(kernel.pending_trust()) is (wanted is not good))
        assert [one.state for one in kernel.asks()] == [RequestState.WAITING]
        await approve(kernel, ask)
        await until(lambda: results)
        assert results[0].output == {"by": "own"}
        assert "evil" not in marks(root)
