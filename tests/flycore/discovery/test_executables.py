"""Which files below a folder of tools become entries, and what is said of the others."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from flycore.discovery import executables, tool_folders
from flycore.discovery.executables import executable_key, file_sha256, read_executables, watched_executables
from flycore.model.sidecar import SidecarEntry
from flycore.registry.paths import RootPaths, find_paths

SCRIPT = "#!/bin/sh\necho '{}'\n"


@pytest.fixture(autouse=True)
def no_system_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the machine's own, which other programs may fill."""
    folder = tmp_path / "system"
    monkeypatch.setattr(tool_folders, "SYSTEM_TOOLS", folder)
    return folder


class Place:
    """An app root with a home folder."""

    def __init__(self, base: Path) -> None:
        self.home, self.root = base / "home", base / "root"
        self.environ = {"HOME": str(self.home)}
        self.root.mkdir()
        self.home.mkdir()

    @property
    def places(self) -> RootPaths:
        return find_paths(str(self.root), None, self.environ, self.root)

    def put(self, path: str, text: str = SCRIPT, mode: int = 0o755) -> Path:
        file = (self.home if path.startswith("~") else self.root) / path.removeprefix("~/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def config(self, file: str = "tools/config.jsonc", **said: object) -> None:
        self.put(file, json.dumps({"externalTools": said}), 0o644)

    def read(self, run: frozenset[str] = frozenset()) -> dict[str, SidecarEntry]:
        entries, _ = read_executables(self.places, self.environ, run, lambda name: name == "web.fetch")
        return {entry.id: entry for entry in entries}

    def notes(self) -> str:
        _, found = read_executables(self.places, self.environ, frozenset(), lambda name: False)
        return "\n".join(f"{item.position.file if item.position else ''} {item.message}" for item in found)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_regular_executables_below_the_folder_become_entries(place: Place) -> None:
    place.put("tools/bin/echo")
    place.put("tools/bin/deep/er/say.py")
    place.put("tools/bin/.hidden")
    place.put("tools/bin/.folder/inside")
    place.put("tools/bin/node_modules/package")
    place.put("tools/bin/notes.txt", "text", 0o644)
    found = place.read()
    assert set(found) == {"project.echo", "project.deep.er.say"}
    say = found["project.deep.er.say"]
    assert (say.command, say.tool_names, say.position.file) == (
        "./deep/er/say.py",
        ("say",),
        "tools/bin/deep/er/say.py",
    )
    assert say.permissions == SidecarEntry(id="x", source=say.source, position=say.position).permissions


def test_links_that_leave_the_folder_and_links_to_folders_are_skipped(place: Place) -> None:
    place.put("elsewhere/tool")
    inside = place.put("tools/bin/real")
    (place.root / "tools/bin/out").symlink_to(place.root / "elsewhere/tool")
    (place.root / "tools/bin/up").symlink_to("../../elsewhere/tool")
    (place.root / "tools/bin/folder").symlink_to(place.root / "elsewhere")
    (place.root / "tools/bin/loop").symlink_to(".")
    (place.root / "tools/bin/dead").symlink_to("nowhere")
    found = place.read()
    assert set(found) == {"project.real"}
    assert found["project.real"].file == str(inside)
    assert "tools/bin/out is a link that leads out of its folder" in place.notes()
    os.mkfifo(place.root / "tools/bin/pipe", 0o755)
    assert set(place.read()) == {"project.real"}


def test_names_that_no_tool_can_have_and_scripts_that_are_not_executable_are_noted(place: Place) -> None:
    place.put("tools/bin/two words")
    place.put("tools/bin/" + "y" * 65)
    place.put("tools/bin/forgotten.sh", mode=0o644)
    place.put("tools/bin/web.fetch.sh")
    found = place.read()
    assert set(found) == {"project.web.fetch"}
    assert found["project.web.fetch"].tools == (), "a name that is kept offers nothing before its schema does"
    notes = place.notes()
    assert "two words has a name that no tool can have" in notes
    assert "forgotten.sh is a script that is not executable" in notes


def test_later_folders_come_first_and_a_file_found_twice_counts_once(place: Place) -> None:
    place.put("~/.local/share/flytui/tools/a")
    place.put("tools/bin/a")
    place.put("more/a")
    place.put("~/.ybs/tools/a")
    place.put("~/.gibson/tools/bin/a")
    place.put(".ybs/tools/a")
    place.config(searchPaths=["more", "tools/bin/../../more"], defaultTimeoutMs=1234)
    found = list(place.read().values())
    labels = [entry.id.rpartition(".")[0] for entry in found]
    assert labels[0].startswith("tools-")
    assert labels[1:] == ["project", "ybs-project", "ybs", "gibson", "user"]
    assert [entry.timeout_ms for entry in found] == [1234, 1234, 30_000, 30_000, 30_000, 1234]
    assert [entry.in_user_folder for entry in found] == [False] * 5 + [True]
    assert [bool(entry.sha256) for entry in found] == [True] * 5 + [False]


def test_the_machine_s_folder_waits_for_trust_like_every_other(place: Place, no_system_folder: Path) -> None:
    no_system_folder.mkdir()
    (no_system_folder / "tool").write_text(SCRIPT)
    (no_system_folder / "tool").chmod(0o755)
    entry = place.read()["system.tool"]
    assert not entry.users_own
    assert entry.sha256


def test_a_user_s_folder_that_others_can_write_is_not_trusted(place: Place) -> None:
    file = place.put("~/.local/share/flytui/tools/a")
    assert place.read()["user.a"].users_own
    file.parent.chmod(0o777)
    assert not place.read()["user.a"].users_own


def test_folders_that_other_systems_name_are_searched(place: Place) -> None:
    place.put("one/a")
    place.put("~/two/b")
    place.config(".ybs.json", searchPaths=["./one", "~/two"], defaultTimeout=2.5)
    place.put("BUILD_CONFIG.json", "not json at all", 0o644)
    found = place.read()
    assert sorted(entry.tool_names[0] for entry in found.values()) == ["a", "b"]
    assert {entry.timeout_ms for entry in found.values()} == {2_500}
    place.config(".ybs.json", searchPaths=["./one"], enabled=False)
    assert place.read() == {}


def test_switched_off_nothing_is_found(place: Place) -> None:
    place.put("tools/bin/a")
    place.config(enabled=False)
    assert place.read() == {}
    place.config(enabled="no")
    assert place.read() == {}, "a value that is not understood is read as the stricter one"
    assert "must be true or false" in place.notes()


def test_mistakes_in_the_config_are_said_with_their_place(place: Place) -> None:
    place.config(searchPaths="tools", defaultTimeoutMs=-1)
    notes = place.notes()
    assert "must be a list of folders" in notes
    assert "must be a number" in notes
    place.config(searchPaths=["missing"])
    assert "names missing, which is not there" in place.notes()


def test_in_a_folder_with_a_registry_only_files_right_in_it_are_looked_at(place: Place) -> None:
    place.put("tools/external.tools.jsonc", '{"schemaVersion": 2}', 0o644)
    place.put("tools/direct")
    run = place.put("tools/run-by-registry")
    place.put("tools/below/tool")
    place.put("tools/packages/p/bin/payload")
    place.config(searchPaths=["tools"])
    found = place.read(frozenset({str(run)}))
    assert [entry.tool_names[0] for entry in found.values()] == ["direct"]
    (place.root / "tools/external.tools.jsonc").unlink()
    names = {entry.tool_names[0] for entry in place.read().values()}
    assert names == {"direct", "run-by-registry", "tool"}, "payloads of packages are never scanned"


def test_trust_is_in_the_bytes_of_a_project_s_file_and_the_key_is_in_its_identity(place: Place) -> None:
    file = place.put("tools/bin/a")
    first, key = place.read()["project.a"], executable_key(str(file))
    assert first.sha256 == file_sha256(str(file))
    os.utime(file, ns=(1, 1))
    assert place.read()["project.a"].digest == first.digest
    assert executable_key(str(file)) != key
    status = file.stat()
    place.put("tools/bin/a", SCRIPT.replace("{}", "[]"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert place.read()["project.a"].digest != first.digest


@pytest.mark.parametrize(("limit", "found"), [("MOST_FILES", 3), ("MOST_LOOKED", 2), ("MOST_BYTES", 3)])
def test_more_than_is_looked_at_is_said_so_and_the_user_s_own_have_their_share(
    place: Place, monkeypatch: pytest.MonkeyPatch, limit: str, found: int
) -> None:
    most = 3 * len(SCRIPT) if limit == "MOST_BYTES" else 3
    monkeypatch.setattr(executables, limit, most)
    place.put("~/.local/share/flytui/tools/mine")
    for number in range(5):
        place.put(f"tools/bin/t{number}")
    read = place.read()
    assert len(read) == found
    assert "user.mine" in read
    assert "holds more files than are looked at" in place.notes()


@pytest.mark.parametrize(
    ("program", "component"),
    [
        ("~/.gibson/tools/bin/nmap", "~/.gibson/tools/nmap/component.yaml"),
        ("tools/bin/nmap", "tools/nmap/component.yml"),
        (".ybs/tools/nmap/nmap", ".ybs/tools/nmap/component.yaml"),
    ],
)
def test_a_component_file_gives_the_time_limit_of_its_executable(
    place: Place, program: str, component: str
) -> None:
    def limits() -> list[int]:
        return [entry.timeout_ms for entry in place.read().values()]

    place.put(program)
    assert limits() == [30_000]
    for text, limit in (
        ("runtime: {type: go, entrypoint: ./nmap, timeout: 5m}\n", 300_000),
        ("timeout: 30s\nruntime: {timeout: 1m30s}\n", 90_000),
        ("timeout: 45s\n", 45_000),
        ("timeout: soon\n", 30_000),
        ("timeout: [", 30_000),
        ("- timeout\n", 30_000),
    ):
        before = watched_executables(place.places, place.environ)
        place.put(component, text, 0o644)
        assert watched_executables(place.places, place.environ) != before
        assert limits() == [limit], text
    (entry,) = place.read().values()
    place.put(component, "timeout: 5m\n", 0o644)
    (changed,) = place.read().values()
    assert changed.digest != entry.digest, "what a person has trusted says how long a call may take"


def test_the_watch_sees_each_change(place: Place) -> None:
    def stamps() -> dict[Path, object]:
        return dict(watched_executables(place.places, place.environ))

    seen = [stamps()]
    place.put("tools/bin/a")
    seen.append(stamps())
    place.put("tools/bin/a", SCRIPT + "# more\n")
    seen.append(stamps())
    place.put("tools/bin/sub/b")
    seen.append(stamps())
    place.config(searchPaths=["more"])
    seen.append(stamps())
    place.put("more/c")
    seen.append(stamps())
    assert all(before != after for before, after in pairwise(seen))
    assert stamps() == seen[-1]
