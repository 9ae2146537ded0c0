"""Every remedy that edits an entry, followed on a copy: the fault goes, and no tool that worked is lost."""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import flycore.catalog.reasons as reasons_module
from flycore.kernel.kernel import Kernel
from flycore.model.enums import Effective, ReasonCode
from flycore.model.stability import Reason
from flycore.registry.jsonc.parse import parse_jsonc
from kits.kernel import ECHO, Root, approver_of, kernel_of, request, tool, until

pytestmark = pytest.mark.anyio

Entry = dict[str, Any]
GOES = {"command": "./tools/bin-good/run", "cwd": "empty", "permissions": {}}
"""An entry whose program starts and answers."""
LACKS = """#!/bin/sh
read -r request
printf '{"ok": false, "code": "unavailable", "error": "no key"}'
"""


class Fault(NamedTuple):
    """An entry with a fault, and the edit that the remedy says."""

    code: ReasonCode
    entry: Entry
    says: str
    """What the remedy says, which the edit does."""
    edit: Callable[[Entry, str], Entry]
    """Returns the entry after the edit, from the one with the fault and the text of the remedy."""
    about: str
    """The tool with the fault."""
    called: bool = False
    """Whether the fault shows after a call."""
    id: str = "faulty"


def printed(remedy: str, before: str) -> Any:
    """The value of the entry that a remedy prints as the last thing after these words."""
    value, problem = parse_jsonc(f"{{{remedy.partition(before)[2]}}}", "remedy")
    assert problem is None, remedy
    assert isinstance(value, dict)
    (entry,) = value.values()
    return entry


def with_keys(**keys: Any) -> Callable[[Entry, str], Entry]:
    """An edit that writes these keys."""
    return lambda entry, _: {**entry, **keys}


def fault(code: ReasonCode, says: str, edit: Callable[[Entry, str], Entry], **keys: Any) -> Fault:
    """A fault of the tool `x.act` of an entry that would go without it."""
    return Fault(code, {**GOES, "tools": [tool("x.act")], **keys}, says, edit, "x.act")


HERE = with_keys(command=GOES["command"])
ACTS = "task.background"
THEIRS = {**GOES, "tools": [ACTS, "file.hash"]}
FAULTS = (
    fault(ReasonCode.DISABLED, '"enabled" to true', with_keys(enabled=True), enabled=False),
    fault(ReasonCode.MANIFEST_INVALID, "write", with_keys(timeoutMs=30_000), timeoutMs="soon"),
    fault(ReasonCode.COMMAND_NOT_FOUND, "put the program there", HERE, command="./gone"),
    Fault(
        ReasonCode.COMMAND_NOT_FOUND,
        {"command": "./gone", "tools": ["file.hash"]},
        "flytui's own program: ",
        lambda _, remedy: printed(remedy, "or use flytui's own program: "),
        "file.hash",
        id="utility.local",
    ),
    fault(
        ReasonCode.OUTSIDE_ROOT_DENIED, "below the app folder that starts with ./", HERE, command="/bin/true"
    ),
    fault(ReasonCode.MANIFEST_INVALID, "process-json", with_keys(kind="process-json"), kind="grpc"),
    fault(
        ReasonCode.CORE_INCOMPATIBLE,
        "compatibleCore",
        with_keys(compatibleCore=">=0.1"),
        compatibleCore=">=99",
    ),
    fault(
        ReasonCode.PROTOCOL_INCOMPATIBLE,
        "protocolVersion",
        with_keys(protocolVersion="1"),
        protocolVersion="9",
    ),
    fault(
        ReasonCode.VERSION_UNKNOWN,
        'or correct "packageVersion"',
        with_keys(packageVersion="2.0.0"),
        packageId="p",
        packageVersion="1.0.0",
    ),
    fault(
        ReasonCode.SECRET_MISSING,
        "declared at",
        with_keys(permissions={}),
        permissions={"secrets": ["SOME_KEY"]},
    ),
    Fault(
        ReasonCode.DELEGATE_MISSING,
        {**GOES, "dialect": "flyflor", "tools": ["computer.keyboard", "file.hash"]},
        '"keyboardCommand": "xdotool"',
        with_keys(config={"keyboardCommand": "xdotool"}),
        "computer.keyboard",
    ),
    Fault(ReasonCode.DIALECT_UNKNOWN, THEIRS, '"dialect": "flyflor"', with_keys(dialect="flyflor"), ACTS),
    Fault(
        ReasonCode.DIALECT_UNKNOWN,
        THEIRS,
        '"inputSchema": {',
        with_keys(tools=[{"name": ACTS, "inputSchema": {"type": "object"}}, "file.hash"]),
        ACTS,
    ),
    fault(
        ReasonCode.ANSWERED_UNAVAILABLE, "give it what it lacks", HERE, command="./tools/bin-lacks/run"
    )._replace(called=True),
)
"""One for each code; where a remedy names two ways, one for each of them."""
NO_EDIT_HERE = {
    ReasonCode.KIND_UNSUPPORTED: "this version runs every kind that an entry may have",
    ReasonCode.NOT_CONFIGURED: "the next test adds its entry",
    ReasonCode.CEILING_EXCEEDED: "a tool of an agent, which is no entry of a registry",
    ReasonCode.PERMISSION_MISSING: "tests/flycore/pipeline/test_missing_permissions.py writes its line",
}
"""Codes whose edit is not one of an entry here, each with the place of its test or the reason."""


