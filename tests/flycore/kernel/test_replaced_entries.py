"""A project's registry that names entries and tools of the user's own one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask, RuleTerms
from flycore.model.catalog import CapabilityView
from flycore.model.enums import Choice, Decision, Effective, Risk, Source, Status
from flycore.offline.files import set_enabled
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
from kits.mcp_servers import PLAIN_NOTES, capability, connected

pytestmark = pytest.mark.anyio

SAYS = """#!/bin/sh
read -r request
printf '{{"ok": true, "by": "{name}"}}\\n'
"""
ALLOW = {"tool": "notes.*", "decision": "allow", "because": "my own notes"}
OFF = {"enabled": False}
INVALID = {"timeoutMs": "soon"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root without entries, and a user whose entry `notes` offers `notes.do`, allowed by a rule."""
    made = Root(tmp_path)
    write_users(made, notes={"tools": [tool("notes.do", "high")]})
    made.policy(ALLOW)
    return made


def write_users(root: Root, script: str = SAYS.format(name="user"), **entries: dict[str, Any]) -> None:
    """Write the user's registry and one program for each entry, which says that it is the user's."""
    folder = root.places.config_dir / "tools"
    sidecars = {}
    for name, entry in entries.items():
        program = folder / f"bin-{name}" / "run"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(script)
        program.chmod(0o755)
        sidecars[name] = {"command": f"./bin-{name}/run", "cwd": "empty", **entry}
    text = json.dumps({"schemaVersion": 2, "sidecars": sidecars})
    (folder / "external.tools.jsonc").write_text(text)


def clone(root: Root, sidecar: str, **entry: Any) -> None:
    """Add an entry of the project that offers `notes.do`, too, with a lower risk."""
    root.sidecar(sidecar, SAYS.format(name="clone"), tool("notes.do", "low", description="theirs"), **entry)


def notes(kernel: Kernel) -> CapabilityView:
    """What the catalog says of `notes.do`."""
    return next(view for view in kernel.catalog().capabilities if view.capability.name == "notes.do")


def lines_of(kernel: Kernel, sidecar: str) -> str:
    """What a person is shown before trusting the entry."""
    return "\n".join(next(item for item in kernel.pending_trust() if item.sidecar == sidecar).lines)


@pytest.mark.parametrize("entry", [{}, OFF, INVALID], ids=["untrusted", "off", "invalid"])
@pytest.mark.parametrize("sidecar", ["notes", "other"])
async def test_an_entry_that_may_not_run_replaces_nothing(
    root: Root, sidecar: str, entry: dict[str, Any]
) -> None:
    clone(root, sidecar, **entry)
    async with kernel_of(root, trusted=False) as kernel:
        view = notes(kernel)
        assert (view.sidecar, view.source) == ("notes", "registry:user")
        assert view.capability.description == "notes.do, for a test"
        assert (view.capability.risk, view.decision) == (Risk.HIGH, Decision.ALLOW)
        assert view.stability.effective is Effective.AVAILABLE
        assert (await kernel.call(request(kernel, "notes.do"))).output == {"by": "user"}
        own = kernel.catalog().sidecar("notes")
        assert own is not None
        assert (own.entry.source, own.entry.problems) == (Source.USER, ())
        assert [item.sidecar for item in kernel.pending_trust()] == ([] if entry else [sidecar])


@pytest.mark.parametrize("sidecar", ["notes", "other"])
async def test_a_trusted_entry_replaces_and_inherits_no_allow(root: Root, sidecar: str) -> None:
    clone(root, sidecar)
    async with kernel_of(root) as kernel:
        view = notes(kernel)
        assert (view.sidecar, view.source) == (sidecar, "registry:project")
        assert (view.capability.risk, view.decision) == (Risk.HIGH, Decision.ASK)
        assert "took the tool over from your own registry" in view.because
        assert (await approved_call(kernel, "notes.do")).output == {"by": "clone"}


async def test_the_users_risk_of_a_tool_may_raise_that_of_one_taken_over_not_lower_it(root: Root) -> None:
    clone(root, "other")
    asked = []
    for risk in ("low", "critical"):
        settings = {"risk": {"notes.do": risk}}
        (root.places.config_dir / "config.jsonc").write_text(json.dumps(settings))
        async with kernel_of(root) as kernel:

            async def note(ask: Ask) -> None:
                asked.append(ask.request.risk)
                await approve(kernel, ask)

            await answered_call(kernel, note, "notes.do")
    assert asked == [Risk.HIGH, Risk.CRITICAL]


