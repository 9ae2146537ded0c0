"""Nine published MCP servers, each as another client's file starts it, and calls of their tools.

A call is made twice: by a client that starts the server itself, and by one that reaches it behind
`flytui mcp`. Both work on the same folder, which is made anew in between.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from flycore.kernel.kernel import Kernel
from flycore.model.enums import RequestState
from kits.kernel import Root, approve
from kits.programs import NODE_MODULES, PYTHON_SERVERS, SQLITE_SERVER

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Nowhere/Atall")
DATES = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
    ("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "2026-01-02T03:04:05+00:00"))}  # fmt: skip
TEXTS = (
    "plain",
    "two\nlines",
    "tab\there",
    'quotes " and \\',
    "Grüße ☃ 漢字",
    '{"looks": "like JSON"}',
    "",
    " ",
)
TIMES = ("00:00", "09:30", "23:59", "25:00", "noon")


@dataclass(frozen=True)
class ToolCall:
    """A call of one tool."""

    tool: str
    input: Mapping[str, Any] = field(default_factory=dict)


Calls = Callable[[random.Random], Iterator[ToolCall]]


@dataclass(frozen=True)
class Published:
    """A published server. In its texts, PROJECT, STATE (a folder outside it), SITE and BROWSER stand for what
    a test has."""

    command: str
    quick: tuple[ToolCall, ...]
    """The calls of the quick run."""
    more: Calls
    """Further calls, without end."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    permissions: Mapping[str, Any] = field(default_factory=dict)
    """What a person adds to the permissions that the import proposes."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the entry that a person adds."""
    needs: tuple[str, ...] = ()
    """Programs of the system that it uses."""


def _everything(chance: random.Random) -> Iterator[ToolCall]:
    while True:
        yield ToolCall("echo", {"message": chance.choice(TEXTS) * chance.randint(1, 40)})
        yield ToolCall("get-sum", {"a": chance.randint(-9, 9), "b": chance.random()})
        yield ToolCall(
            "get-annotated-message",
            {
                "messageType": chance.choice(("error", "success", "debug")),
                "includeImage": chance.random() < 0.5,
            },
        )
        yield ToolCall("get-resource-links", {"count": chance.randint(1, 10)})
        yield ToolCall(
            "get-resource-reference",
            {"resourceType": chance.choice(("Text", "Blob")), "resourceId": chance.randint(-1, 40)},
        )
        yield ToolCall(
            "get-structured-content",
            {"location": chance.choice(("New York", "Chicago", "Los Angeles", "Rome"))},
        )
        yield ToolCall("get-tiny-image")
        data = f"data:text/plain;base64,{base64.b64encode(chance.randbytes(60)).decode()}"
        yield ToolCall(
            "gzip-file-as-resource",
            {"data": data, "outputType": chance.choice(("resourceLink", "resource")), "name": "x.gz"},
        )
        yield ToolCall("trigger-long-running-operation", {"duration": 0.02, "steps": chance.randint(1, 3)})


def _filesystem(chance: random.Random) -> Iterator[ToolCall]:
    number = 0
    while True:
        number += 1
        path = f"PROJECT/docs/{chance.choice('abc')}{number % 7}.txt"
        yield ToolCall("write_file", {"path": path, "content": chance.choice(TEXTS) * chance.randint(1, 9)})
        yield ToolCall("read_text_file", {"path": path})
        yield ToolCall("read_text_file", {"path": f"PROJECT/docs/absent{number}.txt"})
        yield ToolCall("read_text_file", {"path": path, "head": 1, "tail": 1})
        yield ToolCall("read_multiple_files", {"paths": [path, "PROJECT/docs/note.txt", "PROJECT/docs/none"]})
        yield ToolCall(
            "edit_file",
            {
                "path": path,
                "edits": [{"oldText": "plain", "newText": "PLAIN"}],
                "dryRun": chance.random() < 0.5,
            },
        )
        yield ToolCall(
            "search_files", {"path": "PROJECT/docs", "pattern": chance.choice(("*.txt", "**/*", "a*"))}
        )
        yield ToolCall("read_media_file", {"path": f"PROJECT/docs/{chance.choice(('dot.png', 'beep.wav'))}"})
        yield ToolCall("list_directory", {"path": "PROJECT/docs"})
        yield ToolCall("create_directory", {"path": f"PROJECT/docs/folder{number % 5}"})
        yield ToolCall("read_file", {"path": chance.choice(("/etc/passwd", "PROJECT/../x", "PROJECT/docs"))})
        yield ToolCall("move_file", {"source": path, "destination": f"PROJECT/docs/moved{number}.txt"})


