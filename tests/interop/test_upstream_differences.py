"""What MCP servers answer behind flytui is what they answer to a client that starts them itself.

`docs/clients/upstream-differences.md` has the table of what differs; any other difference fails.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import anyio
import pytest

from flycore.catalog.builtin import KNOWN
from flycore.discovery.server_import import import_proposal
from kits.browser import browsing, serving
from kits.command import COMMAND
from kits.command_line import Desk
from kits.kernel import Root, until
from kits.mcp_client_process import answers_of
from kits.programs import needs, needs_bubblewrap
from kits.published_servers import (
    PAGE,
    SERVERS,
    approved,
    calls_of,
    client_file,
    find_servers,
    fresh_project,
    in_place,
    is_installed,
    state_folder,
)
from kits.unix_socket import served

FULL = os.environ.get("FLYTUI_SUITES") == "full"
CALLS, QUICK_CALLS = 56, 10
"""Calls of each server: 504 in the suite, 20 in the quick run."""
QUICK = ("everything", "time")
"""The servers of the quick run: one in each language."""
DIFFERENCES = Path(__file__).parents[2] / "docs" / "clients" / "upstream-differences.md"
ABSENT = "absent"
VOLATILE = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d)?|\d{1,2}:\d\d:\d\d [AP]M")
"""Moments in answers, which are those of the call."""
NO_LIMIT = {
    "callsPerMinute": 100_000,
    "askedPerMinute": 100_000,
    "highRiskPerSession": 100_000,
    "running": 100,
}
Requests = list[tuple[str, dict[str, Any]]]
Answers = list[dict[str, Any]]

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(3_600 if FULL else 180)]


@dataclass(frozen=True)
class Row:
    """One row of the table: a difference that is known, as patterns in which `*` stands for anything."""

    server: str
    method: str
    part: str
    direct: str
    behind: str

    def explains(self, server: str, method: str, difference: tuple[str, str, str]) -> bool:
        """Whether this is the row of that difference."""
        patterns = (self.server, self.method, self.part, self.direct, self.behind)
        return all(
            fnmatchcase(text, pattern.replace("[", "[[]"))
            for text, pattern in zip((server, method, *difference), patterns, strict=True)
        )


def table() -> list[Row]:
    """The rows of the page."""
    lines = [line for line in DIFFERENCES.read_text().splitlines() if line.startswith("| `")]
    return [Row(*(cell.strip("|` ") for cell in line.split(" | ")[:5])) for line in lines]


def import_servers(root: Root, declared: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Import the servers of the other client's file, and add the permissions that each needs. The suite uses
    the command, the quick run writes what the command would propose."""
    desk = Desk(root.folder, root.base)
    for name in declared if FULL else ():
        with desk.terminal("tools", "import", name) as terminal:
            terminal.until("y/N")
            terminal.press("y\r")
            assert terminal.end() == 0, terminal.shown
    registry = root.folder / "tools" / "external.tools.jsonc"
    root.sidecars = json.loads(registry.read_text())["sidecars"]
    for name, server in {} if FULL else declared.items():
        proposed = import_proposal(name, server, str(root.folder), frozenset(KNOWN))
        root.sidecars[proposed.id] = proposed.entry
    for name, entry in root.sidecars.items():
        # `git` is a reserved family, so its server is imported as `git-server`.
        server = SERVERS[name.removesuffix("-server")]
        entry["permissions"].update(in_place(dict(server.permissions), places))
        entry.update(server.entry)
    root.write()


def close_pages(browser: str) -> None:
    """Close what the first client opened in the browser, which both use."""
    with urlopen(f"{browser}/json/list") as answer:
        pages = [one for one in json.load(answer) if one["type"] == "page" and one["url"] != "about:blank"]
    for page in pages:
        urlopen(f"{browser}/json/close/{page['id']}").close()


def differences(left: Any, right: Any, at: str = "") -> Iterator[tuple[str, str, str]]:
    """Every place where two values differ: its pointer, and what each has there as JSON."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            if key in left and key in right:
                yield from differences(left[key], right[key], f"{at}/{key}")
            else:
                one, other = (json.dumps(side[key]) if key in side else ABSENT for side in (left, right))
                yield f"{at}/{key}", one, other
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(one, other, f"{at}/{number}")
    elif left != right or isinstance(left, bool) != isinstance(right, bool):
        yield at, json.dumps(left), json.dumps(right)


def requests_of(names: list[str], places: Mapping[str, str]) -> dict[str, Requests]:
    """The requests to each server: its list of tools, and calls of them."""
    return {
        name: [
            ("tools/list", {}),
            *(
                ("tools/call", {"name": call.tool, "arguments": in_place(dict(call.input), places)})
                for call in calls_of(SERVERS[name], CALLS if FULL else QUICK_CALLS)
            ),
        ]
        for name in names
    }


def behind(requests: Requests, entry: str) -> Requests:
    """The same requests to flytui, which has the tools under names that begin with the entry's id."""
    return [
        (method, {**params, "name": f"{entry}_{params['name']}"} if "name" in params else params)
        for method, params in requests
    ]


