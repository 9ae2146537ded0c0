"""Suite S15: nobody holds the kernel's loop. Every input is answered, and another caller all the time.

How long the pauses are is measured by `python -m bench s15`; here nothing depends on the clock.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from flycore.catalog.builtin import KNOWN
from flycore.catalog.builtin_tools import builtin_names
from flycore.client.serve import SWITCH_SECONDS, open_served_kernel
from flycore.kernel.kernel import Kernel
from flycore.model.caller import parse_caller_key
from flycore.model.enums import Code, Status
from flycore.model.json import check_counts
from flycore.model.large_values import LARGE_BYTES
from flycore.server.http import serve_http
from flycore.server.local import LocalClient
from flycore.server.mcp.http import http_app
from flycore.server.mcp.media import media_reader
from flycore.server.tcp import serve_tcp
from flycore.server.tokens import TokenStore
from kits.kernel import PATIENCE, Root, kernel_of, request, tool, until
from kits.loop_shapes import LIMIT, SCHEMAS, SHAPES, shape, within_limits
from kits.mcp_servers import connected, server_of, sidecar
from kits.recursive_schemas import recursive_case
from kits.suites import FULL
from kits.tcp import Listening, client, head, sent
from kits.unix_socket import answer_to, answered, message, plain, served

pytestmark = [pytest.mark.anyio, pytest.mark.suite]

SIZES = (1_000, 70_000, LIMIT) if FULL else (LIMIT,)
ALLOW = {"tool": "*", "decision": "allow", "because": "test"}
ECHO = "#!/bin/sh\nhead -n 1 > /dev/null\nprintf '{\"ok\": true}\\n'\n"
"""Not by the shell's `read`, which takes a request of megabytes byte by byte."""
MOST_MIB = 600
"""Generous: the figure is in the benchmark, where nothing else runs in the process."""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.policy(ALLOW)
    root.sidecar("echo", ECHO)
    # One caller makes them all: it would be slowed down before it can hold anything.
    (tmp_path / "config" / "flytui" / "config.jsonc").write_text(
        json.dumps({"quota": {"callsPerMinute": 100_000}})
    )
    return root


@asynccontextmanager
async def pinged(root: Root) -> AsyncIterator[None]:
    """Another caller, who pings all the time. Every ping is answered, and some are."""
    count = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with plain(root) as connection, anyio.create_task_group() as group:

        async def ping() -> None:
            nonlocal count
            while True:
                await connection.send(message("ping", {}, f"p{count}"))
                with anyio.fail_after(4 * PATIENCE):
                    await answer_to(connection, f"p{count}")
                count += 1
                await anyio.sleep(0.02)

        group.start_soon(ping)
        yield
        await until(lambda: count > 2)
        group.cancel_scope.cancel()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MOST_MIB


def with_schemas(root: Root) -> list[str]:
    """One tool for each hostile schema."""
    names = [f"hostile.s{number}" for number in range(len(SCHEMAS))]
    schemas = zip(names, SCHEMAS.values(), strict=True)
    root.sidecar("hostile", ECHO, *(tool(name, inputSchema=schema) for name, schema in schemas))
    return names


async def test_over_the_socket_every_shape_is_answered_at_hostile_schemas(root: Root) -> None:
    names = with_schemas(root)
    async with served(root) as kernel, pinged(root), plain(root) as connection:
        texts = []
        for number, (name, size) in enumerate((name, size) for name in SHAPES for size in SIZES):
            texts.append(shape(name, size))
            if number % 3 == 0 or FULL:
                texts.append(within_limits(name, size))
        # Each one once: a caller that repeats a failing call is paused.
        for number, text in enumerate(dict.fromkeys(texts)):
            for at, hostile in enumerate(names if FULL else [names[number % len(names)]]):
                end = await answered(connection, hostile, text, f"c{number}-{at}")
                assert end in ("success", "failed", "invalid-envelope")
        assert await answered(connection, "echo.do", "{}", "last") == "success"
        assert kernel.status().running == 0


