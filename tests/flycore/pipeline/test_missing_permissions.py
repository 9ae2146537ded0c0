"""Calls that were refused what their entry does not permit: the result, the catalog, and how it is added."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.diagnostics import Fix, FixKind
from flycore.model.enums import Effective, Level, ReasonCode, Status
from flycore.runners.child.observer import observer_id
from flycore.sandbox import bubblewrap, landlock, observation
from flycore.sandbox.detection import detection
from flycore.sandbox.observation import why_not_observed
from kits.kernel import Root, approver_of, kernel_of, permitted_call, until
from kits.programs import needs_bubblewrap

pytestmark = pytest.mark.anyio
READS = """#!/usr/bin/env python3
import json, sys
asked = json.loads(sys.stdin.readline())
try:
    text = open(asked["projectDir"] + "/data.json").read()
except OSError as error:
    print(json.dumps({"ok": False, "error": f"no data: {error.strerror}"}))
else:
    print(json.dumps({"ok": True, "text": text}))
"""
CONNECTS = """#!/usr/bin/env python3
import socket
socket.create_connection(("127.0.0.1", 9))
"""
LOSES = """#!/usr/bin/env python3
import time
open(MARK, "w").close()
time.sleep(600)
"""
HANGS = """#!/usr/bin/env python3
import os, sys, time
asked = sys.stdin.readline()
while not os.path.exists(DATA):
    time.sleep(0.01)
