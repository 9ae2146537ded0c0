"""The right answer for each command of `commands.txt`, in a project folder with hostile files."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from flycore.catalog.builtin import SHELL
from flycore.model.approval import AgentAccess
from flycore.model.enums import Risk
from flycore.pipeline.agent_access import look_at_agent_call
from flycore.runners.workspace.project_files import Project
from kits.agent_project import KEY, make_project
from kits.command_rows import command_rows
from kits.tables import each_row

MOST_HARMLESS_THAT_ASK = 27
"""As many as the file marks with `asks`. A change that makes more of them ask has to say so here."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(root=make_project(tmp_path_factory.mktemp("agent")))


def look(project: Project, command: str) -> AgentAccess:
    found = look_at_agent_call(
        SHELL, {"command": command, "cwd": str(project.root)}, project, switched_on=True
    )
    assert found is not None
    return found


def test_the_file_has_enough_of_each_kind() -> None:
    count = Counter(answer for answer, _ in command_rows())
    assert sum(count.values()) >= 300
    assert count["attack"] >= 60
    assert len({command for _, command in command_rows()}) >= 300


@each_row(("answer", "command"), command_rows(), ids=[f"{a}-{c!r}" for a, c in command_rows()])
def test_each_command_gets_its_answer(project: Project, answer: str, command: str) -> None:
    found = look(project, command)
    assert found.why
    match answer:
        case "allow":
            assert found.reads_only, found.why
            assert found.risk is Risk.LOW
        case "medium" | "high":
            assert not found.reads_only
            assert found.risk is Risk(answer), found.why
        case "attack":
            assert not found.reads_only, f"allowed: {found.why}"
            assert found.risk is not Risk.LOW
        case _:
            assert answer == "asks"


def test_few_harmless_commands_ask(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    harmless = [command for answer, command in command_rows() if answer in ("allow", "asks")]
    ask = [command for command in harmless if not look(project, command).reads_only]
    with capsys.disabled():
        print(f"\n{len(ask)} of {len(harmless)} harmless commands ask: {ask}")
    assert len(ask) <= MOST_HARMLESS_THAT_ASK


def test_git_really_has_the_history_that_the_rows_name(project: Project) -> None:
    """The rows about git mean something only in a repository with two commits."""
    done = subprocess.run(
        ["git", "-C", str(project.root), "rev-list", "--count", "HEAD"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "2"


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below the folder; of the repository, what is no copy of times and sizes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "index"
    }


@pytest.mark.long
def test_what_is_allowed_changes_nothing_and_shows_no_key(project: Project) -> None:
    """Each command that is allowed really runs, in a shell, with the key in its environment."""
    folder = project.root.parent
    before = snapshot(folder)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "outside"),
        "TOKEN": KEY,
        "LANG": "C.UTF-8",
    }
    allowed = [command for answer, command in command_rows() if answer == "allow"]
    ran = 0
    for command in allowed:
        assert look(project, command).reads_only, command
        done = subprocess.run(
            ["bash", "-c", command], cwd=project.root, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert KEY.encode() not in done.stdout + done.stderr, command
        ran += done.returncode == 0
    assert snapshot(folder) == before
    assert ran > len(allowed) * 0.8
