"""Changes one setting in a person's `config.jsonc`. Everything else in the file, comments included, stays."""

from __future__ import annotations

from pathlib import Path

from flycore.model.diagnostics import Severity
from flycore.model.json import Json
from flycore.registry.jsonc.edit import edited, insert_last, set_members
from flycore.registry.jsonc.parse import read_jsonc
from flycore.registry.paths import SETTINGS_FILE
from flycore.registry.read_file import read_text
from flysafe.atomic import create_beneath, replace_beneath

_NEW_FILE = "{\n}\n"


def set_setting(config_dir: Path, name: str, value: Json) -> str:
    """Give the setting `name` at the top of the file that value, and make the file where there is none.
    Return why it was not written; `""` where it was. Raises nothing."""
    shown = str(config_dir / SETTINGS_FILE)
    text, before, problem = read_text(config_dir, SETTINGS_FILE, shown)
    if problem is not None:
        return problem.message
    new = _with_setting(text or _NEW_FILE, shown, name, value)
    if new is None:
        return f"{shown} cannot be changed without changing something else: correct it first"
    try:
        if text is None:
            config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_beneath(config_dir, SETTINGS_FILE, new.encode("utf-8"), 0o600)
        elif new != text:
            replace_beneath(config_dir, SETTINGS_FILE, before, new.encode("utf-8"))
    except OSError as error:
        return f"{shown} cannot be written: {error.strerror or error}"
    return ""


def _with_setting(text: str, shown: str, name: str, value: Json) -> str | None:
    """Return the text with that setting; None where it is no object, or no edit changes only that."""
    found, index, problems = read_jsonc(text, shown)
    if index is None or not isinstance(found, dict):
        return None
    if any(item.severity is Severity.ERROR for item in problems):
        return None
    there = name in found
    changes = set_members(index, "", {name: value}) if there else insert_last(index, "", value, key=name)
    return edited(text, changes, {**found, name: value})