@pytest.mark.parametrize(
    ("sidecar", "said"),
    [
        ("notes", 'replaces your own entry "notes" ("~/config/flytui/tools/external.tools.jsonc:1")'),
        ("other", 'takes over "notes.do" from your own entry "notes" ("~/config/flytui/tools/'),
    ],
)
async def test_trust_says_what_is_replaced_and_which_rules_match(root: Root, sidecar: str, said: str) -> None:
    clone(root, sidecar)
    root.sidecars[sidecar]["tools"].append(tool("notes.more"))
    root.write()
    async with kernel_of(root, trusted=False) as kernel:
        shown = lines_of(kernel, sidecar)
    assert said in shown
    assert 'policy.jsonc:1" would not count, so that you are asked, for "notes.do"' in shown
    assert 'policy.jsonc:1" allows "notes.more"' in shown


async def test_trust_names_the_rules_for_a_server_whose_tools_are_not_known_yet(root: Root) -> None:
    root.policy(ALLOW, {**ALLOW, "tool": "other.look"}, {**ALLOW, "tool": "*"}, {**ALLOW, "tool": "web.*"})
    for sidecar in ("notes", "other"):
        clone(root, sidecar, kind="mcp")
        del root.sidecars[sidecar]["tools"]
    root.write()
    write_users(root, notes={"kind": "mcp"})
    async with kernel_of(root, trusted=False) as kernel:
        ours, others = lines_of(kernel, "notes"), lines_of(kernel, "other")
    assert ours.count('would not count, so that you are asked, for "notes.*"') == 2
    assert "allows" not in ours
    assert ('allows "other.look"' in others, 'allows "other.*"' in others) == (True, True)
    assert others.count("the rule at") == 2


async def test_the_users_entry_is_back_when_the_project_goes_and_when_it_is_switched_off(root: Root) -> None:
    clone(root, "notes")
    async with kernel_of(root) as kernel:
        assert notes(kernel).source == "registry:project"
        root.sidecars["notes"]["enabled"] = False
        root.write()
        await until(lambda: notes(kernel).source == "registry:user")
        assert (await kernel.call(request(kernel, "notes.do"))).output == {"by": "user"}
        root.sidecars["notes"]["enabled"] = True
        root.write()
        await until(lambda: notes(kernel).source == "registry:project")
        assert notes(kernel).decision is Decision.ASK
        del root.sidecars["notes"]
        root.write()
        await until(lambda: notes(kernel).source == "registry:user")
        assert (await kernel.call(request(kernel, "notes.do"))).status is Status.SUCCESS


async def test_a_person_switches_off_the_entry_that_is_in_force(root: Root) -> None:
    clone(root, "notes")
    users = root.places.config_dir / "tools" / "external.tools.jsonc"
    async with kernel_of(root, trusted=False) as kernel:
        outcome = await approver_of(kernel).enable("notes", False, "not now")
        assert outcome.accepted, outcome.why_not
        assert notes(kernel).stability.effective is Effective.DISABLED
        assert json.loads(users.read_text())["sidecars"]["notes"]["enabled"] is False
        assert "enabled" not in root.sidecars["notes"]
        assert (await kernel.call(request(kernel, "notes.do"))).status is not Status.SUCCESS
        await approver_of(kernel).enable("notes", True, "")
        await until(lambda: notes(kernel).stability.effective is Effective.AVAILABLE)
        assert notes(kernel).source == "registry:user"


def test_a_command_switches_the_entry_that_is_in_force(root: Root) -> None:
    clone(root, "notes")
    ours = str(root.places.config_dir / "tools" / "external.tools.jsonc").replace(str(root.base), "~")
    for enabled in (False, True):
        done = set_enabled(root.places, root.environ, "notes", enabled, "")
        assert (done.outcome, done.file) == ("switched", ours)
    assert set_enabled(root.places, root.environ, "notes", True, "").outcome == "unchanged"


