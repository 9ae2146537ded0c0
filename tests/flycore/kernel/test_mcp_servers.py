"""MCP servers whose tools are in the catalog: behind trust, policy, approval and the snapshot like any."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.catalog.observations import Observations
from flycore.kernel import registry_edits
from flycore.kernel.refresh import StateRefresher
from flycore.model.enums import Code, Effective, ProbeState, ReasonCode, Risk, Status
from flycore.pipeline.context import RootState
from kits.kernel import PATIENCE, Root, approved_call, kernel_of, processes_of, request, until
from kits.mcp_servers import NOTES, PLAIN_NOTES, capability, connected, server_of, sidecar

pytestmark = pytest.mark.anyio

ALLOW = {"tool": "*", "decision": "allow", "because": "test"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root with a server `notes`."""
    made = Root(tmp_path)
    server_of(made, "notes", PLAIN_NOTES)
    return made


@pytest.fixture
def official(root: Root) -> Root:
    """The root with a server `notes` of the official SDK."""
    server_of(root, "notes", NOTES)
    return root


def contents(path: str) -> bytes:
    """Of a file."""
    return Path(path).read_bytes()


async def test_tools_join_the_catalog_once_their_entry_is_trusted(official: Root) -> None:
    async with kernel_of(official) as kernel:
        view = await connected(kernel, "notes")
        assert view.stability.probe is ProbeState.HEALTHY
        assert view.stability.effective is Effective.AVAILABLE
        assert view.stability.evidence.probe is not None
        assert "connected: notes 1.2, MCP 2026-07-28, 8 tools" in view.stability.evidence.probe.note
        found = capability(kernel, "notes.add")
        assert found is not None
        assert (found.source, found.decision) == ("mcp:notes", "ask")
        assert found.capability.risk is Risk.MEDIUM
        assert "network" in found.capability.approval_class
        assert found.capability.input_schema["required"] == ["a", "b"]
        assert "properties" in found.capability.output_schema


