"""A call that names a path which its entry may not write is refused before anybody is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyjson5
import pytest

from flycore.catalog.builtin import KNOWN
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import ToolResult
from flycore.model.enums import Effective, ReasonCode, Status
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
)
from kits.programs import needs
from kits.terminals import display

pytestmark = pytest.mark.anyio
REGISTRY = Path(__file__).parents[3] / "tools" / "external.tools.jsonc"
WRITTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "archive.create": ("output", {"paths": ["a.txt"], "output": "PLACE/a.zip"}),
    "archive.extract": ("outputDir", {"archive": "a.zip", "outputDir": "PLACE/made"}),
    "audio.speak": ("path", {"text": "hello", "path": "PLACE/a.wav"}),
    "browser.screenshot": ("path", {"path": "PLACE/a.png"}),
    "data.convert": (
        "outputPath",
        {"from": "json", "to": "yaml", "input": "1", "outputPath": "PLACE/a.yaml"},
    ),
    "screen.screenshot": ("path", {"path": "PLACE/a.png"}),
    "web.download": ("path", {"url": "https://example.org/", "path": "PLACE/a"}),
}
"""The tools that write a file of the project: the field that names it, and an input."""
WRITER = """#!/usr/bin/env python3
import json, sys
asked = json.loads(sys.stdin.readline())
open(asked["projectDir"] + "/" + asked["input"]["path"], "w").write("x")
print(json.dumps({"ok": True, "path": asked["input"]["path"], "width": 1, "height": 1}))
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    (root.folder / "a.txt").write_text("a")
    return root


def offer(root: Root, name: str, permissions: dict[str, Any]) -> None:
    """Have the program of the test offer that tool, with those permissions."""
    root.sidecar("own", WRITER, name, permissions=permissions)


def given(name: str, place: str) -> dict[str, Any]:
    text = json.dumps(WRITTEN[name][1]).replace("PLACE/", f"{place}/" if place else "")
    found: dict[str, Any] = json.loads(text)
    return found


async def refused(kernel: Kernel, name: str, input: dict[str, Any]) -> ToolResult:
    """Make a call that waits for nobody."""
    before = kernel.asks()
    result = await kernel.call(request(kernel, name, input))
    assert kernel.asks() == before
    assert result.status is Status.FAILED
    assert result.error is not None
    assert result.error.code == ReasonCode.PERMISSION_MISSING, result.error
    return result


def test_every_known_tool_that_writes_a_path_is_tried() -> None:
    found = {
        (name, proof.of)
        for name, capability in KNOWN.items()
        for proof in capability.proofs
        if proof.relation == "written"
    }
    assert found == {(name, field) for name, (field, _) in WRITTEN.items()}


@pytest.mark.parametrize("name", WRITTEN)
async def test_nobody_is_asked_about_a_path_that_the_entry_may_not_write(root: Root, name: str) -> None:
    offer(root, name, {"network": True, "desktop": name == "screen.screenshot", "fs": {"write": ["other"]}})
    async with kernel_of(root) as kernel:
        for place, line in (("shots", '"shots"'), ("", f'"${{input.{WRITTEN[name][0]}}}/.."')):
            error = (await refused(kernel, name, given(name, place))).error
            assert error is not None
            # The whole line, which may be pasted, with the place where it belongs.
            assert f'"fs": {{"write": ["other", {line}]}}' in error.hint
            assert re.search(r"tools/external\.tools\.jsonc:\d+", error.hint), error.hint


@pytest.mark.parametrize("place", ["../out", "/tmp", "shots/../../out", "link"])
async def test_a_path_outside_the_project_is_no_matter_of_permissions(root: Root, place: str) -> None:
    (root.base / "out").mkdir()
    (root.folder / "link").symlink_to(root.base / "out")
    offer(root, "screen.screenshot", {"desktop": True, "fs": {"write": ["shots"]}})
    async with kernel_of(root) as kernel:
        error = (await refused(kernel, "screen.screenshot", {"path": f"{place}/a.png"})).error
        assert error is not None
        assert "permissions" not in error.hint


