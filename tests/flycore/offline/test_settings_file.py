"""One setting is written into `config.jsonc`, and nothing else in it changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flycore.offline.settings_file import set_setting
from flycore.registry.settings import read_settings


def test_a_setting_is_added_and_changed_and_comments_stay(tmp_path: Path) -> None:
    file = tmp_path / "config.jsonc"
    file.write_text('{ // mine\n  "keys": {"app.trust": "f9"}, // my key\n}\n')
    os.chmod(file, 0o640)
    assert set_setting(tmp_path, "theme", "nord") == ""
    assert set_setting(tmp_path, "theme", "flytui-light") == ""
    text = file.read_text()
    assert "{ // mine\n" in text
    assert "// my key" in text
    assert text.count("theme") == 1
    assert "nord" not in text
    read = read_settings(tmp_path)
    assert (read.settings.theme, read.settings.keys, read.problems) == (
        "flytui-light",
        {"app.trust": "f9"},
        (),
    )
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "flytui"
    assert set_setting(folder, "theme", "nord") == ""
    assert read_settings(folder).settings.theme == "nord"
    assert (folder / "config.jsonc").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["[]", '{"theme": ', "\ufeff{,}", '"theme"'])
def test_a_file_that_cannot_be_read_is_left_as_it_is(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.jsonc"
    file.write_text(text)
    assert "config.jsonc" in set_setting(tmp_path, "theme", "nord")
    assert file.read_text() == text


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "config", tmp_path / "outside.jsonc"
    folder.mkdir()
    outside.write_text("{}")
    (folder / "config.jsonc").symlink_to(outside)
    assert "link" in set_setting(folder, "theme", "nord")
    assert outside.read_text() == "{}"
