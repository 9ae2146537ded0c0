"""Commands followed to files: real files, real links, each dead end with its own reason."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from flycore.model.enums import Anchor, PathState, ReasonCode
from flycore.model.program import ResolvedProgram
from flycore.registry import stat_cache
from flycore.registry.resolve import resolve_program

if TYPE_CHECKING:
    from conftest import Root

ENTRY = '{"schemaVersion": 2, "sidecars": {"a": {"command": "x", "tools": ["file.hash"]}}}'


def resolve(
    root: Root, command: str, *args: str, path: str = "/usr/bin:/bin", cwd: Anchor = Anchor.APP
) -> ResolvedProgram:
    """Resolve against the root's registry; `root.folder/venv` plays the interpreter's folder."""
    registry = root.load(ENTRY)
    entry = msgspec.structs.replace(registry.entries[0], cwd=cwd)
    return resolve_program(
        command,
        args,
        entry=entry,
        registry=registry,
        interpreter_dir=root.folder / "venv",
        path_env=path,
    )


def test_a_program_below_the_root(root: Root) -> None:
    program = root.executable("tools/bin/run")
    found = resolve(root, "./tools/bin/run", "-q")
    assert found.state is PathState.RESOLVED
    assert (found.path, found.argv) == (str(program), (str(program), "-q"))
    assert (found.mode, found.base, found.root_safe, found.reason) == ("relative", Anchor.APP, True, None)
    assert found.interpreter_argv == ("/bin/sh",)
    assert found.interpreter == os.path.realpath("/bin/sh")


def test_an_interpreter_that_changes_is_noticed(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the first bytes of the script are known: in the script, and on this machine."""
    monkeypatch.setattr(stat_cache, "_SETTLED_NS", -1)
    named = root.executable(root.folder / "one", Path("/bin/true").read_bytes())
    other = root.executable(root.folder / "two", Path("/bin/true").read_bytes())
    script = root.executable("run", f"#!{named}\n".encode())
    for _ in range(2):
        assert resolve(root, "./run").interpreter == str(named)
    script.write_bytes(f"#!{other}\n".encode())
    for _ in range(2):
        assert resolve(root, "./run").interpreter == str(other)
    other.unlink()
    assert resolve(root, "./run").reason is ReasonCode.INTERPRETER_MISSING
    other.symlink_to(named)
    assert resolve(root, "./run").interpreter == str(named)


def test_a_binary_has_no_interpreter(root: Root) -> None:
    root.executable("true", Path("/bin/true").read_bytes())
    found = resolve(root, "./true")
    assert (found.state, found.interpreter, found.interpreter_argv) == (PathState.RESOLVED, "", ())


@pytest.mark.parametrize("link", ["run", "../app/run", "ABSOLUTE"])
def test_a_link_that_stays(root: Root, link: str) -> None:
    program = root.executable("real/run")
    root.executable("run")
    target = str(program) if link == "ABSOLUTE" else link.replace("run", "real/run")
    (root.app / "link").symlink_to(target)
    found = resolve(root, "./link")
    assert (found.state, found.path) == (PathState.RESOLVED, str(program))


def test_a_folder_link_that_leaves(root: Root) -> None:
    root.executable(root.folder / "elsewhere/run")
    (root.app / "bin").symlink_to("../elsewhere")
    found = resolve(root, "./bin/run")
    assert (found.state, found.reason) == (PathState.OUTSIDE_ROOT_DENIED, ReasonCode.OUTSIDE_ROOT_DENIED)
    assert found.argv == ()
    assert "tools/external.tools.jsonc:1" in found.remedy


@pytest.mark.parametrize(
    "command",
    [
        "/bin/true",
        "~/run",
        "../run",
        "./../run",
        "./a/../../run",
        "C:\\run.exe",
        "//bin/true",
        "./abs",
        "./magic/bin/true",
    ],
)
def test_what_leaves_is_denied(root: Root, command: str) -> None:
    root.executable(root.folder / "run")
    root.write("a/x", "")
    (root.app / "abs").symlink_to("/bin/true")
    (root.app / "magic").symlink_to("/proc/self/root")
    found = resolve(root, command)
    assert (found.state, found.reason) == (PathState.OUTSIDE_ROOT_DENIED, ReasonCode.OUTSIDE_ROOT_DENIED)
    assert found.argv == ()
    assert "./" in found.remedy