async def test_what_a_server_says_of_itself_only_raises(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await connected(kernel, "notes")
        wipe, look = capability(kernel, "notes.wipe"), capability(kernel, "notes.look")
        assert wipe is not None
        assert look is not None
        assert wipe.capability.risk is Risk.HIGH
        assert (look.capability.risk, look.capability.read_only) == (Risk.MEDIUM, False)


async def test_a_call_goes_the_whole_way(official: Root) -> None:
    async with kernel_of(official) as kernel:
        await connected(kernel, "notes")
        result = await approved_call(kernel, "notes.add", {"a": 1, "b": 2})
        assert (result.status, result.output) == (Status.SUCCESS, {"result": 3})
        refused = await kernel.call(request(kernel, "notes.add", {"a": "one"}))
        assert refused.error is not None
        assert refused.error.code == Code.INVALID_INPUT
    events = [line["event"] for line in official.audit() if line.get("tool") == "notes.add"]
    assert events.index("APPROVAL_DECIDED") < events.index("TOOL_STARTED") < events.index("TOOL_EXECUTED")


async def test_nothing_is_started_before_trust(root: Root) -> None:
    program = root.folder / "tools" / "bin-notes" / "run"
    program.write_text(f"#!/bin/sh\ntouch {root.base}/started\n")
    async with kernel_of(root, trusted=False) as kernel:
        view = sidecar(kernel, "notes")
        assert view.stability.reasons[0].code is ReasonCode.FOLDER_UNTRUSTED
        result = await kernel.call(request(kernel, "notes.add", {"a": 1, "b": 2}))
        assert result.status is Status.FAILED
        assert result.error is not None
        assert result.error.code == Code.NOT_FOUND
    assert not (root.base / "started").exists()


async def test_no_server_survives_the_kernel(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        await connected(kernel, "notes")
        assert len(processes_of(root)) == 1
    assert processes_of(root) == []


async def test_results_of_every_kind(official: Root) -> None:
    official.policy(ALLOW)
    official.sidecars["notes"]["maxOutputBytes"] = 2_000
    official.write()
    async with kernel_of(official) as kernel:
        await connected(kernel, "notes")
        failed = await kernel.call(request(kernel, "notes.fail"))
        assert failed.error is not None
        assert failed.status is Status.FAILED
        assert "no such note" in failed.error.message
        assert failed.error.details["code"] == "tool-error"
        pictured = await kernel.call(request(kernel, "notes.picture"))
        (artifact,) = pictured.artifacts
        assert (artifact.mime_type, contents(artifact.path)) == ("image/png", b"\x89PNG not really")
        long = await kernel.call(request(kernel, "notes.big", {"count": 5_000}))
        assert long.error is not None
        assert long.error.code == Code.OUTPUT_LIMIT
        fits = await kernel.call(request(kernel, "notes.big", {"count": 500}))
        assert fits.output == {"result": "x" * 500}


async def test_a_server_that_dies_in_a_call_is_started_again(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        await connected(kernel, "notes")
        died = await kernel.call(request(kernel, "notes.die"))
        assert died.error is not None
        assert (died.error.code, died.exit_code) == (Code.CRASHED, 7)
        assert "about to die" in died.stderr_tail
        result = await kernel.call(request(kernel, "notes.add", {"a": 1, "b": 2}))
        assert result.output == {"result": 3}


async def test_a_cancelled_call_is_taken_back_from_the_server(official: Root) -> None:
    official.policy(ALLOW)
    async with kernel_of(official) as kernel:
        await connected(kernel, "notes")
        asked = request(kernel, "notes.slow")
        results = []

        async def run() -> None:
            results.append(await kernel.call(asked))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await until(lambda: _started(official))
            kernel.cancel(asked.call_id)
        assert results[0].error.code == Code.CANCELLED
        again = await kernel.call(request(kernel, "notes.add", {"a": 2, "b": 2}))
        assert again.output == {"result": 4}


def _started(root: Root) -> bool:
    """Whether the slow tool is at work, wherever its program was copied to."""
    return any(root.base.rglob("slow.started"))


async def test_a_call_that_takes_too_long(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        await connected(kernel, "notes")
        result = await kernel.call(request(kernel, "notes.slow", timeout_ms=1_500))
        assert result.error is not None
        assert result.error.code == Code.TIMEOUT


async def test_only_the_tools_that_are_taken(tmp_path: Path) -> None:
    root = Root(tmp_path)
    server_of(root, "notes", PLAIN_NOTES, tools=["add", {"name": "look", "risk": "high"}, "nowhere"])
    async with kernel_of(root) as kernel:
        view = await connected(kernel, "notes")
        names = {it.capability.name for it in kernel.catalog().capabilities if it.sidecar == "notes"}
        assert names == {"notes.add", "notes.look"}
        look = capability(kernel, "notes.look")
        assert look is not None
        assert look.capability.risk is Risk.HIGH
        assert any("nowhere" in problem.message for problem in view.entry.problems)


async def test_the_environment_is_the_allow_list(root: Root) -> None:
    os.environ["UPSTREAM_MUST_NOT_SEE"] = "1"
    try:
        root.policy(ALLOW)
        async with kernel_of(root) as kernel:
            await connected(kernel, "notes")
            [pid] = processes_of(root)
            names = {it.partition(b"=")[0] for it in contents(f"/proc/{pid}/environ").split(b"\0")}
            assert b"UPSTREAM_MUST_NOT_SEE" not in names
            assert b"FLYTUI_CALL_ID" in names
            assert os.getsid(pid) != os.getsid(0)
    finally:
        del os.environ["UPSTREAM_MUST_NOT_SEE"]


async def test_calls_that_come_before_the_first_list_wait_for_it(root: Root) -> None:
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        outputs = []

        async def run(number: int) -> None:
            result = await kernel.call(request(kernel, "notes.add", {"a": number, "b": 2}))
            outputs.append(result.output)

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(run, number)
        assert sorted(str(output) for output in outputs) == [
            str({"result": number + 2}) for number in range(3)
        ]


async def test_a_name_of_a_server_that_cannot_be_reached_says_why(root: Root) -> None:
    (root.folder / "tools" / "bin-notes" / "run").write_text("#!/bin/sh\nexit 3\n")
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "notes.add", {"a": 1, "b": 2}))
        assert result.error is not None
        assert result.error.code == Code.NOT_FOUND
        assert sidecar(kernel, "notes").stability.reasons[0].message in result.error.hint


async def test_a_server_that_is_well_is_never_shown_without_its_tools(
    official: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer comes while a world is made that has read already what was heard."""
    answered, worlds = threading.Event(), []
    build, note, replaced = registry_edits.root_state, Observations.note, StateRefresher._replace

    def slow_build(*given: Any) -> RootState:
        made = build(*given)
        assert answered.wait(PATIENCE)
        return made

    def noted(self: Observations, *told: Any) -> None:
        note(self, *told)
        answered.set()

    def seen(self: StateRefresher, new: RootState) -> None:
        replaced(self, new)
        worlds.append(self.root_state)

    async with kernel_of(official) as kernel:
        monkeypatch.setattr(registry_edits, "root_state", slow_build)
        monkeypatch.setattr(Observations, "note", noted)
        monkeypatch.setattr(StateRefresher, "_replace", seen)
        kernel.probe("notes")
        await connected(kernel, "notes")
    assert len(worlds) >= 2
    for world in worlds:
        view = world.catalog.sidecar("notes")
        assert view is not None
        assert (view.stability.probe is ProbeState.HEALTHY) == ("notes.add" in world.index)
