"""What the documentation shows is done as it stands there: examples are loaded, sent, run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, unix_connect

from flycore.catalog.builtin import KNOWN
from flycore.kernel.kernel import Kernel
from flycore.model.diagnostics import Severity
from flycore.model.enums import Decision, Effective, Risk
from flycore.model.events import EventClass
from flycore.policy.evaluate import load_policy
from flycore.registry.load import load_registry
from flycore.registry.schema import registry_schema
from flycore.registry.settings import load_settings
from flycore.rpc.messages import ErrorCode
from flycore.rpc.methods import BY_MESSAGE
from flycore.server.unix import serve_unix
from flytui.text.card import card_keys
from kits.command import COMMAND, forked_bin
from kits.kernel import Root, approver_of, kernel_of, until
from kits.tables import each_row

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+) ([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMES = frozenset((*KNOWN, "notes.search"))
"""Tools that there are where the registry's example is in force."""
MACHINE = re.compile(r"/(?:home|root|tmp|work|Users)/\w")
PICTURES = ("activity", "card", "catalog", "doctor", "form", "screenshot", "trust")
VARIES = "…"
EXACT = ("type", "protocol", "correlationId", "code", "status", "phase", "class", "sandbox", "role")
"""Keys of a message whose values are promised, not only their types."""


class Block(NamedTuple):
    """A fenced block of a page; `info` is what follows its language."""

    page: str
    info: str
    text: str


def blocks(page: str, *infos: str) -> list[Block]:
    """The blocks of a page with one of these infos, in order. At least one has to be there."""
    found = [
        Block(page, info, text) for _, info, text in BLOCK.findall((ROOT / page).read_text()) if info in infos
    ]
    assert found, f"{page} has no block {infos}"
    return found


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root with this repository's own registry."""
    root = Root(tmp_path)
    shutil.copy(ROOT / "tools" / "external.tools.jsonc", root.folder / "tools")
    (root.folder / "README.md").write_text("# shop\n")
    return root


# --- links and pictures


