"""What the lines that need nobody really do: each that is allowed runs under strace in folders with traps."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from flycore.catalog.builtin import SHELL
from flycore.pipeline.agent_access import look_at_agent_call
from flycore.policy.agent_commands.options import Objection
from flycore.policy.agent_commands.plan import Access, plan_command
from flycore.policy.agent_commands.shell_words import NotUnderstood
from flycore.runners.workspace.project_files import Project
from kits.agent_project import KEY
from kits.programs import needs
from kits.reading_lines import make_reading_project, option_lines, ordinary_lines, random_lines
from kits.suites import FULL
from kits.traced_commands import Case, effects_of

pytestmark = [pytest.mark.suite, pytest.mark.timeout(3_600 if FULL else 300)]
SESSIONS = os.environ.get("FLYTUI_SESSIONS", "")
"""A file with sessions of agents: one JSON object a line, with `tool`, `input` and `cwd`, packed by gzip."""
PARTS = 8 if FULL else 2
POSIX = (("POSIXLY_CORRECT", "1"),)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[Path]]:
    """A folder, the project in it, and the folders in which lines run. No allowed line changes any."""
    needs("strace", "git", "rg")
    folder = tmp_path_factory.mktemp("traps").resolve()
    return (folder, *make_reading_project(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    needs("strace", "git", "rg")
    return tmp_path.resolve()


def is_allowed(root: Path, cwd: Path, line: str) -> bool:
    found = look_at_agent_call(
        SHELL, {"command": line, "cwd": str(cwd)}, Project(root=root), switched_on=True
    )
    assert found is not None
    return found.reads_only


def check(folder: Path, root: Path, cases: list[Case]) -> None:
    effects = effects_of(cases, folder=folder, root=root, key=KEY)
    with_effects = [(*cases[number], *what[:3]) for number, what in effects.items()]
    assert not with_effects, (
        f"{len(with_effects)} of {len(cases)} allowed lines have effects: {with_effects[:5]}"
    )


def allowed_cases(root: Path, folders: list[Path], lines: Iterable[str], seed: int) -> list[Case]:
    """Each line in one of the folders, and every other one with POSIXLY_CORRECT as well."""
    chance = random.Random(seed)
    found = []
    for at, line in enumerate(lines):
        cwd = root if chance.random() < 0.5 else chance.choice(folders)
        if is_allowed(root, cwd, line):
            found.append(Case(cwd, line, POSIX if at % 2 else ()))
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_allowed_lines_have_no_effect(
    place: tuple[Path, Path, list[Path]], part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, root, folders = place
    generated = [*dict.fromkeys(option_lines()), *random_lines(6_000, seed=7)]
    random.Random(3).shuffle(generated)
    lines = [*ordinary_lines(), *(generated if FULL else generated[:200])]
    cases = allowed_cases(root, folders, lines[part::PARTS], part)
    assert len(cases) > len(lines) / PARTS / 20
    check(folder, root, cases)
    with capsys.disabled():
        print(f"\n{len(cases)} of {len(lines[part::PARTS])} lines are allowed, none with an effect")


def test_ordinary_lines_are_allowed_and_have_no_effect_in_every_folder(
    place: tuple[Path, Path, list[Path]],
) -> None:
    folder, root, folders = place
    lines = ordinary_lines()
    asks = [line for line in lines if not is_allowed(root, root, line)]
    assert len(asks) <= len(lines) / 20, asks
    chosen = folders if FULL else folders[2::5]
    cases = [
        Case(cwd, line)
        for cwd in chosen
        for line in (lines if FULL else lines[::9])
        if is_allowed(root, cwd, line)
    ]
    check(folder, root, cases)


HARMFUL = [
    "touch made-now", "cat ../outside/key", "cat leaky/key", "sh -c true", "rm z1", "mkdir made-now",
    "sort -o z2 z2", "uniq z2 z3", "command sh -c true -v", "cat fifo", "seq inf > /dev/null", "env true",
    "cat", "ln -s a b", "mv z1 z4", "chmod 600 z2", "git -C odd/monitored status", "echo $TOKEN",
    "git -C odd/moved grep e",
    "git tag new", "python3 -c 'import socket; socket.socket().connect((\"127.0.0.1\", 9))'", "cat z2 | tac",
]  # fmt: skip


def test_harmful_lines_are_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above show nothing."""
    root, _ = make_reading_project(folder)
    assert [line for line in HARMFUL if is_allowed(root, root, line)] == []
    harmless = ["ls", "cat z1 | sort | uniq -c", "git status", "whoami", "ls -l", "egrep a z1", "git diff"]
    assert not effects_of([Case(root, line) for line in harmless], folder=folder, root=root, key=KEY)
    monkeypatch.setattr("kits.traced_commands.LIMIT", 2)
    effects = effects_of([Case(root, line) for line in HARMFUL], folder=folder, root=root, key=KEY)
    assert [line for at, line in enumerate(HARMFUL) if at not in effects] == []


@pytest.mark.skipif(not SESSIONS, reason="NOT TESTED: FLYTUI_SESSIONS names no file with sessions of agents")
def test_allowed_lines_of_sessions_have_no_effect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, _ = make_reading_project(folder)
    cases, seen, asked, allowed = [], set[str](), 0, 0
    with gzip.open(SESSIONS, "rt", encoding="utf-8") as file:
        for row in file:
            call = json.loads(row)
            if call["tool"] != "Bash":
                continue
            line = call["input"].get("command", "")
            line = line.replace(call["cwd"], str(root)) if call["cwd"] else line
            make_named_files(root, line)
            if not is_allowed(root, root, line):
                asked += 1
                continue
            allowed += 1
            if line not in seen:
                seen.add(line)
                cases.append(Case(root, line))
    assert cases
    check(folder, root, cases)
    with capsys.disabled():
        print(
            f"\n{allowed} of {allowed + asked} lines are allowed; {len(cases)} different ones have no effect"
        )


def make_named_files(root: Path, line: str) -> None:
    """Make the files that a line names, so that its commands have something to read."""
    try:
        plan = plan_command(line)
    except (NotUnderstood, Objection):
        return
    for use in plan.paths:
        place = Path(os.path.normpath(root / use.folder / use.path))
        wanted = use.access in (Access.READ, Access.FILE) and not use.glob and ".git" not in place.parts
        linked = any(os.path.islink(one) for one in place.parents)
        if (
            wanted
            and place.is_relative_to(root)
            and place.suffix
            and not os.path.lexists(place)
            and not linked
        ):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("foo\n")
