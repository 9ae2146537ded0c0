"""Tools made by agents: nothing of them runs before a person's review, and none has more than its limit."""

from __future__ import annotations

import json
import posixpath
import random
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flycore.catalog.registry_capability import capability_from_spec, excess_of_created
from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.enums import Level, Status
from flycore.model.json import JsonObject
from flycore.model.sidecar import Permissions
from flycore.registry.created_tools import DEFAULT_LIMIT, as_created, created_limits, definition_text
from flycore.registry.manifest import parse_manifest
from kits.kernel import Root, a_caller, answered_call, approve, approver_of, kernel_of, request, until
from kits.programs import needs_bubblewrap
from kits.unix_socket import plain, say, served

pytestmark = pytest.mark.anyio

HELLO: dict[str, Any] = {
    "name": "hello",
    "description": "Says hello.",
    "kind": "command",
    "exec": {"command": {"entrypoint": "./scripts/hello", "args": []}},
    "approval": {"required": False},
}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    script = root.folder / "scripts" / "hello"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)
    root.policy({"tool": "*", "decision": "allow", "because": "a test"})
    return root


async def approved(kernel: Kernel, name: str, given: JsonObject | None = None) -> ToolResult:
    return await answered_call(kernel, lambda ask: approve(kernel, ask), name, given)


async def review(kernel: Kernel) -> tuple[str, ...]:
    """Approve the one thing that waits, and return what was shown."""
    (item,) = kernel.pending_trust()
    outcome = await approver_of(kernel).trust(((item.sidecar, item.digest),))
    assert outcome.accepted
    return (*item.lines, *item.difference)


async def test_a_made_tool_runs_only_after_review_and_is_always_asked_about(root: Root) -> None:
    needs_bubblewrap()  # what an agent made runs only where it is enforced
    async with kernel_of(root) as kernel:
        made = await kernel.create_tool("hello", HELLO, a_caller("maker"))
        assert made.accepted, made.why_not
        assert (await kernel.call(request(kernel, "hello"))).status is Status.UNAVAILABLE
        shown = await review(kernel)
        assert any("maker" in line for line in shown)
        assert any('"entrypoint": "./scripts/hello"' in line for line in shown)
        result = await approved(kernel, "hello")  # although a rule allows it, and it says that it need not
        assert result.output == "hello\n"
        assert result.sandbox is Level.ENFORCED
    events = {line["event"]: line for line in root.audit()}
    for name in ("TOOL_CREATED", "TOOL_REVIEWED"):
        assert "maker" in events[name]["creator"]
        assert events[name]["permissions"]["network"] is False
    executed = [line for line in root.audit() if line["event"] == "TOOL_EXECUTED"][-1]
    assert executed["created"]["content"] == events["TOOL_REVIEWED"]["content"]
    assert events["TOOL_CREATED"]["content"] == events["TOOL_REVIEWED"]["content"]


async def test_a_change_waits_again_and_shows_the_difference(root: Root) -> None:
    async with kernel_of(root) as kernel:
        await kernel.create_tool("hello", HELLO, a_caller("maker"))
        await review(kernel)
        changed = {**HELLO, "permissions": {"network": True}}
        assert (await kernel.create_tool("hello", changed, a_caller("other"))).accepted
        assert (await kernel.call(request(kernel, "hello"))).status is Status.UNAVAILABLE
        assert any("network" in line for line in (await review(kernel)))
        # The file itself, changed by another program, is another content as well.
        file = root.places.created_dir / "hello" / "tool.yml"
        file.write_text(json.dumps({**HELLO, "description": "Says something else."}))
        await until(lambda: kernel.pending_trust())
        assert (await kernel.call(request(kernel, "hello"))).status is Status.UNAVAILABLE


async def test_a_tool_beyond_the_limit_is_refused_with_each_excess_named(root: Root) -> None:
    greedy = {
        "network": True,
        "fs": {"read": ["."], "write": ["out", "logs"]},
        "secrets": {"A_KEY": {"type": "string"}},
    }
    async with kernel_of(root) as kernel:
        refused = await kernel.create_tool("hello", {**HELLO, "permissions": greedy}, a_caller())
        assert not refused.accepted
        for excess in ("files write out", "files write logs", "secret A_KEY"):
            assert excess in refused.why_not
        assert "network" not in refused.why_not
        assert not root.places.created_dir.exists()
        assert kernel.pending_trust() == ()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tools/config.jsonc", '{"security": {"max_permissions": {"network": false}}} // lower'),
        (".glee/config.yml", "security: {max_permissions: {fs: {read: [src]}}}"),
        (".glee/config.yml", "security: ["),
    ],
)
async def test_the_project_may_lower_the_limit_and_it_holds_at_each_call(
    root: Root, file: str, text: str
) -> None:
    wide = {**HELLO, "permissions": {"network": True, "fs": {"read": ["."]}}}
    async with kernel_of(root) as kernel:
        assert (await kernel.create_tool("hello", wide, a_caller())).accepted
        await review(kernel)
        target = root.folder / file
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)

        def codes() -> list[str]:
            view = kernel.catalog().capability("hello")
            assert view is not None
            return [reason.code.value for reason in view.stability.reasons]

        await until(lambda: "ceiling-exceeded" in codes())
        result = await kernel.call(request(kernel, "hello"))
        assert result.error is not None
        assert result.error.code == "ceiling-exceeded"
        again = await kernel.create_tool("hello2", {**wide, "name": "hello2"}, a_caller())
        assert not again.accepted


