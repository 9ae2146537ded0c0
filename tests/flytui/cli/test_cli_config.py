"""`flytui config`: what holds, from which line; and where everything lies."""

from __future__ import annotations

import jsonschema

from flycore.model.diagnostics import Severity
from flycore.registry.settings import ReadSettings, Settings, parse_settings
from flytui.cli.commands.schema import schema_of
from flytui.cli.settings_text import POINTERS, listed_settings
from kits.command_line import Desk
from kits.tables import each_row

WRITTEN = """{
  "approvals": {"timeoutMs": {"high": 60000}, "queueTotal": "many"},
  "risk": {"a/b": "high", "c.d": "huge"},
  "keys": {"app.trust": "f9", "app.panic": "x"},
  "theme": "no-such-theme",
  "colour": true
}"""


def test_every_setting_is_shown() -> None:
    assert POINTERS.keys() == set(Settings.__struct_fields__)
    names = [setting.name for setting in listed_settings(ReadSettings(Settings()))]
    assert len(set(names)) == len(names) >= len(POINTERS)
    assert all(setting.default for setting in listed_settings(ReadSettings(Settings())))


@each_row(("field", "pointer"), POINTERS.items())
def test_every_place_is_one_that_the_reader_knows(field: str, pointer: str) -> None:
    """Something nobody can mean stands there: it is refused at that very pointer, or below it."""
    text = "{" + "".join(f'"{part}": {{' for part in pointer.split("/")[1:-1])
    text += f'"{pointer.rpartition("/")[2]}": [7]' + "}" * pointer.count("/")
    problems = parse_settings(text, "x").problems
    assert [(found.severity, found.pointer) for found in problems] == [(Severity.ERROR, pointer)], field


def test_a_value_names_its_line_and_what_does_not_count_is_said() -> None:
    shown = {setting.name: setting for setting in listed_settings(parse_settings(WRITTEN, "config.jsonc"))}
    high, total = shown["approvals.timeoutMs.high"], shown["approvals.queueTotal"]
    assert (high.value, high.default, high.where) == (60_000, False, "config.jsonc:2:39")
    assert (total.value, total.default, total.where) == (20, True, "config.jsonc:2:61")
    assert "whole number" in total.problem
    assert (shown["risk.a/b"].value, "risk.c.d" in shown) == ("high", False)
    assert (shown["keys.app.trust"].value, shown["theme"].value) == ("f9", "no-such-theme")
    assert shown["quota.running"].default


def test_the_command_shows_them(desk: Desk) -> None:
    assert "does not exist" in desk.run("config", "show").stderr
    folder = desk.home / "config" / "flytui"
    folder.mkdir(parents=True)
    (folder / "config.jsonc").write_text(WRITTEN)
    done = desk.run("config", "show")
    assert done.returncode == 0
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert rows["approvals.timeoutMs.high"].split()[1:] == ["60000", f"{folder}/config.jsonc:2:39"]
    assert rows["quota.running"].split()[1:] == ["8", "default"]
    assert "default, not " in rows["approvals.queueTotal"]
    assert rows["keys.app.help"].split()[1:] == ['"?"', "default"]
    assert rows["keys.app.trust"].split()[1:] == ['"f9"', f"{folder}/config.jsonc:4:25"]
    assert "default, not " in rows["keys.app.panic"]
    assert "default, not " in rows["theme"]
    assert "colour is not a setting" in done.stderr
    for words, name in ((("config", "show"), "config"), (("config", "path"), "config-path")):
        document = desk.document(*words)
        jsonschema.validate(document, schema_of(name), jsonschema.Draft202012Validator)
        assert document["schema"] == f"flytui.{name}/1"
    places = {place["name"]: place for place in desk.document("config", "path")["places"]}
    assert places["settings"] == {
        "name": "settings",
        "path": str(folder / "config.jsonc"),
        "present": True,
    }
    assert (places["registry"]["present"], places["policy"]["present"]) == (True, False)
