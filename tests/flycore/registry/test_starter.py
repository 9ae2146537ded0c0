"""The starter registry: chosen entries as a new file, and as an addition that changes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from flycore.catalog.builtin import KNOWN
from flycore.registry.edits import starter_text
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.load import load_registry
from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE, RootPaths, find_paths
from flycore.registry.starter import (
    add_pieces,
    find_language_server,
    plan_starter,
    registered,
    registry_of,
    starter_pieces,
    write_plan,
)

TWO = ("browser.cdp", "web.search")
COMMENTED = """\
// all of this is mine
{
  "schemaVersion": 2,
  "sidecars": {
    // the first
    "mine": {"command": "x", "tools": []} /* no comma */ // and why
    // a last word
  },
  "unrelated": [1, 2,], // kept
}
"""


def places_of(root: Path) -> RootPaths:
    return find_paths(str(root), None, {"HOME": str(root)}, root)


def ids(places: RootPaths) -> set[str]:
    return {entry.id for entry in load_registry(places, known=frozenset(KNOWN), environ={}).entries}


def test_all_entries_give_the_starter_text_and_some_give_a_registry_of_those(tmp_path: Path) -> None:
    pieces = starter_pieces(tmp_path, {})
    assert registry_of(pieces) == starter_text()
    for piece in pieces:
        value, problem = parse_jsonc(registry_of([piece]), "x")
        assert problem is None
        assert isinstance(value, dict)
        assert value["sidecars"] == {piece.id: piece.value}
        assert piece.text.lstrip().startswith("//")


def test_a_new_registry_is_written_once_with_the_chosen_entries(tmp_path: Path) -> None:
    places = places_of(tmp_path)
    edit = plan_starter(places, {}, TWO)
    assert (edit.plan.sidecars, edit.plan.difference, edit.plan.text) == (TWO, (), edit.after)
    assert write_plan(places, edit) == ""
    file = tmp_path / REGISTRY_FILE
    assert file.read_text() == edit.after
    assert ids(places) == set(TWO)
    assert (tmp_path / "tools" / "schemas" / "registry.schema.json").is_file()
    file.write_text("mine")
    assert "exists by now" in write_plan(places, edit)
    assert file.read_text() == "mine"
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert write_plan(places, edit) != ""
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", [REGISTRY_FILE, LEGACY_REGISTRY_FILE])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_entries_are_added_and_every_other_byte_stays(tmp_path: Path, name: str, newline: str) -> None:
    places, file = places_of(tmp_path), tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    before = b"\xef\xbb\xbf" + COMMENTED.replace("\n", newline).encode()
    file.write_bytes(before)
    edit = plan_starter(places, {}, TWO)
    assert (edit.plan.file, edit.plan.sidecars, edit.plan.text) == (name, TWO, "")
    taken = [line for line in edit.plan.difference if line.startswith("-") and not line.startswith("---")]
    assert taken == ['-    "mine": {"command": "x", "tools": []} /* no comma */ // and why']
    assert write_plan(places, edit) == ""
    after = file.read_bytes()
    head, rest = before.split(b" /* no comma */")
    assert after.startswith(head + b", /* no comma */" + rest[: rest.index(b"last word") + 9])
    assert after.endswith(rest[rest.index(b"last word") + 9 :])
    assert (b"\r\n" in after) is (newline == "\r\n")
    assert b"// A browser that runs already" in after
    assert ids(places) == {"mine", *TWO}
    again = plan_starter(places, {}, TWO)
    assert (again.plan.sidecars, again.plan.difference) == ((), ())


def test_a_change_in_between_is_never_written_over(tmp_path: Path) -> None:
    places, file = places_of(tmp_path), tmp_path / REGISTRY_FILE
    file.parent.mkdir()
    file.write_text(COMMENTED)
    edit = plan_starter(places, {}, TWO)
    file.write_text(COMMENTED + "// new\n")
    assert "cannot be written" in write_plan(places, edit)
    assert file.read_text() == COMMENTED + "// new\n"
    assert plan_starter(places, {}, TWO).plan.digest != edit.plan.digest


TWICE = '{"sidecars": {"a": {}, "a": {}}}'
NO_ENTRY = '{"sidecars": {"web.search": 1}}'


@pytest.mark.parametrize("text", ["{", "[]", '{"sidecars": []}', TWICE, NO_ENTRY])
def test_a_registry_that_cannot_be_edited_is_left_alone(tmp_path: Path, text: str) -> None:
    places, file = places_of(tmp_path), tmp_path / REGISTRY_FILE
    file.parent.mkdir()
    file.write_text(text)
    edit = plan_starter(places, {}, TWO)
    assert edit.plan.why_not
    assert write_plan(places, edit) == edit.plan.why_not
    assert file.read_text() == text


def test_a_registry_without_sidecars_gets_them(tmp_path: Path) -> None:
    pieces = [piece for piece in starter_pieces(tmp_path, {}) if piece.id in TWO]
    made = add_pieces('{"schemaVersion": 2}', pieces, "x")
    assert registered(made.text, "x") == set(TWO)


def test_nothing_is_written_through_a_folder_that_leads_out(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "tools").symlink_to(outside)
    places = places_of(root)
    assert write_plan(places, plan_starter(places, {}, TWO)) != ""
    assert list(outside.iterdir()) == []


def test_the_language_server_of_the_project_is_named(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path / "bin")}
    (tmp_path / "bin").mkdir()
    assert find_language_server(tmp_path, environ) == ()
    for name in ("pylsp", "typescript-language-server"):
        (tmp_path / "bin" / name).touch(0o755)
    assert find_language_server(tmp_path, environ) == ("pylsp",)
    (tmp_path / "package.json").touch()
    assert find_language_server(tmp_path, environ) == ("typescript-language-server", "--stdio")
    values = {piece.id: piece.value for piece in starter_pieces(tmp_path, environ)}
    lsp = {"command": "typescript-language-server", "args": ["--stdio"]}
    assert values["utility.code"]["delegates"] == {"lsp": lsp}
    assert parse_jsonc(registry_of(starter_pieces(tmp_path, environ)), "x")[1] is None
    assert find_language_server(tmp_path, {"PATH": "bin"}) == ()  # a folder of the project is no PATH