@pytest.mark.parametrize("sidecar", ["notes", "other"])
async def test_tools_of_the_users_mcp_server_stay_until_the_project_is_trusted(
    root: Root, sidecar: str
) -> None:
    write_users(root, f"#!{sys.executable}\n{PLAIN_NOTES}", notes={"kind": "mcp"})
    root.sidecar(sidecar, SAYS.format(name="clone"), tool("notes.look"))
    async with kernel_of(root, trusted=False) as kernel:
        await connected(kernel, "notes")
        look = capability(kernel, "notes.look")
        assert look is not None
        assert (look.source, look.stability.effective) == ("mcp:notes", Effective.AVAILABLE)
        assert look.decision is Decision.ALLOW
        assert "notes.look" in lines_of(kernel, sidecar)
        waiting = tuple((item.sidecar, item.digest) for item in kernel.pending_trust())
        assert (await approver_of(kernel).trust(waiting)).accepted
        look = capability(kernel, "notes.look")
        assert look is not None
        assert (look.source, look.decision) == ("registry:project", Decision.ASK)


async def made_rule(kernel: Kernel, name: str) -> None:
    """Allow the tool by a rule that a person makes on the card of a call."""

    async def decide(ask: Ask) -> None:
        terms = RuleTerms(decision=Decision.ALLOW, tool=name, because="mine")
        answer = Answer(choice=Choice.RULE, rule=terms)
        outcome = await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)
        assert outcome.accepted, outcome.why_not

    assert (await answered_call(kernel, decide, name)).status is Status.SUCCESS
    assert (await kernel.call(request(kernel, name))).status is Status.SUCCESS


@pytest.fixture
def bare(tmp_path: Path) -> Root:
    """A root whose user has an entry `notes`, and no rules."""
    made = Root(tmp_path)
    write_users(made, notes={"tools": [tool("notes.do", "high")]})
    return made


@pytest.mark.parametrize("sidecar", ["notes", "other"])
async def test_a_rule_made_for_the_users_entry_does_not_answer_for_a_projects(
    bare: Root, sidecar: str
) -> None:
    async with kernel_of(bare) as kernel:
        await made_rule(kernel, "notes.do")
    # The user's entry is gone, so that nothing is taken over: the tool's name is all that is the same.
    write_users(bare)
    clone(bare, sidecar)
    bare.sidecars[sidecar]["tools"] = [tool("notes.do", "high")]
    bare.write()
    async with kernel_of(bare, trusted=False) as kernel:
        assert 'would not count, so that you are asked, for "notes.do"' in lines_of(kernel, sidecar)
    async with kernel_of(bare) as kernel:
        shown: list[Ask] = []

        async def note(ask: Ask) -> None:
            shown.append(ask)
            await approve(kernel, ask)

        assert (await answered_call(kernel, note, "notes.do")).output == {"by": "clone"}
        why = "; ".join(rule.because for rule in shown[0].request.why)
        assert 'was made for another entry "notes"' in why
        assert f'comes from "{sidecar}" of the project' in why
        # The old rule is in nobody's way: a new one is made for the entry as it is now.
        await made_rule(kernel, "notes.do")


@pytest.mark.parametrize("change", ["args", "command", "id", "kind"])
async def test_a_rule_ends_with_the_command_it_was_made_for(bare: Root, change: str) -> None:
    async with kernel_of(bare) as kernel:
        await made_rule(kernel, "notes.do")
    tools = {"tools": [tool("notes.do", "high")]}
    if change == "args":
        write_users(bare, notes={**tools, "args": ["--more"]})
    elif change == "command":
        write_users(bare, notes={**tools, "command": "./bin-other/run"}, other={"tools": []})
    elif change == "id":
        write_users(bare, renamed=tools)
    else:
        write_users(bare, notes={**tools, "kind": "process-json-persistent"})
    async with kernel_of(bare) as kernel:
        assert notes(kernel).decision is Decision.ASK


async def test_a_rule_outlives_what_does_not_change_who_answers(bare: Root) -> None:
    async with kernel_of(bare) as kernel:
        await made_rule(kernel, "notes.do")
    write_users(bare, notes={"tools": [tool("notes.do", "high"), tool("notes.more")], "timeoutMs": 5_000})
    async with kernel_of(bare) as kernel:
        assert notes(kernel).decision is Decision.ALLOW


async def test_a_rule_of_one_project_does_not_answer_in_its_copy(tmp_path: Path) -> None:
    first, copy = Root(tmp_path / "first"), Root(tmp_path / "copy")
    for made in (first, copy):
        made.environ = first.environ
        made.sidecar("notes", SAYS.format(name="project"), tool("notes.do", "high"))
    async with kernel_of(first) as kernel:
        await made_rule(kernel, "notes.do")
        assert notes(kernel).decision is Decision.ALLOW
    async with kernel_of(copy) as kernel:
        assert notes(kernel).decision is Decision.ASK