def as_direct(answer: dict[str, Any], entry: str) -> dict[str, Any]:
    """The answer of flytui with the tools of that entry only, by the server's own names for them."""
    if "tools" not in answer:
        return answer
    prefix = f"{entry}_"
    own = [tool for tool in answer["tools"] if tool["name"].startswith(prefix)]
    return {**answer, "tools": [{**tool, "name": tool["name"].removeprefix(prefix)} for tool in own]}


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with its tools by name, base64 of texts as these, what it leaves out as the protocol reads
    that, and without moments."""
    if "tools" in answer:
        answer = {**answer, "tools": {tool["name"]: tool for tool in answer["tools"]}}
    elif "content" in answer:
        answer = {"isError": False, **answer}
        for block in answer["content"]:
            resource = block.get("resource", {})
            if "blob" in resource:
                resource["blob"] = base64.b64decode(resource["blob"]).decode("latin-1")
    plain: dict[str, Any] = json.loads(VOLATILE.sub("THEN", json.dumps(answer)))
    return plain


def label(method: str, params: dict[str, Any]) -> str:
    """The request as the table names it."""
    return f"{method} {params['name']}" if "name" in params else method


async def compared(root: Root, names: list[str], places: Mapping[str, str]) -> list[str]:
    """Every difference that no row of the table explains."""
    declared = client_file(root, names, places)
    requests = requests_of(names, places)
    fresh_project(root)
    direct, answers = dict[str, Answers](), dict[str, Answers]()
    entries = {name: f"{name}-server" if name == "git" else name for name in names}

    async def ask(name: str) -> None:
        argv = [declared[name]["command"], *declared[name]["args"]]
        environ = {**root.environ, **declared[name]["env"]}
        direct[name] = await answers_of(argv, environ, root.folder, requests[name])

    async def ask_behind(name: str) -> None:
        argv = COMMAND.launcher("flytui", "--root", str(root.folder), "mcp")
        asked = behind(requests[name], entries[name])
        answers[name] = await answers_of(argv, root.environ, root.folder, asked)

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(ask, name)
    if "BROWSER" in places:
        await anyio.to_thread.run_sync(close_pages, places["BROWSER"])
    await anyio.to_thread.run_sync(import_servers, root, declared, places)
    fresh_project(root)
    rows, unexplained, used = table(), list[str](), set[Row]()
    async with served(root) as kernel, approved(kernel):
        await until(lambda: all(view.stability.probe is not None for view in kernel.catalog().sidecars), 90)
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(ask_behind, name)
    for name in names:
        for (method, params), one, other in zip(requests[name], direct[name], answers[name], strict=True):
            for found in differences(comparable(one), comparable(as_direct(other, entries[name]))):
                known = [row for row in rows if row.explains(name, label(method, params), found)]
                used.update(known)
                if not known:
                    unexplained.append(f"{name} {label(method, params)} {params}: {found}"[:1_500])
    if FULL:
        unexplained += [f"nothing differs so: {row}" for row in rows if row not in used]
    return unexplained


@pytest.mark.suite
async def test_servers_answer_behind_flytui_as_they_do_directly(tmp_path: Path) -> None:
    needs_bubblewrap()
    root = Root(tmp_path)
    find_servers(root)
    root.settings(quota=NO_LIMIT)
    names = list(SERVERS if FULL else QUICK)
    needs(
        "git",
        *(
            server.command
            for name, server in SERVERS.items()
            if name in names and not is_installed(root, server)
        ),
    )
    with ExitStack() as stack:
        site = stack.enter_context(serving())
        site.pages["/"] = PAGE
        places = {"PROJECT": str(root.folder), "STATE": str(state_folder(root)), "SITE": site.url}
        if "pages" in names:
            places["BROWSER"] = stack.enter_context(browsing(tmp_path)).endpoint
        unexplained = await compared(root, names, places)
    assert not unexplained, "\n".join([f"{len(unexplained)} differences", *unexplained[:40]])