@each_row("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in links_of(page):
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        assert aim.is_relative_to(ROOT), target
        assert aim.exists(), target
        if anchor:
            assert anchor in anchors(aim), target


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as the common hosts make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_readme() -> None:
    reached, fresh = set(), {ROOT / "README.md"}
    while fresh:
        reached |= fresh
        links = {(page.parent / target.partition("#")[0]) for page in fresh for target in links_of(page)}
        fresh = {link.resolve() for link in links if link.suffix == ".md"} - reached
    assert set(PAGES) - reached == set()


def links_of(page: Path) -> list[str]:
    """Where a page's links lead."""
    return LINK.findall(page.read_text())


@each_row("name", PICTURES)
def test_pictures_show_nothing_of_a_machine_and_fetch_nothing(name: str) -> None:
    drawn = (ROOT / "docs" / "images" / f"{name}.svg").read_text()
    assert "~/shop" in drawn.replace("&#160;", " ")
    assert not MACHINE.search(drawn)
    assert "url(http" not in drawn
    assert "@font-face" not in drawn


@each_row("page", PAGES, ids=lambda page: page.name)
def test_pages_name_no_machine(page: Path) -> None:
    assert MACHINE.findall(page.read_text().replace("/tmp/flytui-UID/", "")) == []


# --- files


@pytest.mark.parametrize("block", blocks("docs/registry.md", "registry"), ids=lambda _: "example")
def test_registry_examples_are_loaded_without_a_word(root: Root, block: Block) -> None:
    (root.folder / "tools" / "external.tools.jsonc").write_text(block.text)
    registry = load_registry(root.places, known=frozenset(KNOWN), environ=root.environ)
    assert [str(problem) for problem in registry.diagnostics] == []
    assert registry.entries
    assert all(entry.valid and not entry.problems for entry in registry.entries)


def test_the_registry_s_page_shows_every_key() -> None:
    text = (ROOT / "docs" / "registry.md").read_text()
    missing = sorted(key for key in schema_keys(registry_schema()) - {"$schema"} if key not in text)
    assert missing == []


def schema_keys(node: Any) -> set[str]:
    """Names of all properties anywhere in a schema."""
    if isinstance(node, list):
        return set().union(*map(schema_keys, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    named = node.get("properties", {})
    below = [value for key, value in node.items() if key not in ("properties", "examples", "if", "else")]
    return {*named, *schema_keys(below), *schema_keys(list(named.values()))}


def test_the_policy_example_decides_as_it_says(root: Root) -> None:
    [block] = blocks("docs/approvals.md", "policy")
    folder = root.places.config_dir
    folder.mkdir(parents=True)
    (folder / "policy.jsonc").write_text(block.text)
    policy = load_policy(root.places, None, names=NAMES)
    assert policy.ok
    assert policy.diagnostics == ()
    assert [(rule.tool, rule.decision) for rule in policy.rules] == [
        ("computer.*", Decision.ASK),
        ("browser.evaluate", Decision.DENY),
        ("notes.*", Decision.ALLOW),
        ("web.download", Decision.ALLOW),
    ]


def test_in_the_project_the_allow_of_the_example_is_ignored(root: Root) -> None:
    [block] = blocks("docs/approvals.md", "policy")
    (root.folder / "tools" / "policy.jsonc").write_text(block.text)
    policy = load_policy(root.places, None, names=NAMES)
    assert [rule.decision for rule in policy.rules] == [Decision.ASK, Decision.DENY]
    assert [problem.severity for problem in policy.diagnostics] == [Severity.WARNING] * 2


def test_the_settings_example_is_read_without_a_word(root: Root) -> None:
    [block] = blocks("docs/approvals.md", "settings")
    folder = root.places.config_dir
    folder.mkdir(parents=True)
    (folder / "config.jsonc").write_text(block.text)
    settings, problems = load_settings(folder)
    assert problems == ()
    assert settings.risk == {"mock.echo": Risk.LOW, "screen.screenshot": Risk.HIGH}


# --- commands


@pytest.fixture
def trusted(root: Root) -> Root:
    """The root, all its entries trusted."""
    shown = forked(root, "trust", "--print-digest")
    digest = re.findall(rb"\b[0-9a-f]{64}\b", shown.stdout)[-1].decode()
    assert forked(root, "trust", "--digest", digest).returncode == 0
    return root


def forked(root: Root, *args: str) -> subprocess.CompletedProcess[bytes]:
    """A forked command, in the root's folder."""
    return COMMAND.run(["flytui", *args], root.environ, root.folder, b"", 60)


def installed(root: Root, *args: str) -> subprocess.CompletedProcess[str]:
    """The installed command, in the root's folder: as a reader of the README starts it."""
    return subprocess.run(
        [str(Path(sys.executable).parent / "flytui"), *args],
        cwd=root.folder,
        env=root.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_readme_s_commands_work_as_they_stand(trusted: Root) -> None:
    for block in blocks("README.md", "run"):
        for line in block.text.splitlines():
            program, *args = shlex.split(line)
            assert program == "flytui"
            done = installed(trusted, *args)
            assert done.returncode == 0, (line, done.stderr)
            assert done.stdout


@pytest.mark.long
def test_the_command_line_s_examples_work_as_they_stand(trusted: Root) -> None:
    environ = {**trusted.environ, "PATH": f"{forked_bin()}:{trusted.environ['PATH']}"}
    for block in blocks("docs/cli.md", "run"):
        for line in block.text.splitlines():
            done = subprocess.run(
                ["sh", "-c", line],
                cwd=trusted.folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, (line, done.stderr)
            assert done.stdout


def test_what_needs_a_person_ends_as_the_readme_says_where_nobody_is(trusted: Root) -> None:
    done = forked(trusted, "call", "mock.echo", "message=hello", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (4, "no-approver")


def test_every_command_is_described() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    listed = COMMAND.run(["flytui", "--help"], {"LANG": "C.UTF-8"}, ROOT, b"", 60).stdout.decode()
    commands = re.findall(r"^  ([a-z]+) ", listed.partition("Everyday:")[2], re.MULTILINE)
    assert len(commands) > 10
    assert [name for name in commands if f"flytui {name}" not in text] == []


# --- the card


def test_the_keys_of_the_card_are_described(an_approval: Any) -> None:
    text = (ROOT / "docs" / "approvals.md").read_text()
    table = set(
        re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`\w+`(?: `\w+`)?) \|", text, re.MULTILINE)))
    )
    keys = {key for hint in card_keys(an_approval) for key in hint.key.split("/")}
    assert keys <= table
    assert table <= keys | {"v", "f"}


@pytest.fixture
def an_approval() -> Any:
    """A request as the console gets it."""
    from kits.values import request_of

    return request_of()


# --- the protocol


def exchanges() -> Iterator[tuple[str, dict[str, Any]]]:
    """(send or receive, message), in the page's order."""
    for block in blocks("docs/protocol.md", "send", "receive"):
        yield block.info, json.loads(block.text)


@asynccontextmanager
async def served(root: Root) -> AsyncIterator[Kernel]:
    """A console's kernel on the socket, its tools trusted and found well."""
    async with kernel_of(root, trusted=False) as kernel, serve_unix(kernel, root.places.socket):
        items = kernel.pending_trust()
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in items))
        await until(lambda: settled(kernel))
        yield kernel


def settled(kernel: Kernel) -> bool:
    """Whether the two tools of the examples may be called."""
    catalog = kernel.catalog()
    views = (catalog.capability("file.hash"), catalog.capability("mock.echo"))
    callable_now = (Effective.AVAILABLE, Effective.DEGRADED)
    return all(view is not None and view.stability.effective in callable_now for view in views)


async def heard(connection: ClientConnection, wanted: dict[str, Any]) -> dict[str, Any]:
    """The next message of that type that answers the same one; others in between are passed over."""
    with anyio.fail_after(30):
        while True:
            message: dict[str, Any] = json.loads(await connection.recv())
            if (message["type"], message.get("correlationId")) == (
                wanted["type"],
                wanted.get("correlationId"),
            ):
                return message


def differences(shown: Any, real: Any, place: str = "") -> list[str]:
    """Where the real value has not the form of the one shown."""
    if isinstance(shown, dict) and isinstance(real, dict):
        missing = [f"{place}/{key} is not there" for key in shown if key not in real]
        both = [key for key in shown if key in real]
        below = [found for key in both for found in differences(shown[key], real[key], f"{place}/{key}")]
        return [*missing, *below]
    if place.rpartition("/")[2] in EXACT and shown != VARIES:
        return [] if shown == real else [f"{place} is {real!r}, not {shown!r}"]
    if isinstance(shown, list) and isinstance(real, list):
        return differences(shown[0], real[0], f"{place}/0") if shown and real else []
    kinds = (bool, int | float, str, list, dict, type(None))
    kind = next(kind for kind in kinds if isinstance(shown, kind))
    same = isinstance(real, kind) and isinstance(real, bool) == isinstance(shown, bool)
    return [] if same else [f"{place} is {real!r}, not like {shown!r}"]


@pytest.mark.anyio
async def test_the_protocol_s_examples_are_answered_as_shown(root: Root) -> None:
    async with (
        served(root),
        unix_connect(str(root.places.socket), uri="ws://localhost/ws", compression=None) as connection,
    ):
        for direction, message in exchanges():
            if direction == "send":
                await connection.send(json.dumps(message))
            else:
                assert differences(message, await heard(connection, message)) == []


def test_the_protocol_s_table_names_every_message() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    names = [*BY_MESSAGE, *ErrorCode, *EventClass]
    assert [name for name in names if f"`{name}`" not in text] == []


@pytest.mark.anyio
async def test_the_client_in_python_gets_its_result(root: Root) -> None:
    [block] = blocks("docs/protocol.md", "file=client.py")
    program = root.base / "client.py"
    program.write_text(block.text)
    command = [sys.executable, str(program), str(root.places.socket), "file.hash", '{"path": "README.md"}']
    async with served(root):
        done = await anyio.run_process(command, env={**os.environ, **root.environ})
    assert json.loads(done.stdout)["status"] == "success"


def test_a_difference_is_seen() -> None:
    shown = {"type": "ack", "payload": {"n": 1, "list": ["x"], "none": None}}
    assert differences(shown, {"type": "ack", "payload": {"n": 2, "list": [], "none": None}}) == []
    for real in (
        {"type": "nack", "payload": shown["payload"]},
        {"type": "ack", "payload": {"n": True, "list": [], "none": None}},
        {"type": "ack", "payload": {"n": 1, "list": [2], "none": None}},
        {"type": "ack", "payload": {"n": 1, "list": []}},
        {"type": "ack", "payload": None},
    ):
        assert differences(shown, real)