async def test_a_link_in_the_project_counts_as_what_it_leads_to(root: Root) -> None:
    (root.folder / "shots").mkdir()
    (root.folder / "src").mkdir()
    (root.folder / "shots" / "link").symlink_to("../src")
    (root.folder / "shortcut").symlink_to("shots")
    offer(root, "screen.screenshot", {"desktop": True, "fs": {"write": ["shots"]}})
    async with kernel_of(root) as kernel:
        await refused(kernel, "screen.screenshot", {"path": "shots/link/a.png"})
        done = await approved_call(kernel, "screen.screenshot", {"path": "shortcut/a.png"})
        assert done.status is Status.SUCCESS, done.error


@pytest.mark.parametrize("path", [".git/a.png", ".ssh/a.png", "tools/a.png"])
async def test_what_is_never_proposed_is_not_proposed_here_either(root: Root, path: str) -> None:
    offer(root, "screen.screenshot", {"desktop": True})
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "screen.screenshot", {"path": path}))
        assert kernel.asks() == ()
        assert result.status in (Status.DENIED, Status.FAILED)
        assert result.error is not None
        # No line is offered for it: neither a grant, nor the place of one.
        assert '"write"' not in result.error.hint


async def test_a_path_without_the_field_is_asked_as_ever(root: Root) -> None:
    offer(root, "data.convert", {})
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "data.convert", {"from": "json", "to": "yaml", "input": "1"})
        assert result.error is not None
        assert result.error.code != ReasonCode.PERMISSION_MISSING


@pytest.mark.parametrize(
    ("key", "path"),
    [("write", "../out"), ("write", "/etc"), ("write", "link/a"), ("read", "../out"), ("read", "link")],
)
async def test_a_declared_field_that_leads_out_is_refused_for_every_tool(
    root: Root, key: str, path: str
) -> None:
    (root.base / "out").mkdir()
    (root.folder / "link").symlink_to(root.base / "out")
    root.sidecar("own", WRITER, tool("own.do"), permissions={"fs": {key: ["${input.path}"]}})
    async with kernel_of(root) as kernel:
        error = (await refused(kernel, "own.do", {"path": path})).error
        assert error is not None
        assert "name a path" in error.hint


async def test_a_person_who_edits_the_path_is_told_so(root: Root) -> None:
    offer(root, "screen.screenshot", {"desktop": True, "fs": {"write": ["shots"]}})
    async with kernel_of(root) as kernel:

        async def edit(ask: Ask) -> None:
            shown = ask.request.subject_digest
            outcome = await approver_of(kernel).edit(ask.request.id, shown, {"path": "other/a.png"})
            assert not outcome.accepted
            assert "other/a.png" in outcome.why_not
            await approve(kernel, ask)

        await answered_call(kernel, edit, "screen.screenshot", {"path": "shots/a.png"})


# The registry that comes with flytui does what it offers.


@pytest.fixture
def screen() -> Iterator[str]:
    needs("Xvfb", "xdotool")
    with display() as name:
        yield name


@pytest.mark.e2e
@pytest.mark.parametrize("path", ["shot.png", "shots/new/screen.png"])
@pytest.mark.parametrize("registry", ["tools/external.tools.jsonc", "core/flycore/registry/starter.jsonc"])
async def test_the_shipped_entry_saves_a_picture_where_the_call_says(
    root: Root, screen: str, registry: str, path: str
) -> None:
    entries = pyjson5.decode((REGISTRY.parents[1] / registry).read_text())["sidecars"]
    root.sidecars["computer.native"] = {**entries["computer.native"], "enabled": True}
    root.write()
    root.environ["DISPLAY"] = screen
    async with kernel_of(root) as kernel:
        await until(
            lambda: (
                (view := kernel.catalog().capability("screen.screenshot"))
                and view.stability.effective is Effective.AVAILABLE
            )
        )
        done = await approved_call(kernel, "screen.screenshot", {"path": path})
        assert done.status is Status.SUCCESS, done.error
        assert (root.folder / path).read_bytes().startswith(b"\x89PNG")
        await refused(kernel, "screen.screenshot", {"path": "../shot.png"})