@pytest.mark.parametrize(
    ("command", "reason", "remedy"),
    [
        ("./tools/bin/rum", ReasonCode.COMMAND_NOT_FOUND, "did you mean ./tools/bin/run?"),
        ("./nowhere/at/all", ReasonCode.COMMAND_NOT_FOUND, "put the program there"),
        ("./tools/bin/run/x", ReasonCode.COMMAND_NOT_FOUND, "put the program there"),
        ("tools/bin/run", ReasonCode.COMMAND_NOT_FOUND, 'write "./tools/bin/run"'),
        ("tools\\bin\\run", ReasonCode.COMMAND_NOT_FOUND, 'write "./tools/bin/run"'),
        ("./tools/bin", ReasonCode.NOT_EXECUTABLE, "name the program"),
        ("./plain", ReasonCode.NOT_EXECUTABLE, "chmod +x ./plain"),
        ("./dangling", ReasonCode.COMMAND_NOT_FOUND, "put the program there"),
        ("./loop", ReasonCode.COMMAND_NOT_FOUND, "name a program"),
        ("./" + "n" * 300, ReasonCode.COMMAND_NOT_FOUND, "name a program"),
        ("no-such-program-here", ReasonCode.COMMAND_NOT_FOUND, "install no-such-program-here"),
        ("sh -c true", ReasonCode.COMMAND_NOT_FOUND, "put the rest into args"),
        ("..", ReasonCode.COMMAND_NOT_FOUND, "install"),
        (".", ReasonCode.COMMAND_NOT_FOUND, "install"),
        ("only-text", ReasonCode.NOT_EXECUTABLE, "chmod +x"),
    ],
)
def test_dead_ends(root: Root, command: str, reason: ReasonCode, remedy: str) -> None:
    root.executable("tools/bin/run")
    root.write("plain", "")
    root.write(root.folder / "path/only-text", "")
    (root.app / "dangling").symlink_to("gone")
    (root.app / "loop").symlink_to("loop")
    found = resolve(root, command, path=f"/usr/bin:/bin:{root.folder}/path")
    assert (found.state, found.reason) == (PathState.UNRESOLVED, reason)
    assert remedy in found.remedy
    assert command in found.message
    assert found.argv == ()


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        (b"#!/bin/sh\n", ("/bin/sh",)),
        (b"#! /bin/sh -e\n", ("/bin/sh", "-e")),
        (b"#!/bin/sh -e -u\n", ("/bin/sh", "-e -u")),
        (b"#!/usr/bin/env sh\n", ("/usr/bin/sh",)),
        (b"#!/usr/bin/env -S sh -e -u\n", ("/usr/bin/sh", "-e", "-u")),
        (b"#!/bin/sh", ("/bin/sh",)),
    ],
)
def test_interpreters(root: Root, line: bytes, argv: tuple[str, ...]) -> None:
    root.executable("run", line)
    found = resolve(root, "./run")
    assert found.state is PathState.RESOLVED
    assert found.interpreter_argv == argv
    assert found.interpreter == os.path.realpath(argv[0])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"#!/no/such/python9\n", "install python9"),
        (b"#!/usr/bin/env no-such-node\n", "install no-such-node"),
        (b"#!/bin/sh\r\n", "install sh"),
        (b"#!sh\n", "install sh"),
        (b"#!\n", "install an"),
        (b"#!/usr/bin/env -i sh\n", "install env"),
    ],
)
def test_missing_interpreters(root: Root, line: bytes, said: str) -> None:
    root.executable("run", line)
    found = resolve(root, "./run")
    assert (found.state, found.reason) == (PathState.UNRESOLVED, ReasonCode.INTERPRETER_MISSING)
    assert said in found.remedy


def test_the_interpreters_folder_before_path(root: Root) -> None:
    beside = root.executable(root.folder / "venv/tool")
    other = root.executable(root.folder / "path/tool")
    assert resolve(root, "tool", path=str(other.parent)).argv == (str(beside),)
    beside.chmod(0o644)
    found = resolve(root, "tool", path=str(other.parent))
    assert (found.argv, found.mode, found.portable, found.root_safe) == ((str(other),), "path", True, True)


def test_path_does_not_mean_the_working_folder(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.executable("tool")
    monkeypatch.chdir(root.app)
    for path in ("", ".", ":", "tools:."):
        assert resolve(root, "tool", path=path).state is PathState.UNRESOLVED


def test_a_name_keeps_the_name_it_is_called_by(root: Root) -> None:
    folder = root.folder / "path"
    folder.mkdir()
    (folder / "py").symlink_to(sys.executable)
    found = resolve(root, "py", path=str(folder))
    assert found.argv == (str(folder / "py"),)
    assert found.path == os.path.realpath(sys.executable)


def test_anchors(root: Root) -> None:
    inside = root.executable(root.places.config_dir / "tools/bin/run")
    assert resolve(root, "./bin/run", cwd=Anchor.CONFIG).path == str(inside)
    assert resolve(root, "./bin/run", cwd=Anchor.APP).state is PathState.UNRESOLVED
    inside = root.executable("bin/run")
    assert resolve(root, "./bin/run", cwd=Anchor.WORKSPACE).path == str(inside)


def test_an_anchor_that_is_not_there(root: Root) -> None:
    found = resolve(root, "./bin/run", cwd=Anchor.CONFIG)
    assert (found.state, found.reason) == (PathState.UNRESOLVED, ReasonCode.COMMAND_NOT_FOUND)
    assert "config folder" in found.message
