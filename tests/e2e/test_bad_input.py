"""Whatever is asked, written or broken while a console is open: a clear answer, and the console goes on."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kits.scenes import (
    IN_PROJECT,
    REGISTRY,
    allow,
    assert_whole,
    call,
    described,
    flat,
    program,
    write_registry,
)
from kits.terminals import Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
ECHO = """#!/bin/sh
cat > /dev/null
echo '{"ok": true, "said": "well"}'
"""
MARK = """#!/bin/sh
cat > /dev/null
echo ran >> mark.ran
echo '{"ok": true}'
"""
SILENT = """#!/bin/sh
cat > /dev/null
sleep 600 &
exec sleep 600
"""
STRICT = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "count": {"type": "integer", "minimum": 1},
        "mode": {"enum": ["fast", "slow"]},
    },
    "required": ["path"],
    "additionalProperties": False,
}
TOOLS = ("well.echo", "mark.run", "silent.wait", "strict.read", "script.run")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, "{}")
    interpreter = tmp_path / "interpreter"
    interpreter.symlink_to("/bin/sh")
    echo = program(root, "echo", ECHO)
    write_registry(
        root,
        {
            "well": {"command": echo, "tools": [described("well.echo")]},
            "strict": {"command": echo, "tools": [described("strict.read", inputSchema=STRICT)]},
            "mark": _mark(root),
            "silent": {
                "command": program(root, "silent", SILENT),
                "tools": [described("silent.wait")],
                "timeoutMs": 400,
            },
            "script": {
                "command": program(root, "script", ECHO.replace("/bin/sh", str(interpreter))),
                "tools": [described("script.run")],
            },
        },
    )
    allow(root, *TOOLS)
    root.trust()
    yield root
    root.end()


def _mark(root: Root) -> dict[str, object]:
    return {
        "command": program(root, "mark", MARK),
        "tools": [described("mark.run")],
        "permissions": IN_PROJECT,
    }


def assert_goes_on(root: Root, tmux: Tmux) -> None:
    """The console is there and serves the next call."""
    tmux.sees(r"policy (ok|FAILED)|\d+ waiting")
    tmux.sees(r"well\.echo")
    code, result = call(root, "well.echo", {})
    assert (code, result["status"]) == (0, "success"), result


def test_calls_that_cannot_be_made(root: Root) -> None:
    with console(root) as tmux:
        tmux.sees(r"available +well\.echo")
        _unknown_tool(root)
        _every_violation(root)
        _too_strange_to_read(root)
        assert_goes_on(root, tmux)
        _never_answers(root)
        assert_goes_on(root, tmux)
        tmux.keys("3")
        tmux.sees(r"timeout +silent\.wait|silent\.wait.*timeout|time limit")
        tmux.keys("1")
        assert_goes_on(root, tmux)
    assert_whole(root)


def _unknown_tool(root: Root) -> None:
    code, result = call(root, "well.ecko", {})
    assert (code, result["status"], result["error"]["code"]) == (3, "failed", "not-found")
    assert "well.echo" in result["error"]["hint"]
    plain = root.flytui("call", "well.ecko")
    assert plain.returncode == 3
    assert "well.ecko" in plain.stderr
    assert "well.echo" in plain.stderr
    for command in ("why", "inspect", "preflight"):
        said = root.flytui(command, "well.ecko")
        assert said.returncode == 3
        assert "well.echo" in said.stderr + said.stdout


def _every_violation(root: Root) -> None:
    code, result = call(root, "strict.read", {"path": "", "count": 0, "mode": "so-so", "extra": 1})
    assert (code, result["status"], result["error"]["code"]) == (2, "failed", "invalid-input")
    violations = result["error"]["details"]["violations"]
    assert sorted(found["pointer"] for found in violations) in (
        ["", "/count", "/mode", "/path"],
        ["/count", "/extra", "/mode", "/path"],
    )
    assert all(found["message"] for found in violations)
    plain = root.flytui("call", "strict.read", '{"count": "x", "mode": 7}')
    assert plain.returncode == 2
    assert plain.stdout == ""
    for part in ("/count", "/mode", "path"):
        assert part in plain.stderr


def _too_strange_to_read(root: Root) -> None:
    for words in (('{"a": ',), ("[1]",), ("--input", "nothing"), ('{"a": 1}', "b=2")):
        done = root.flytui("call", "well.echo", *words)
        assert done.returncode == 2, words
        assert done.stdout == ""
        assert done.stderr.count("\n") <= 4
        assert "Traceback" not in done.stderr


def _never_answers(root: Root) -> None:
    code, result = call(root, "silent.wait", {})
    assert (code, result["status"], result["error"]["code"]) == (6, "failed", "timeout")
    assert "400" in result["error"]["message"]
    assert "timeoutMs" in result["error"]["hint"]
    assert _running(result["callId"]) == []


def _running(call_id: str) -> list[int]:
    """Processes that carry the call's mark."""
    mark = f"FLYTUI_CALL_ID={call_id}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_an_interpreter_that_goes_away(root: Root, tmp_path: Path) -> None:
    with console(root) as tmux:
        tmux.sees(r"available +script\.run")
        code, result = call(root, "script.run", {})
        assert (code, result["status"]) == (0, "success")
        (tmp_path / "interpreter").unlink()
        code, result = call(root, "script.run", {})
        assert (code, result["error"]["code"]) in ((1, "spawn"), (3, "interpreter-missing")), result
        assert str(tmp_path / "interpreter") in json.dumps(result["error"])
        assert result["error"]["hint"]
        assert_goes_on(root, tmux)
    code, result = call(root, "script.run", {})
    assert (code, result["status"], result["error"]["code"]) == (3, "unavailable", "interpreter-missing")
    assert_whole(root)


