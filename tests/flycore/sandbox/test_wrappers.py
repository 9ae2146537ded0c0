"""Wrappers are looked through where their options are known, and not where one could change what starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flycore.model.enums import Anchor, PathState, SealKind
from flycore.model.program import ResolvedProgram
from flycore.sandbox.seals import StartConditions, materialise, seal_program
from flycore.sandbox.wrappers import look_through
from kits.tables import each_row

SEEN = (
    ("env", "A=1 B=2 run x", ("run", "x")),
    ("env", "-i -u HOME A=1 run", ("run",)),
    ("env", "run A=1", ("run", "A=1")),
    ("timeout", "-k 5 --signal=INT 10 run", ("run",)),
    ("timeout", "--foreground -- 10 run -v", ("run", "-v")),
    ("nice", "-n 5 run", ("run",)),
    ("nice", "-5 run", ("run",)),
    ("nice", "--adjustment=5 run", ("run",)),
    ("ionice", "-c2 -n 7 run", ("run",)),
    ("xargs", "-0 -n 1 -I{} run {}", ("run", "{}")),
    ("setsid", "-w run", ("run",)),
    ("stdbuf", "-oL -e 0 run", ("run",)),
    ("nohup", "run", ("run",)),
    ("sudo", "-n -u root A=1 run", ("run",)),
    ("time", "-f %e -o out run", ("run",)),
)
BLIND = (
    ("env", "-S run"),
    ("env", "-C / run"),
    ("env", "--chdir=/ run"),
    ("timeout", "10"),
    ("timeout", "--unknown 10 run"),
    ("xargs", "--process-slot-var=A run"),
    ("sudo", "-i run"),
    ("sudo", "-s run"),
    ("nohup", "--help"),
    ("time", ""),
)


@each_row(("name", "line", "inner"), SEEN)
def test_what_a_wrapper_starts(name: str, line: str, inner: tuple[str, ...]) -> None:
    words = tuple(line.split())
    found = look_through(name, (f"/usr/bin/{name}", *words))
    assert found.why_not == ""
    assert found.argv == inner
    assert (*found.before, *found.argv) == (f"/usr/bin/{name}", *words)


@each_row(("name", "line"), BLIND)
def test_what_is_not_understood_is_not_looked_through(name: str, line: str) -> None:
    found = look_through(name, (f"/usr/bin/{name}", *line.split()))
    assert found.why_not
    assert found.argv == ()


def wrapped(*words: str) -> ResolvedProgram:
    real = os.path.realpath(f"/usr/bin/{words[0]}")
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="path",
        base=Anchor.APP,
        declared=words[0],
        path=real,
        argv=(f"/usr/bin/{words[0]}", *words[1:]),
    )


def test_the_program_behind_two_wrappers_runs_from_its_copy(tmp_path: Path) -> None:
    project = tmp_path / "project"
    script = project / "x" / "run"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\necho one\n")
    script.chmod(0o755)
    conditions = StartConditions(anchors=(str(project),), cwd=str(project))
    program = wrapped("timeout", "5", "nice", "./x/run", "-v")
    seal = seal_program(program, conditions)
    assert (seal.kind, seal.copy, seal.note) == (
        SealKind.FILE,
        True,
        "started by timeout, started by nice",
    )
    argv = materialise(program, seal, tmp_path / "store", conditions).argv
    assert argv[:3] == ("/usr/bin/timeout", "5", "/usr/bin/nice")
    assert argv[4].startswith(str(tmp_path / "store"))
    assert argv[5] == "-v"
    script.write_text("#!/bin/sh\necho two\n")
    assert seal_program(program, conditions).digest != seal.digest


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("timeout", "5", "./none"), "starts ./none, which is not there"),
        (("env", "-S", "run"), "is given -S, which flytui does not look through"),
        (("env", "PATH=/tmp", "run"), "its environment sets PATH"),
        (("env", "LD_PRELOAD=./x.so", "true"), "its environment sets LD_PRELOAD"),
    ],
)
def test_a_wrapper_that_hides_something_is_partial(
    words: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    seal = seal_program(wrapped(*words), StartConditions(anchors=(str(tmp_path),), cwd=str(tmp_path)))
    assert any(reason in why for why in seal.partial), seal.partial


def test_a_known_program_behind_a_wrapper_is_complete(tmp_path: Path) -> None:
    conditions = StartConditions(anchors=(str(tmp_path),), cwd=str(tmp_path))
    assert seal_program(wrapped("nice", "-n", "5", "true"), conditions).complete
    assert not seal_program(wrapped("nice", "-n", "5", "find"), conditions).complete