def _memory(chance: random.Random) -> Iterator[ToolCall]:
    number = 0
    while True:
        number += 1
        name = f"thing {chance.randint(1, 9)}"
        entity = {"name": name, "entityType": "thing", "observations": [chance.choice(TEXTS)]}
        yield ToolCall("create_entities", {"entities": [entity]})
        yield ToolCall(
            "add_observations", {"observations": [{"entityName": name, "contents": [f"seen {number}"]}]}
        )
        yield ToolCall(
            "add_observations", {"observations": [{"entityName": f"nobody {number}", "contents": ["x"]}]}
        )
        yield ToolCall(
            "create_relations", {"relations": [{"from": name, "to": "thing 1", "relationType": "knows"}]}
        )
        yield ToolCall("search_nodes", {"query": chance.choice(("thing", "seen", "absent"))})
        yield ToolCall("open_nodes", {"names": [name, "nobody"]})
        yield ToolCall("read_graph")
        yield ToolCall("delete_entities", {"entityNames": [f"thing {chance.randint(1, 9)}"]})


def _thinking(chance: random.Random) -> Iterator[ToolCall]:
    number = 0
    while True:
        number += 1
        thought = {"thought": chance.choice(TEXTS), "thoughtNumber": number, "totalThoughts": number + 1}
        yield ToolCall("sequentialthinking", {**thought, "nextThoughtNeeded": chance.random() < 0.5})
        yield ToolCall("sequentialthinking", {**thought, "nextThoughtNeeded": "true", "branchFromThought": 1,
                                              "branchId": f"b{number % 3}"})  # fmt: skip


def _time(chance: random.Random) -> Iterator[ToolCall]:
    number = 0
    while True:
        number = number % 12 + 1
        yield ToolCall(
            "convert_time",
            {
                "source_timezone": chance.choice(ZONES),
                "time": chance.choice(TIMES),
                "target_timezone": chance.choice(ZONES),
            },
        )
        yield ToolCall("get_current_time", {"timezone": f"{chance.choice(('Etc/GMT+', 'Nowhere/'))}{number}"})


def _git(chance: random.Random) -> Iterator[ToolCall]:
    repository = {"repo_path": "PROJECT"}
    number = 0
    while True:
        number += 1
        yield ToolCall("git_status", {"repo_path": f"PROJECT{'/' * number}"})
        yield ToolCall("git_log", {**repository, "max_count": number})
        yield ToolCall(
            "git_show", {**repository, "revision": chance.choice(("HEAD", f"absent{number}", f"-x{number}"))}
        )
        yield ToolCall("git_create_branch", {**repository, "branch_name": f"b{number}"})
        yield ToolCall(
            "git_branch", {**repository, "branch_type": chance.choice(("local", "remote", "all", "odd"))}
        )
        yield ToolCall(
            "git_diff", {**repository, "target": chance.choice(("HEAD", "HEAD~0", f"absent{number}"))}
        )
        yield ToolCall("git_diff_unstaged", {**repository, "context_lines": chance.randint(0, 5)})
        yield ToolCall(
            "git_add", {**repository, "files": [chance.choice(("docs/note.txt", f"absent{number}"))]}
        )
        yield ToolCall("git_status", {"repo_path": f"/etc/{number}"})


def _fetch(chance: random.Random) -> Iterator[ToolCall]:
    # Always raw: to simplify a page, the server first installs a program of npm.
    number = 0
    while True:
        number += 1
        page = chance.choice(("SITE/", "SITE/page", f"SITE/{number}", "http://127.0.0.1:9/", "no address"))
        yield ToolCall("fetch", {"url": page, "raw": True, "max_length": chance.randint(1, 400)})
        yield ToolCall("fetch", {"url": "SITE/", "raw": True, "start_index": chance.randint(0, 900)})


def _sqlite(chance: random.Random) -> Iterator[ToolCall]:
    number = 0
    while True:
        number += 1
        text = chance.choice(TEXTS).replace("'", "''")
        yield ToolCall("create_table", {"query": f"CREATE TABLE t{number % 4} (id INTEGER, words TEXT)"})
        yield ToolCall("write_query", {"query": f"INSERT INTO t{number % 4} VALUES ({number}, '{text}')"})
        yield ToolCall("read_query", {"query": f"SELECT * FROM t{number % 4} ORDER BY id"})
        yield ToolCall(
            "read_query", {"query": chance.choice(("DROP TABLE t1", "SELECT absent", "SELECT 1 AS one"))}
        )
        yield ToolCall("list_tables")
        yield ToolCall("describe_table", {"table_name": chance.choice(("t1", "absent"))})
        yield ToolCall("append_insight", {"insight": chance.choice(TEXTS)})