async def test_what_is_no_new_tool_is_refused(root: Root) -> None:
    root.sidecar("mine", "#!/bin/sh\n", {"name": "mine.do", "inputSchema": {}})
    cases: list[tuple[str, Any, str]] = [
        ("../up", HELLO, "a name has"),
        ("mine", {**HELLO, "name": "mine"}, "is a tool already"),
        ("mine.do", {**HELLO, "name": "mine.do"}, "is a tool already"),
        ("web.search", {**HELLO, "name": "web.search"}, "is a tool already"),
        ("other", HELLO, "name-folder"),
        ("hello", {**HELLO, "exec": {"command": {"entrypoint": "/bin/sh"}}}, "absolute-path"),
        ("hello", "name: [", "yaml-syntax"),
        ("hello", {**HELLO, "description": "x" * 70_000}, "KiB"),
        ("hello", {**HELLO, "description": "\ud800"}, ""),
    ]
    async with kernel_of(root) as kernel:
        for name, definition, why in cases:
            made = await kernel.create_tool(name, definition, a_caller())
            assert not made.accepted, name
            assert why in made.why_not
        assert kernel.pending_trust() == ()
    assert not root.places.created_dir.exists()


async def test_over_the_socket_a_tool_is_made_and_its_maker_cannot_review_it(root: Root) -> None:
    async with served(root) as kernel, plain(root) as connection:
        answer = await say(connection, "tool.create", {"name": "hello", "definition": HELLO})
        assert answer["payload"]["outcome"]["accepted"] is True
        (item,) = kernel.pending_trust()
        forged = await say(connection, "trust.accept", {"accepted": [[item.sidecar, item.digest]]})
        assert forged["type"] == "error"
        viewer = await say(connection, "client.hello", {"viewer": True})
        assert viewer["type"] == "error"
        unknown = {"name": "hello", "definition": HELLO, "approved": True}
        assert (await say(connection, "tool.create", unknown))["type"] == "error"
        assert kernel.pending_trust() == (item,)


async def test_a_yaml_text_is_a_definition_too(root: Root) -> None:
    needs_bubblewrap()  # what an agent made runs only where it is enforced
    text = "name: hello\ndescription: Says hello.\nkind: command\n"
    text += "exec: {command: {entrypoint: ./scripts/hello}}\n"
    async with kernel_of(root) as kernel:
        assert (await kernel.create_tool("hello", text, a_caller())).accepted
        await review(kernel)
        assert (await approved(kernel, "hello")).output == "hello\n"


# What is granted is never more than the limit.


NAMES = ["src", "src/a", "src/a/b", "out", ".", "a b", "${input.path}", "src/${input.path}", "data", "src2"]
SECRETS = ["A_KEY", "B_TOKEN", "C_SECRET"]


def some(draw: random.Random, names: list[str]) -> list[str]:
    return draw.sample(names, draw.randint(0, min(3, len(names))))


def limits(draw: random.Random) -> dict[str, Any]:
    made = {
        "network": draw.random() < 0.5,
        "fs": {"read": some(draw, NAMES), "write": some(draw, NAMES)},
        "secrets": some(draw, SECRETS),
        "desktop": draw.random() < 0.5,
    }
    return {key: value for key, value in made.items() if draw.random() < 0.8}


def manifest(draw: random.Random) -> dict[str, Any]:
    permissions = {
        "network": draw.random() < 0.5,
        "fs": {"read": some(draw, NAMES), "write": some(draw, NAMES)},
        "secrets": {name: {"required": draw.random() < 0.5} for name in some(draw, SECRETS)},
    }
    return {**HELLO, "permissions": permissions}