async def test_over_the_socket_bundled_schemas_answer_many_violations(root: Root) -> None:
    chosen = (
        sorted(KNOWN.keys() - builtin_names())
        if FULL
        else ["archive.create", "task.background", "computer.keyboard", "file.hash"]
    )
    root.sidecar("bundled", ECHO, *(name for name in chosen if name in KNOWN))
    async with served(root), pinged(root), plain(root) as connection:
        for number, name in enumerate(chosen):
            fields = KNOWN[name].input_schema.get("properties", {})
            assert isinstance(fields, dict)
            for at, field in enumerate(fields if FULL else list(fields)[:1]):
                text = within_limits("many violations", 200_000).replace('"a"', json.dumps(field), 1)
                end = await answered(connection, name, text, f"b{number}-{at}")
                assert end in ("failed", "unavailable", "denied", "success")


@pytest.mark.parametrize("name", SHAPES if FULL else ["long array", "deep nesting", "one long string"])
async def test_over_tcp_and_http_every_shape_is_answered(root: Root, name: str) -> None:
    (hostile, *_) = with_schemas(root)
    async with served(root) as kernel, pinged(root):
        book = TokenStore.load(root.places.state_dir)
        token = book.new("good")
        async with serve_tcp(kernel, book, 0) as address:
            at = Listening(kernel, book, token, address)
            text = shape(name, 900_000)
            async with client(at) as connection:
                assert await answered(connection, hostile, text, "t") in (
                    "success",
                    "failed",
                    "invalid-envelope",
                )
                assert await answered(connection, "echo.do", "{}", "last") == "success"
        app = http_app(lambda key: LocalClient(kernel, parse_caller_key(key)), media_reader(root.places))
        async with serve_http(kernel, app, book, 0) as address:
            at = Listening(kernel, book, token, address)
            call = f'{{"name": "echo_do", "arguments": {text}}}'
            body = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {call}}}'.encode()
            types = ("Content-Type: application/json", "Accept: application/json, text/event-stream")
            lines = (at.host, at.bearer, *types, f"Content-Length: {len(body)}", "Connection: close")
            assert (await sent(at.port, head("POST /mcp HTTP/1.1", *lines) + body)).startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize("words", [("mcp",), ("hook",), ("call", "echo.do", "-")])
@pytest.mark.parametrize("name", SHAPES if FULL else ["long array"])
async def test_programs_of_agents_end_with_an_answer(root: Root, words: tuple[str, ...], name: str) -> None:
    text = shape(name)
    if words == ("mcp",):
        text = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {text}}}\n'
    elif words == ("hook",):
        text = f'{{"hook_event_name": "PreToolUse", "tool_name": "Edit", "tool_input": {text}}}'
    command = [sys.executable, "-m", "flytui", *words, "--root", str(root.folder)]
    async with served(root), pinged(root):
        with anyio.fail_after(4 * PATIENCE):
            code, said = await run_program(command, text.encode(), root.environ, stays=words == ("mcp",))
    assert code >= 0
    assert said
    assert b"Traceback" not in said


async def run_program(
    command: list[str], text: bytes, env: dict[str, str], *, stays: bool
) -> tuple[int, bytes]:
    """Give the program that text; its exit code and what it said. The input of one that stays for more is
    closed after its first words, which is how its client ends it."""
    said = b""
    process = await anyio.open_process(command, env=env, stderr=subprocess.STDOUT)
    async with process, anyio.create_task_group() as group:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin = process.stdin

        async def give() -> None:
            # A program that refuses its input need not read it to the end. The oldest anyio that is allowed
            # raises the error of the system.
            with suppress(anyio.BrokenResourceError, ConnectionError):
                await stdin.send(text)
                if not stays:
                    await stdin.aclose()

        group.start_soon(give)
        async for part in process.stdout:
            said += part
            if stays:
                await stdin.aclose()
        code = await process.wait()
    return code, said


ANSWERS = "#!/bin/sh\nread -r request\ncat answer\n"
"""The file is in the project, not beside the program, so that the seal is complete."""


@pytest.mark.parametrize("name", SHAPES if FULL else ["long array", "deep nesting", "many keys"])
async def test_answers_of_sidecars_are_read_or_refused(root: Root, name: str) -> None:
    schema = {"type": "object", "properties": {"a": {"items": {"type": "string"}}}}
    root.sidecar("big", ANSWERS, tool("big.do", outputSchema=schema), maxOutputBytes=2_000_000)
    (root.folder / "answer").write_text('{"ok": true, ' + shape(name)[1:] + "\n")
    async with served(root) as kernel, pinged(root):
        result = await kernel.call(request(kernel, "big.do"))
        assert result.status in (Status.SUCCESS, Status.FAILED)
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS


async def test_floods_of_events_of_a_sidecar_are_bounded(root: Root) -> None:
    root.sidecar("flood", ANSWERS, tool("flood.do"), maxOutputBytes=4_000_000)
    event = '{"event": "progress", "progress": 1}\n'
    (root.folder / "answer").write_text(event * 50_000 + '{"ok": true}\n')
    async with served(root) as kernel, pinged(root):
        result = await kernel.call(request(kernel, "flood.do"))
    assert result.status is Status.SUCCESS
    assert any("events of the sidecar were left out" in warning for warning in result.warnings)


LISTING = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        answer["serverInfo"] = {"name": "x", "version": "1"}
    else:
        schema = {"type": "object", "examples": [0] * 300_000}
        answer = {"tools": [{"name": "t", "description": "d", "inputSchema": schema}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"""


async def test_listings_of_upstream_servers_are_bounded_before_the_sdk(root: Root) -> None:
    server_of(root, "up", LISTING)
    async with served(root) as kernel, pinged(root):
        await until(
            lambda: any("50,000 values" in why.message for why in sidecar(kernel, "up").stability.reasons)
        )
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS


UPSTREAM = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = open("answer", encoding="utf-8").read()


def answer(message):
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "x", "version": "1"}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "t", "description": "d", "inputSchema": {"type": "object"}}]}
    elif message["method"] != "tools/call":
        result = {}
    else:
        # As it was written: what it holds must be dear for the kernel, not for this server.
        return '{"jsonrpc": "2.0", "id": %s, "result": {"content": [], "structuredContent": %s}}' % (
            json.dumps(message["id"]), ANSWER)
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = answer(message).encode() if "id" in message else b""
        self.send_response(200 if text else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        pass


if sys.argv[1:] == ["http"]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(answer(message), flush=True)
"""


@asynccontextmanager
async def upstream(root: Root, way: str, answer: str) -> AsyncIterator[None]:
    """An entry `up` for an MCP server that answers every call with that text."""
    (root.folder / "answer").write_text(answer)
    if way == "stdio":
        server_of(root, "up", UPSTREAM)
        yield
        return
    command = [sys.executable, "-c", UPSTREAM, "http"]
    async with await anyio.open_process(command, cwd=root.folder, stderr=None) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{int(await process.stdout.receive())}/mcp"
            root.sidecars["up"] = {"kind": "mcp", "url": url, "permissions": {"network": True}}
            root.write()
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("name", SHAPES if FULL else ["long array", "escapes only"])
async def test_answers_of_upstream_servers_are_read_or_refused(root: Root, way: str, name: str) -> None:
    async with upstream(root, way, shape(name)), served(root) as kernel, pinged(root):
        await connected(kernel, "up")
        result = await kernel.call(request(kernel, "up.t"))
        assert result.status in (Status.SUCCESS, Status.FAILED), result
        assert result.error is None or result.error.code != Code.NOT_FOUND
        assert (await kernel.call(request(kernel, "echo.do"))).status is Status.SUCCESS


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_large_messages_of_upstream_servers_are_counted_beside_the_loop(
    root: Root, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[bool, set[int]] = {False: set(), True: set()}

    def count(data: bytes, most: int) -> None:
        threads[len(data) > LARGE_BYTES].add(threading.get_ident())
        check_counts(data, most)

    monkeypatch.setattr(f"flycore.runners.mcp.{way}.check_counts", count)
    async with upstream(root, way, shape("array of strings")), served(root) as kernel:
        await connected(kernel, "up")
        error = (await kernel.call(request(kernel, "up.t"))).error
    assert error is not None
    assert "50,000 values" in error.message
    assert threads[False] == {threading.get_ident()}
    assert threads[True]
    assert threading.get_ident() not in threads[True]


async def test_the_sdk_is_imported_beside_the_loop(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    monkeypatch.setattr(
        "flycore.runners.mcp.session.import_sdk", lambda: threads.append(threading.get_ident())
    )
    async with upstream(root, "stdio", "{}"), served(root) as kernel:
        await connected(kernel, "up")
    assert threads
    assert threading.get_ident() not in threads


async def test_a_served_kernel_puts_its_loop_before_its_threads(root: Root) -> None:
    before = sys.getswitchinterval()

    def fail(*_: object) -> None:
        raise AssertionError("the root is free")

    async with open_served_kernel(root.places, on_wait=fail):
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
        assert gc.get_freeze_count() > 0
    assert sys.getswitchinterval() == before
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("name", SHAPES if FULL else ["long array", "deep nesting"])
async def test_files_of_a_project_are_read_or_refused_while_the_kernel_serves(root: Root, name: str) -> None:
    async def keeps_serving(kernel: Kernel, change: Callable[[], Awaitable[None]]) -> None:
        await change()
        async with plain(root) as connection:
            for number in range(3):
                await connection.send(message("capability.catalog.get", {}, f"k{number}"))
                with anyio.fail_after(4 * PATIENCE):
                    await answer_to(connection, f"k{number}")
        await kernel.checks()

    registry = root.folder / "tools" / "external.tools.jsonc"
    good = registry.read_text()
    text = shape(name)

    async def write_registry() -> None:
        registry.write_text(good.replace('"command"', f'"config": {text}, "command"', 1))

    async def write_policy() -> None:
        rule = f'{{"tool": "echo.*", "decision": "ask", "because": "x", "when": {{"const": {text}}}}}'
        (root.folder / "tools" / "policy.jsonc").write_text(f'{{"schemaVersion": 1, "rules": [{rule}]}}')

    async def write_manifest() -> None:
        (root.folder / ".mcp.json").write_text(f'{{"mcpServers": {text}}}')

    archived = root.places.audit_dir / "2020-01.jsonl"
    archived.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    archived.write_text(f"{text}\n")
    try:
        async with kernel_of(root) as kernel:
            assert kernel.status().running == 0
    except Exception:  # noqa: BLE001 - a log that is no log may keep a kernel from starting, in words
        pass
    finally:
        archived.unlink()
    async with served(root) as kernel, pinged(root):
        for change in (write_registry, write_policy, write_manifest):
            await keeps_serving(kernel, change)
        registry.write_text(good)
        await until(lambda: kernel.catalog().capability("echo.do") is not None)


BATCH = 100 if FULL else 15
"""Schemas of one kernel."""
MOST_GROWTH_MIB = 64
ANSWERS_BY_NAME = r"""#!/bin/sh
read -r request
cat "answers/$(printf '%s' "$request" | sed 's/.*"tool": *"\([^"]*\)".*/\1/')"
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, 2_000 if FULL else BATCH, BATCH))
async def test_recursive_schemas_do_not_fill_the_kernel(root: Root, first: int) -> None:
    """One schema in three is that of an input, of an output, or of a rule's condition."""
    cases = {f"s{seed}": recursive_case(seed) for seed in range(first, first + BATCH)}
    names, rules = list(cases), [ALLOW]
    tools = []
    (root.folder / "answers").mkdir()
    for number, (name, (schema, value)) in enumerate(cases.items()):
        kinds = ("inputSchema", "outputSchema", "")
        tools.append(tool(f"recursive.{name}", **({kinds[number % 3]: schema} if number % 3 < 2 else {})))
        (root.folder / "answers" / f"recursive.{name}").write_text(json.dumps({"ok": True, **value}))
        if number % 3 == 2:
            rules.append({"tool": f"recursive.{name}", "decision": "deny", "because": "x", "when": schema})
    root.policy(*rules)
    root.sidecar("recursive", ANSWERS_BY_NAME, *tools)
    async with kernel_of(root):
        pass  # with which the registry counts as accepted
    command = [sys.executable, "-m", "flytui", "serve", "--root", str(root.folder)]
    async with await anyio.open_process(command, env=root.environ, stderr=None) as kernel:
        assert kernel.stdout is not None
        try:
            with anyio.fail_after(4 * PATIENCE):
                while b"socket" not in await kernel.stdout.receive():
                    pass
            async with plain(root) as connection:
                # Whatever is imported at the first calls and checks is no growth.
                assert await answered(connection, "echo.do", "{}", "first") == "success"
                await answered(connection, f"recursive.{names[0]}", '{"a": 7}', "second")
                rest = memory_mib(kernel.pid, "VmRSS")
                async with pinged(root):
                    for name, (_, value) in cases.items():
                        end = await answered(connection, f"recursive.{name}", json.dumps(value), name)
                        assert end in ("success", "failed") or "'policy'" in end or "'no-approver'" in end
                assert memory_mib(kernel.pid, "VmHWM") - rest < MOST_GROWTH_MIB
        finally:
            kernel.terminate()


def memory_mib(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024
