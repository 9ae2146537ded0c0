"""A person switches entries and starts a registry through the kernel: the trust in them, and the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.enums import Effective, SandboxState, Status
from flycore.registry.starter import registry_of, starter_pieces
from kits.kernel import ECHO, Root, approve, approver_of, kernel_of, request, until, waiting_ask

pytestmark = pytest.mark.anyio
SLOW = """#!/bin/sh
read -r request
while [ ! -e "{gate}" ]; do sleep 0.05; done
printf '{{"ok": true}}\\n'
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("own", ECHO)
    return made


def file_of(root: Root) -> Path:
    return root.folder / "tools" / "external.tools.jsonc"


def effective(kernel: Kernel, sidecar: str = "own") -> Effective | None:
    view = kernel.catalog().sidecar(sidecar)
    return view.stability.effective if view else None


def lines(root: Root, event: str) -> list[dict[str, Any]]:
    return [line for line in root.audit() if line["event"] == event]


async def test_off_and_on_again_without_being_asked_for_trust(root: Root) -> None:
    async with kernel_of(root) as kernel:
        off = await approver_of(kernel).enable("own", False, "too loud")
        assert off.accepted, off.why_not
        assert effective(kernel) is Effective.DISABLED
        view = kernel.catalog().sidecar("own")
        assert view is not None
        assert view.stability.reasons[0].message == "too loud"
        on = await approver_of(kernel).enable("own", True, "")
        assert on.accepted, on.why_not
        assert effective(kernel) is Effective.AVAILABLE
        assert kernel.pending_trust() == ()
        again = await approver_of(kernel).enable("own", True, "")
        assert "already" in again.why_not
    switched = lines(root, "REGISTRY_EDITED")
    assert [(line["decision"], line["sidecar"], line["decidedBy"]) for line in switched] == [
        ("disabled", "own", "console"),
        ("enabled", "own", "console"),
    ]
    assert switched[0]["reason"] == "too loud"


async def test_a_switch_gives_no_trust_to_what_had_none(root: Root) -> None:
    async with kernel_of(root, trusted=False) as kernel:
        assert (await approver_of(kernel).enable("own", False, "")).accepted
        assert (await approver_of(kernel).enable("own", True, "")).accepted
        view = kernel.catalog().sidecar("own")
        assert view is not None
        assert view.stability.sandbox is SandboxState.DENIED
        assert [item.sidecar for item in kernel.pending_trust()] == ["own"]
    assert lines(root, "TRUST_DECIDED") == []


async def test_a_switch_carries_no_other_change_into_trust(root: Root) -> None:
    async with kernel_of(root) as kernel:
        root.sidecars["own"]["args"] = ["--evil"]
        root.write()
        await until(kernel.pending_trust)
        assert (await approver_of(kernel).enable("own", False, "")).accepted
        assert effective(kernel) is Effective.DISABLED
        assert (await approver_of(kernel).enable("own", True, "")).accepted
        assert [item.sidecar for item in kernel.pending_trust()] == ["own"]
        view = kernel.catalog().sidecar("own")
        assert view is not None
        assert view.entry.args == ()


async def test_what_a_person_switched_off_no_clone_switches_on(root: Root) -> None:
    before = file_of(root).read_bytes()
    async with kernel_of(root) as kernel:
        assert (await approver_of(kernel).enable("own", False, "")).accepted
        file_of(root).write_bytes(before)
        await until(kernel.pending_trust)
        view = kernel.catalog().sidecar("own")
        assert view is not None
        assert not view.trusted


async def test_a_file_that_does_not_parse_is_refused_with_its_place(root: Root) -> None:
    async with kernel_of(root) as kernel:
        file_of(root).write_text('{"schemaVersion": 2,\n "sidecars": {"own" {}}}')
        outcome = await approver_of(kernel).enable("own", False, "")
        assert not outcome.accepted
        assert "tools/external.tools.jsonc:2:" in outcome.why_not
        assert not (await approver_of(kernel).enable("nobody", False, "")).accepted