def is_within(granted: Permissions, limit: dict[str, Any]) -> bool:
    """Whether nothing is granted that the limit does not name: worked out again, by the parts of paths."""

    def below(path: str, tops: list[str]) -> bool:
        if path in tops:
            return True
        # What an input fills in stays in the folder that is written before it, or in the project.
        written = takewhile(lambda part: "${" not in part, posixpath.normpath(path).split("/"))
        parts = list(written) or ["."]
        plain = [posixpath.normpath(top).split("/") for top in tops]
        return any(top == ["."] or parts[: len(top)] == top for top in plain)

    files = limit.get("fs", {})
    return (
        (not granted.network or limit.get("network") is True)
        and all(below(path, files.get("read", [])) for path in granted.read)
        and all(below(path, files.get("write", [])) for path in granted.write)
        and set(granted.secrets) <= set(limit.get("secrets", []))
        and not granted.desktop
    )


def test_what_is_granted_is_never_more_than_the_limit() -> None:
    draw = random.Random(20_240_501)
    hello = as_created(parse_manifest(definition_text(HELLO), "tool.yml", folder="hello"), "maker")
    accepted = refused = 0
    for number in range(10_000):
        text = definition_text(manifest(draw)) if number % 20 == 0 else ""
        if text:  # the whole way for some: parsing YAML takes most of the time
            entry = parse_manifest(text, "tool.yml", folder="hello")
            assert entry.problems == ()
        else:
            entry = _with_permissions(hello, manifest(draw)["permissions"])
        user = limits(draw) if draw.random() < 0.8 else None
        project = tuple(limits(draw) for _ in range(draw.randint(0, 2)))
        in_force = created_limits(user, project)
        assert in_force == (DEFAULT_LIMIT if user is None else user, *project)
        excess = excess_of_created(entry.permissions, in_force)
        within = all(is_within(entry.permissions, one) for one in in_force)
        assert (not excess) == within, (entry.permissions, user, project, excess)
        accepted, refused = accepted + (not excess), refused + bool(excess)
    assert min(accepted, refused) > 200


def _with_permissions(entry: Any, declared: dict[str, Any]) -> Any:
    granted = Permissions(
        network=declared["network"],
        read=tuple(declared["fs"]["read"]),
        write=tuple(declared["fs"]["write"]),
        secrets=tuple(declared["secrets"]),
    )
    return msgspec.structs.replace(entry, permissions=granted)


def test_its_approval_is_required_whatever_it_says() -> None:
    for approval in ({}, {"required": False}, {"required": True, "reason": "it writes"}):
        text = definition_text({**HELLO, "approval": approval})
        entry = as_created(parse_manifest(text, "tool.yml", folder="hello"), "maker")
        because = capability_from_spec(entry.tools[0], entry.id).asks_because
        assert because.startswith("an agent made this tool")
        assert ("it writes" in because) == ("reason" in approval)


WRITER = """#!/bin/sh
echo made > "$1/made.txt"
"""
IN_OUT: dict[str, Any] = {
    "name": "hello",
    "description": "Writes a file into a folder of out.",
    "kind": "command",
    "inputs": {"schema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}},
    "exec": {"command": {"entrypoint": "./scripts/hello", "args": ["out/${to}"]}},
}


@pytest.mark.parametrize("declared", ["out/${input.to}", "out/away/deep"])
async def test_no_link_leads_out_of_a_folder_of_the_limit(root: Root, declared: str) -> None:
    """A tool that may write to `out` can make a link there, and name it in the input of its next call."""
    needs_bubblewrap()
    (root.folder / "scripts" / "hello").write_text(WRITER)
    for name in ("out/kept", "src/deep"):
        (root.folder / name).mkdir(parents=True)
    (root.folder / "out" / "away").symlink_to("../src")
    limit = {"fs": {"read": ["."], "write": ["out"]}}
    (root.places.config_dir / "config.jsonc").write_text(json.dumps({"security": {"max_permissions": limit}}))
    async with kernel_of(root) as kernel:
        tool = {**IN_OUT, "permissions": {"fs": {"read": ["."], "write": [declared]}}}
        assert (await kernel.create_tool("hello", tool, a_caller())).accepted
        await review(kernel)
        if "${" in declared:
            fine = await approved(kernel, "hello", {"to": "kept"})
            assert fine.status is Status.SUCCESS, fine.error
            assert (root.folder / "out" / "kept" / "made.txt").exists()
            # Nobody is asked about a path of the input that may not be written.
            refused = await kernel.call(request(kernel, "hello", {"to": "away/deep"}))
        else:
            refused = await approved(kernel, "hello", {"to": "away/deep"})
    assert list((root.folder / "src" / "deep").iterdir()) == []
    assert refused.error is not None
    assert "leads out of" in refused.error.message