@pytest.mark.parametrize("how", ["a folder", "invalid UTF-8", "a loop of links", "nothing at all"])
def test_a_registry_that_cannot_be_read(root: Root, how: str) -> None:
    path = root.folder / REGISTRY

    def spoil() -> None:
        path.unlink()
        if how == "a folder":
            path.mkdir()
        elif how == "invalid UTF-8":
            path.write_bytes(b'{"schemaVersion": 2, "sidecars": {"\xff\xfe": {}}}')
        elif how == "a loop of links":
            path.symlink_to(path.name)
        else:
            path.write_bytes(b"")

    with console(root) as tmux:
        tmux.sees(r"available +well\.echo")
        spoil()
        tmux.sees("1 problem")
        assert_goes_on(root, tmux)
        tmux.keys("p")
        tmux.sees("✗ error")
        assert "external.tools.jsonc" in flat(tmux.screen())
        tmux.keys("Escape")
        assert_goes_on(root, tmux)
    listed = root.flytui("catalog")
    assert listed.returncode == 0
    assert "external.tools.jsonc" in listed.stderr
    doctor = root.flytui("doctor")
    assert doctor.returncode == 5
    assert "fail  registry: tools/external.tools.jsonc" in doctor.stdout
    code, result = call(root, "well.echo", {})
    assert (code, result["status"], result["error"]["code"]) == (3, "failed", "not-found")
    assert_whole(root)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of a quarter of a MiB on that folder."""
    folder.mkdir(parents=True, mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "none", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"NOT TESTED: no file system can be mounted here ({mounted.stderr.strip()})")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left; the file that has it."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            while _wrote(file.fileno(), size):
                pass
    return path


def _wrote(fd: int, size: int) -> bool:
    try:
        return os.write(fd, b"x" * size) > 0
    except OSError:
        return False


@pytest.mark.parametrize("under", ["state", "data"])
@pytest.mark.root
def test_a_full_disk(tmp_path: Path, under: str) -> None:
    """Under the log and the calls' folders, or under the copies of programs: nothing runs unrecorded."""
    needs("tmux")
    root = make_root(tmp_path, "{}")
    disk = root.home / under / "flytui"
    with small_disk(disk):
        write_registry(root, {"mark": _mark(root)})
        allow(root, "mark.run")
        root.trust()
        ran = root.folder / "mark.ran"
        with console(root) as tmux:
            tmux.sees(r"available +mark\.run")
            ballast = fill(disk)
            code, result = until("the disk is full", lambda: _refused(root))
            assert (code, result["status"]) == (1, "failed"), result
            assert "No space left" in json.dumps(result["error"]), result
            assert result["error"]["hint"], result
            assert result["output"] is None
            before = ran.read_text() if ran.exists() else ""
            assert _refused(root)
            assert (ran.read_text() if ran.exists() else "") == before
            tmux.sees(r"mark\.run")

            ballast.unlink()
            code, result = call(root, "mark.run", {})
            assert (code, result["status"]) == (0, "success"), result
            tmux.sees(r"mark\.run")
        assert_whole(root)
        started = [line for line in root.audit() if line["event"] == "TOOL_STARTED"]
        assert len(started) == len(ran.read_text().splitlines())
    root.end()


def _refused(root: Root) -> tuple[int, dict[str, object]] | None:
    """A call on the full disk; None while the log still had a corner to write it in."""
    code, result = call(root, "mark.run", {})
    return None if result["status"] == "success" else (code, result)