async def test_a_call_that_runs_ends_as_it_began(root: Root, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    root.sidecar("own", SLOW.format(gate=gate))
    async with kernel_of(root) as kernel:
        results = []

        async def run() -> None:
            results.append(await kernel.call(request(kernel, "own.do")))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await approve(kernel, await waiting_ask(kernel))
            await until(lambda: lines(root, "TOOL_STARTED"))
            assert (await approver_of(kernel).enable("own", False, "")).accepted
            gate.touch()
        assert results[0].status is Status.SUCCESS
        refused = await kernel.call(request(kernel, "own.do"))
        assert refused.status is not Status.SUCCESS


async def test_nothing_is_switched_on_while_a_tool_has_its_hands_on(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with kernel_of(root) as kernel:
        assert (await approver_of(kernel).enable("own", False, "")).accepted
        monkeypatch.setattr(approver_of(kernel)._revocations, "desktop_controlled", lambda: True)
        assert not (await approver_of(kernel).enable("own", True, "")).accepted
        shown = await kernel.plan_starter(("mock.echo",))
        assert not (await approver_of(kernel).write_starter(("mock.echo",), shown.digest)).accepted
        assert effective(kernel) is Effective.DISABLED


async def test_a_first_registry_is_written_trusted_and_seen(tmp_path: Path) -> None:
    root = Root(tmp_path)
    file_of(root).unlink()
    async with kernel_of(root, trusted=False) as kernel:
        assert kernel.catalog().sidecars == ()
        chosen = tuple(entry.id for entry in (await kernel.starter()).entries)
        shown = await kernel.plan_starter(chosen)
        assert shown.text == registry_of(starter_pieces(root.base, root.environ))
        assert (shown.difference, shown.sidecars) == ((), chosen)
        assert not (await approver_of(kernel).write_starter(chosen[1:], shown.digest)).accepted
        assert not file_of(root).exists()
        outcome = await approver_of(kernel).write_starter(chosen, shown.digest)
        assert outcome.accepted, outcome.why_not
        assert file_of(root).read_text() == shown.text
        assert kernel.pending_trust() == ()
        assert effective(kernel, "utility.local") is Effective.AVAILABLE
        assert effective(kernel, "computer.native") is Effective.DISABLED
        assert (await approver_of(kernel).enable("computer.native", True, "")).accepted
        assert kernel.pending_trust() == ()
        assert not (await approver_of(kernel).write_starter(chosen, shown.digest)).accepted
    assert lines(root, "REGISTRY_EDITED")[0]["decision"] == "created"


async def test_entries_are_added_to_a_registry_as_they_were_shown(root: Root) -> None:
    file = file_of(root)
    before = file.read_text()
    async with kernel_of(root) as kernel:
        offer = await kernel.starter()
        assert (offer.file, offer.exists) == ("tools/external.tools.jsonc", True)
        states = {tool.name: tool.state for entry in offer.entries for tool in entry.tools}
        assert states["file.hash"] is Effective.AVAILABLE
        assert states["web.search"] is Effective.UNAVAILABLE
        shown = await kernel.plan_starter(("utility.local", "web.search"))
        assert shown.text == ""
        assert shown.difference
        file.write_text(before + "\n")
        late = await approver_of(kernel).write_starter(("utility.local", "web.search"), shown.digest)
        assert "changed" in late.why_not
        assert file.read_text() == before + "\n"
        file.write_text(before)
        outcome = await approver_of(kernel).write_starter(("utility.local", "web.search"), shown.digest)
        assert outcome.accepted, outcome.why_not
        assert kernel.pending_trust() == ()
        assert effective(kernel, "utility.local") is Effective.AVAILABLE
        again = await kernel.plan_starter(("utility.local", "web.search"))
        assert (again.sidecars, again.difference) == ((), ())
    assert lines(root, "REGISTRY_EDITED")[0]["sidecars"] == ["utility.local", "web.search"]


async def test_a_program_that_came_meanwhile_is_found_when_asked_again(root: Root) -> None:
    root.sidecars["own"]["command"] = "later-program"
    root.write()
    folder = root.base / "bin"
    folder.mkdir()
    root.environ["PATH"] += f":{folder}"
    async with kernel_of(root) as kernel:
        assert effective(kernel) is Effective.UNAVAILABLE
        program = folder / "later-program"
        program.write_text(ECHO)
        program.chmod(0o755)
        kernel.probe("own")
        await until(lambda: effective(kernel) is Effective.AVAILABLE)
    assert json.loads(file_of(root).read_text())["sidecars"]["own"]["command"] == "later-program"