def _browser(chance: random.Random) -> Iterator[ToolCall]:
    while True:
        yield ToolCall("navigate_page", {"url": chance.choice(("SITE/", "SITE/page"))})
        yield ToolCall("take_snapshot", {"verbose": chance.random() < 0.5})
        yield ToolCall("evaluate_script", {"function": f"() => {chance.randint(1, 999)} * 2"})
        yield ToolCall("click", {"uid": f"9_{chance.randint(1, 999)}"})
        yield ToolCall(
            "evaluate_script",
            {"function": f"() => {chance.choice(('document.title', '[1, 2]', 'no.thing'))}"},
        )
        yield ToolCall("list_pages")
        yield ToolCall("list_console_messages")


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PAGE = """<!doctype html><title>A page</title><h1 id="sum"></h1><a href="/page">another</a>
<script>document.getElementById("sum").textContent = "the sum is " + (19 + 23)</script>"""

SERVERS: Mapping[str, Published] = {
    "everything": Published(
        "mcp-server-everything",
        (
            ToolCall("echo", {"message": "two\nlines"}),
            ToolCall("get-sum", {"a": 2, "b": 0.5}),
            ToolCall("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ToolCall("get-structured-content", {"location": "Chicago"}),
            ToolCall("get-structured-content", {"location": "Rome"}),
            ToolCall("get-resource-links", {"count": 2}),
            ToolCall("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
            ToolCall("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
            ToolCall("get-tiny-image"),
            ToolCall("get-env"),
            ToolCall("get-roots-list"),
        ),
        _everything,
    ),
    "filesystem": Published(
        "mcp-server-filesystem",
        (
            ToolCall("read_text_file", {"path": "PROJECT/docs/note.txt"}),
            ToolCall("read_text_file", {"path": "PROJECT/docs/absent.txt"}),
            ToolCall("write_file", {"path": "PROJECT/docs/new.txt", "content": "a\nb\n"}),
            ToolCall("read_media_file", {"path": "PROJECT/docs/dot.png"}),
            ToolCall("directory_tree", {"path": "PROJECT/docs"}),
        ),
        _filesystem,
        args=("PROJECT/docs",),
        permissions={"fs": {"read": ["docs"], "write": ["docs"]}},
    ),
    "memory": Published(
        "mcp-server-memory",
        (
            ToolCall(
                "create_entities",
                {"entities": [{"name": "n", "entityType": "t", "observations": ["two\nlines"]}]},
            ),
            ToolCall("add_observations", {"observations": [{"entityName": "nobody", "contents": ["x"]}]}),
            ToolCall("read_graph"),
            ToolCall("search_nodes", {"query": "lines"}),
        ),
        _memory,
        env={"MEMORY_FILE_PATH": "PROJECT/memory/graph.jsonl"},
        permissions={"fs": {"write": ["memory"]}},
    ),
    "thinking": Published(
        "mcp-server-sequential-thinking",
        (
            ToolCall(
                "sequentialthinking",
                {"thought": "a\nb", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": True},
            ),
            ToolCall(
                "sequentialthinking",
                {"thought": "c", "thoughtNumber": 3, "totalThoughts": 2, "nextThoughtNeeded": "false"},
            ),
            ToolCall("sequentialthinking", {"thought": "only"}),
        ),
        _thinking,
    ),
    "time": Published(
        "mcp-server-time",
        (
            ToolCall(
                "convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
            ),
            ToolCall(
                "convert_time", {"source_timezone": "UTC", "time": "25:00", "target_timezone": "Asia/Tokyo"}
            ),
            ToolCall("get_current_time", {"timezone": "Nowhere/Atall"}),
        ),
        _time,
    ),
    "git": Published(
        "mcp-server-git",
        (
            ToolCall("git_status", {"repo_path": "PROJECT"}),
            ToolCall("git_log", {"repo_path": "PROJECT"}),
            ToolCall("git_show", {"repo_path": "PROJECT", "revision": "absent"}),
            ToolCall("git_create_branch", {"repo_path": "PROJECT", "branch_name": "other"}),
        ),
        _git,
        args=("--repository", "PROJECT"),
        env=DATES,
        permissions={"fs": {"read": ["."], "write": [".git"]}},
        needs=("git",),
    ),
    "fetch": Published(
        "mcp-server-fetch",
        (
            ToolCall("fetch", {"url": "SITE/", "raw": True}),
            ToolCall("fetch", {"url": "SITE/", "raw": True, "max_length": 20}),
            ToolCall("fetch", {"url": "http://127.0.0.1:9/"}),
        ),
        _fetch,
        args=("--ignore-robots-txt", "--allow-private-ips"),
        permissions={"network": True},
    ),
    "sqlite": Published(
        "mcp-server-sqlite",
        (
            ToolCall("create_table", {"query": "CREATE TABLE t (id INTEGER, words TEXT)"}),
            ToolCall("write_query", {"query": "INSERT INTO t VALUES (1, 'two\nlines')"}),
            ToolCall("read_query", {"query": "SELECT * FROM t"}),
            ToolCall("read_query", {"query": "DROP TABLE t"}),
            ToolCall("append_insight", {"insight": "one"}),
        ),
        _sqlite,
        args=("--db-path", "STATE/rows.db"),
        permissions={"fs": {"write": ["STATE"]}},
    ),
    "pages": Published(
        "chrome-devtools-mcp",
        (
            ToolCall("new_page", {"url": "SITE/"}),
            ToolCall("take_snapshot"),
            ToolCall("evaluate_script", {"function": "() => document.title"}),
            ToolCall("click", {"uid": "999_999"}),
        ),
        _browser,
        args=(
            "--browserUrl",
            "BROWSER",
            "--no-page-id-routing",
            "--no-usage-statistics",
            "--no-performance-crux",
        ),
        env={"CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1"},
        permissions={"network": True},
        entry={"limits": {"memoryBytes": 4 << 30}},
        needs=("chromium",),
    ),
}


def in_place(value: Any, places: Mapping[str, str]) -> Any:
    """The value with the test's own places in it."""
    text = json.dumps(value)
    for name, place in places.items():
        text = text.replace(name, place)
    return json.loads(text)


def calls_of(server: Published, count: int) -> tuple[ToolCall, ...]:
    """`count` calls of the server, those of the quick run first; always the same ones. None is made more
    often than twice with one input: the loop guard pauses a caller whose call fails again and again."""
    more = server.more(random.Random(server.command))
    calls = list(server.quick)
    while len(calls) < count:
        call = next(more)
        if calls.count(call) < 2:
            calls.append(call)
    return tuple(calls[: max(count, len(server.quick))])


def find_servers(root: Root) -> None:
    """Let the root find the programs of the servers."""
    folders = [NODE_MODULES / ".bin", PYTHON_SERVERS / "bin", SQLITE_SERVER / "bin"]
    root.environ["PATH"] = ":".join([*map(str, folders), root.environ["PATH"]])


def is_installed(root: Root, server: Published) -> bool:
    """Whether the program of the server is there."""
    return shutil.which(server.command, path=root.environ["PATH"]) is not None


def state_folder(root: Root) -> Path:
    """A folder outside the project in which a server may keep files."""
    return root.base / "servers"


def fresh_project(root: Root) -> None:
    """Make the folders anew that the servers work on: a note, a picture, a sound, and one commit."""
    for folder in (*(root.folder / name for name in ("docs", "memory", ".git")), state_folder(root)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    (root.folder / ".git").rmdir()
    docs = root.folder / "docs"
    (docs / "note.txt").write_text("a note\nof two lines\n")
    (docs / "dot.png").write_bytes(PNG)
    (docs / "beep.wav").write_bytes(
        b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\0\0\0\0"
    )
    environ = {**root.environ, **DATES}
    for words in (["init", "-qb", "main"], ["add", "docs"], ["commit", "-qm", "the first commit"]):
        subprocess.run(["git", *words], cwd=root.folder, env=environ, check=True)
    # The other servers make files here at any time.
    (root.folder / ".git" / "info" / "exclude").write_text("*\n")


@asynccontextmanager
async def approved(kernel: Kernel) -> AsyncIterator[None]:
    """Approve every request while the block runs: no rule can allow a program whose seal is partial."""

    async def answer() -> None:
        while True:
            for ask in kernel.asks():
                if ask.state is RequestState.WAITING:
                    await approve(kernel, ask)
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as group:
        group.start_soon(answer)
        yield
        group.cancel_scope.cancel()


def client_file(root: Root, names: list[str], places: Mapping[str, str]) -> dict[str, Any]:
    """Write the `.mcp.json` of another client with these servers, and return what it declares."""
    servers = {
        name: in_place(
            {"command": server.command, "args": list(server.args), "env": dict(server.env)}, places
        )
        for name, server in SERVERS.items()
        if name in names
    }
    Path(root.folder, ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return servers