"""
ALLOW = {"tool": "*", "decision": "allow", "because": "test"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.policy(ALLOW)
    (root.folder / "data.json").write_text("the data")
    return root


@pytest.fixture(params=[Level.ENFORCED, Level.DEGRADED])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Level:
    """Each level that confines, where this machine has what it needs and can observe."""
    wanted: Level = request.param
    if why := why_not_observed():
        pytest.skip(f"NOT TESTED: {why}")
    if wanted is Level.ENFORCED:
        needs_bubblewrap()
    elif not landlock.version():
        pytest.skip("this kernel has no Landlock")
    else:
        monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "no-bwrap"))
    return wanted


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    """What a test does to bwrap is not remembered."""
    detection.expire()
    yield
    detection.expire()


def fix_of(kernel: Kernel, name: str) -> Fix | None:
    """The fix that the catalog offers for a permission that the tool lacks."""
    view = kernel.catalog().capability(name)
    assert view is not None
    found = [item for item in view.stability.reasons if item.code is ReasonCode.PERMISSION_MISSING]
    return found[0].fix if found else None


async def called(kernel: Kernel, name: str, **more: Any) -> ToolResult:
    return await permitted_call(kernel, name, **more)


async def test_a_refused_file_is_named_with_the_line_that_grants_it(root: Root, level: Level) -> None:
    root.sidecar("it", READS, permissions={"fs": {"write": ["out"]}})
    async with kernel_of(root) as kernel:
        result = await called(kernel, "it.do")
        error = result.error
        assert (result.status, result.sandbox) == (Status.FAILED, level)
        assert error is not None
        assert error.code == ReasonCode.PERMISSION_MISSING
        assert error.message.startswith("data.json lies outside what it.do may read; ")
        assert "no data" in error.message
        assert '"permissions": {"fs": {"write": ["out"], "read": ["data.json"]}}' in error.hint
        assert result.refusals is not None
        assert result.refusals.read == ("data.json",)
        fix = await until(lambda: fix_of(kernel, "it.do"))
        assert (fix.kind, fix.difference) == (FixKind.PERMIT, ('+ /permissions/fs/read/0: "data.json"',))
        view = kernel.catalog().capability("it.do")
        assert view is not None
        assert view.stability.effective is Effective.DEGRADED
        # The person adds it, trusts the entry again, and the tool works.
        outcome = await approver_of(kernel).permit("it", fix.digest)
        assert outcome.accepted, outcome.why_not
        assert fix_of(kernel, "it.do") == fix  # what was trusted before still counts
        item = next(item for item in kernel.pending_trust() if item.sidecar == "it")
        assert item.difference == fix.difference
        assert (await approver_of(kernel).trust((("it", item.digest),))).accepted
        await until(lambda: fix_of(kernel, "it.do") is None)
        works = await called(kernel, "it.do")
    assert (works.status, works.refusals) == (Status.SUCCESS, None)
    written = json.loads((root.folder / "tools" / "external.tools.jsonc").read_text())
    assert written["sidecars"]["it"]["permissions"] == {"fs": {"write": ["out"], "read": ["data.json"]}}
    edits = [line for line in root.audit() if line["event"] == "REGISTRY_EDITED"]
    assert [line["decision"] for line in edits] == ["permitted"]


async def test_a_refused_connection_lacks_the_network(root: Root, level: Level) -> None:
    root.sidecar("it", CONNECTS, permissions={})
    async with kernel_of(root) as kernel:
        result = await called(kernel, "it.do")
    assert result.error is not None
    assert result.error.code == ReasonCode.PERMISSION_MISSING
    assert '"permissions": {"network": true}' in result.error.hint
    assert "Address family not supported" in result.stderr_tail


async def test_a_tool_that_waits_for_a_file_it_cannot_see_is_explained(root: Root) -> None:
    needs_bubblewrap()
    script = HANGS.replace("DATA", repr(str(root.folder / "data.json")))
    root.sidecar("it", script, permissions={}, timeoutMs=2_000)
    async with kernel_of(root) as kernel:
        result = await called(kernel, "it.do")
    assert result.error is not None
    assert result.error.code == ReasonCode.PERMISSION_MISSING
    cause = result.error.details["cause"]
    assert isinstance(cause, dict)
    assert cause["code"] == "timeout"


async def test_a_failure_without_a_refusal_stays_what_it_is(root: Root, level: Level) -> None:
    script = '#!/usr/bin/env python3\nprint(\'{"ok": false, "error": "no such city"}\')\n'
    root.sidecar("it", script, permissions={})
    async with kernel_of(root) as kernel:
        result = await called(kernel, "it.do")
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("failed", "no such city")
    assert result.refusals is not None
    assert not result.refusals.explains_failure


async def test_the_catalog_forgets_it_once_a_call_succeeds(root: Root, level: Level) -> None:
    script = READS.replace("    text =", "    text = asked['input'].get('text') or")
    root.sidecar("it", script, permissions={})
    async with kernel_of(root) as kernel:
        await called(kernel, "it.do")
        await until(lambda: fix_of(kernel, "it.do"))
        result = await permitted_call(kernel, "it.do", {"text": "given"})
        assert result.status is Status.SUCCESS
        await until(lambda: fix_of(kernel, "it.do") is None)


async def test_a_fix_that_is_not_what_was_shown_changes_nothing(root: Root, level: Level) -> None:
    root.sidecar("it", READS, permissions={})
    before = (root.folder / "tools" / "external.tools.jsonc").read_text()
    async with kernel_of(root) as kernel:
        await called(kernel, "it.do")
        fix = await until(lambda: fix_of(kernel, "it.do"))
        for sidecar, digest in (("it", "0" * 64), ("other", fix.digest)):
            assert not (await approver_of(kernel).permit(sidecar, digest)).accepted
        root.sidecars["it"]["timeoutMs"] = 9_999
        root.write()
        assert not (await approver_of(kernel).permit("it", fix.digest)).accepted
    del root.sidecars["it"]["timeoutMs"]
    root.write()
    assert (root.folder / "tools" / "external.tools.jsonc").read_text() == before


async def test_a_tool_that_works_says_nothing_unless_asked(root: Root, level: Level) -> None:
    root.sidecar("it", READS, permissions={"fs": {"read": ["data.json"]}})
    async with kernel_of(root) as kernel:
        first = await called(kernel, "it.do")
        asked = await called(kernel, "it.do", observe=True)
    assert (first.status, first.refusals) == (Status.SUCCESS, None)
    assert asked.status is Status.SUCCESS
    assert asked.refusals is not None
    assert not asked.refusals.paths


async def test_where_nothing_can_be_observed_the_result_says_so(
    root: Root, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "why_not_observed", lambda _: "it needs Linux 5.9 or newer")
    root.sidecar("it", READS, permissions={})
    async with kernel_of(root) as kernel:
        result = await called(kernel, "it.do")
    assert result.error is not None
    assert result.error.code == "failed"
    assert any("Linux 5.9" in warning for warning in result.warnings)


async def test_a_bwrap_of_the_package_with_rights_of_root_observes_nothing(
    root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_bubblewrap()
    if why := why_not_observed():
        pytest.skip(f"NOT TESTED: {why}")
    packaged = tmp_path / "packaged-bwrap"
    shutil.copy(bubblewrap.PROGRAM, packaged)
    packaged.chmod(0o4755)
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "no-bwrap"))
    monkeypatch.setattr(bubblewrap, "packaged", lambda: str(packaged))
    root.sidecar("it", READS, permissions={})
    async with kernel_of(root) as kernel:
        result = await called(kernel, "it.do")
        assert (result.status, result.sandbox) == (Status.FAILED, Level.ENFORCED)
        assert any(f"{packaged} is a set-user-ID program" in warning for warning in result.warnings)
        packaged.chmod(0o755)
        result = await called(kernel, "it.do")
    assert result.refusals is not None


async def test_a_call_that_loses_its_observer_says_so_and_the_next_one_is_observed(
    root: Root, level: Level
) -> None:
    mark = root.folder / "out" / "mark"
    root.sidecar("it", LOSES.replace("MARK", repr(str(mark))), permissions={"fs": {"write": ["out"]}})
    root.sidecar("reads", READS, permissions={})
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:

        async def lose() -> None:
            await until(mark.exists)
            os.kill(observer_id(), signal.SIGKILL)

        group.start_soon(lose)
        result = await called(kernel, "it.do")
        assert result.error is not None
        assert (result.error.code, result.warnings) == ("crashed", ())
        assert "observer" in result.error.message
        assert (await called(kernel, "reads.do")).refusals is not None