def codes_with_an_edit() -> set[ReasonCode]:
    """The codes of the reasons in the table whose fix opens, or changes, a file."""
    source = Path(reasons_module.__file__).read_text(encoding="utf-8")
    found = set()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or not function.name.islower():
            continue
        names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        members = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
        if names & {"edit_fix", "of_program"} or members & {"EDIT", "ENABLE", "PERMIT"}:
            found |= members & set(ReasonCode.__members__)
    return {ReasonCode[name] for name in found}


def test_each_code_with_an_edit_is_in_the_table() -> None:
    assert codes_with_an_edit() <= {fault.code for fault in FAULTS} | NO_EDIT_HERE.keys()


def root_with(base: Path, fault: Fault, entry: Entry) -> Root:
    """A root with that entry beside one that works."""
    base.mkdir()
    root = Root(base)
    root.sidecar("good", ECHO, tool("echo.free"))
    root.sidecar("lacks", LACKS, tool("lacks.act"))
    root.sidecars[fault.id] = entry
    package = root.folder / "tools" / "packages" / "p"
    package.mkdir(parents=True)
    (package / "sidecar.json").write_text('{"version": "2.0.0"}')
    root.write()
    rules = [{"tool": name, "decision": "allow", "because": "test"} for name in ("echo.free", "x.act")]
    root.policy(*rules)
    return root


@asynccontextmanager
async def opened(root: Root) -> AsyncIterator[Kernel]:
    """The kernel of that root, with everything trusted that waits for it."""
    async with kernel_of(root, trusted=False) as kernel:
        waiting = tuple((item.sidecar, item.digest) for item in kernel.pending_trust())
        assert (await approver_of(kernel).trust(waiting)).accepted
        await until(lambda: "echo.free" in usable(kernel) and not kernel.pending_trust())
        yield kernel


def usable(kernel: Kernel) -> set[str]:
    """The tools that agents are shown."""
    return {view.capability.name for view in kernel.catalog().capabilities if view.stability.effective.usable}


def reason_of(kernel: Kernel, name: str, code: ReasonCode) -> Reason | None:
    """The reason of that code that the tool has."""
    view = kernel.catalog().capability(name)
    found = view.stability.reasons if view is not None else ()
    if view is None:  # an entry that is not valid offers nothing: its sidecar has the reason
        found = tuple(one for item in kernel.catalog().sidecars for one in item.stability.reasons)
    return next((reason for reason in found if reason.code is code), None)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.code}-{fault.says[:20]}")
async def test_the_edit_heals_the_entry_and_takes_nothing_away(tmp_path: Path, fault: Fault) -> None:
    async with opened(root_with(tmp_path / "before", fault, fault.entry)) as kernel:
        if fault.called:
            await kernel.call(request(kernel, fault.about))
        reason: Reason = await until(lambda: reason_of(kernel, fault.about, fault.code))
        worked = usable(kernel)
    assert fault.says in reason.remedy
    edited = fault.edit(json.loads(json.dumps(fault.entry)), reason.remedy)
    async with opened(root_with(tmp_path / "after", fault, edited)) as kernel:
        await until(lambda: reason_of(kernel, fault.about, fault.code) is None)
        assert worked <= usable(kernel)
        (sidecar,) = [view for view in kernel.catalog().sidecars if view.id == fault.id]
        assert sidecar.stability.effective is not Effective.UNAVAILABLE, sidecar.stability.reasons
        result = await kernel.call(request(kernel, "echo.free"))
        assert result.status == "success"


async def test_the_entry_that_a_tool_lacks_can_be_added_as_it_is_printed(tmp_path: Path) -> None:
    lacking = fault(ReasonCode.NOT_CONFIGURED, "", with_keys())
    async with opened(root_with(tmp_path / "before", lacking, lacking.entry)) as kernel:
        worked = usable(kernel)
        reason = reason_of(kernel, "file.hash", ReasonCode.NOT_CONFIGURED)
        assert reason is not None
    root = root_with(tmp_path / "after", lacking, lacking.entry)
    root.sidecars["utility.local"] = printed(reason.remedy, "to an entry that is there already: ")
    root.write()
    async with opened(root) as kernel:
        await until(lambda: worked | {"file.hash"} <= usable(kernel))
