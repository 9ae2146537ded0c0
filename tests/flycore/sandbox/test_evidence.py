"""What notes of an observer mean, and what is never proposed for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flycore.model.json import JsonObject
from flycore.model.refusals import Refusals, with_granted
from flycore.sandbox.evidence import MOST_PROPOSED, Ground, refusals_in


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project beside a home, with files in both."""
    for path in (
        "project/data.json",
        "project/.env",
        "project/tools/external.tools.jsonc",
        "home/.ssh/id_rsa",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    return tmp_path / "project"


def refused(project: Path, *notes: str | bytes) -> Refusals:
    """What these notes mean. A path that is relative lies in the project."""
    ground = Ground(
        app_root=str(project),
        home=str(project.parent / "home"),
        protected=(str(project / "tools" / "external.tools.jsonc"), str(project.parent / "state")),
        program=(str(project / "bin"),),
        private_tmp=True,
    )
    written = (note if isinstance(note, bytes) else os.fsencode(note) for note in notes)
    whole = (
        note[:1] + os.path.join(os.fsencode(project), note[1:]) if note[1:] else note for note in written
    )
    return refusals_in(b"".join(note + b"\0" for note in whole), ground)


def test_a_file_of_the_project_is_proposed_by_its_relative_path(project: Path) -> None:
    found = refused(project, "rdata.json", "rmissing.json", "r/etc/passwd", "r/usr/lib/os-release")
    assert [item.path for item in found.paths] == ["data.json"]
    assert (found.read, found.write, found.network) == (("data.json",), (), False)


def test_a_file_that_is_only_looked_for_counts_where_nothing_else_was_refused(project: Path) -> None:
    assert refused(project, "sdata.json").read == ("data.json",)
    assert refused(project, "sdata.json", "n").read == ()
    assert not refused(project, f"s{project.parent}/home/.ssh/id_rsa").explains_failure


def test_a_new_file_needs_its_folder_and_a_new_folder_itself(project: Path) -> None:
    (project / "out").mkdir()
    assert refused(project, "wout/new.txt").write == ("out",)
    assert refused(project, "dmade").write == ("made",)
    assert refused(project, "wdata.json", "rdata.json").write == ("data.json",)
    assert refused(project, "wdata.json", "rdata.json").read == ()
    assert refused(project, "wmissing/new.txt").paths == ()


def test_a_new_file_beside_the_registry_grants_no_whole_project(project: Path) -> None:
    found = refused(project, "wnew.txt")
    assert [item.path for item in found.paths] == ["new.txt"]
    assert not found.grantable


@pytest.mark.parametrize(
    "note",
    [
        "r.env",
        "r.env.local",
        "rdeploy/server.pem",
        "rdata/api-token.txt",
        "rtools/external.tools.jsonc",
        "wtools/external.tools.jsonc",
        "rstrange\nname",
        "rstrange\x1b[2Jname",
        b"rstrange\xff",
        "r${input.path}",
        "wbin/tool",
        "w.git/config",
        "rfolder-with-secrets",
        "rlink",
    ],
)
def test_what_is_never_proposed(project: Path, note: str | bytes) -> None:
    path = project / os.fsdecode(note[1:])
    if path.name == "link":
        path.symlink_to(project.parent / "home" / ".ssh" / "id_rsa")
    elif path.name == "folder-with-secrets":
        (path / "deep").mkdir(parents=True)
        (path / "deep" / ".env").touch()
    elif not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = refused(project, note)
    assert len(found.paths) == 1
    assert found.paths[0].why_not
    assert not found.grantable
    assert found.paths[0].path.encode()


def test_a_path_of_the_home_or_of_flytui_is_named_and_left_to_the_person(project: Path) -> None:
    home, state = project.parent / "home", project.parent / "state"
    (home / "notes.txt").touch()
    state.mkdir()
    (state / "trust.json").touch()
    for path in (
        home / "notes.txt",
        home / ".ssh" / "id_rsa",
        state / "trust.json",
        state,
        home,
        project.parent,
    ):
        found = refused(project, f"r{path}")
        assert [item.path for item in found.paths] == [str(path)]
        assert not found.grantable


def test_a_path_elsewhere_is_proposed_as_it_stands(project: Path) -> None:
    (project.parent / "elsewhere.csv").touch()
    assert refused(project, f"r{project.parent}/elsewhere.csv").read == (
        str(project.parent / "elsewhere.csv"),
    )


def test_many_files_of_a_folder_are_proposed_as_the_folder(project: Path) -> None:
    (project / "docs").mkdir()
    names = [f"docs/{number}.md" for number in range(9)]
    for name in names:
        (project / name).touch()
    assert refused(project, *(f"r{name}" for name in names[:3])).read == tuple(names[:3])
    assert refused(project, *(f"r{name}" for name in names)).read == ("docs",)
    (project / "docs" / "secret.key").touch()
    assert refused(project, *(f"r{name}" for name in names)).read == tuple(names[:MOST_PROPOSED])


def test_thousands_of_names_propose_few_and_none_that_is_secret(project: Path) -> None:
    notes = []
    for number in range(2_000):
        name = f"folder{number % 500}/{'.env' if number % 2 else 'data'}.{number}"
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).touch()
        notes.append(f"r{name}")
    found = refused(project, *notes, "m")
    assert len(found.read) == MOST_PROPOSED
    assert list(found.read) == sorted(found.read)
    assert not [path for path in found.read if ".env" in path]
    assert found.left_out


def test_what_was_written_to_its_own_tmp_was_not_refused(project: Path) -> None:
    assert refused(project, "w/tmp/file").paths == ()
    assert refused(project, "wdata.json").write == ("data.json",)


def test_what_is_granted_is_added_to_what_is_declared() -> None:
    found = Refusals(network=True, read=("data.json",), write=("out",))
    declared: JsonObject = {"secrets": ["A"], "fs": {"read": ["docs", "data.json"]}}
    assert with_granted(declared, found) == {
        "secrets": ["A"],
        "network": True,
        "fs": {"read": ["docs", "data.json"], "write": ["out"]},
    }
    assert declared == {"secrets": ["A"], "fs": {"read": ["docs", "data.json"]}}
    assert with_granted({}, Refusals(read=("x",))) == {"fs": {"read": ["x"]}}
