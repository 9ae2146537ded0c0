"""Whether Codex runs flytui's hook: it runs no hook before the person has looked at it there.

Codex keeps a digest of each hook that the person trusts in its own settings, under the place of the hook.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from flycore.discovery.agent_clients.edit import read_value
from flycore.discovery.agent_clients.table import Form
from flycore.model.json import Json, JsonObject
from flycore.registry.read_file import read_text

SETTINGS = "config.toml"
_OWN = re.compile(r"\bflytui\b.* hook codex\b")
_DEFAULT_SECONDS = 600
"""The time limit of a hook that names none."""


class _Hook(NamedTuple):
    """A hook of a file of settings."""

    keys: tuple[str, ...]
    """The names under which Codex may keep what the person decided: one for each spelling of the folder."""
    digest: str
    command: str


def why_codex_runs_no_hook(app_root: Path, home: Path, environ: Mapping[str, str]) -> str:
    """Return why Codex does not run the hook of flytui that its files name; empty where it does, and where
    no file names one."""
    own = Path(environ.get("CODEX_HOME") or home / ".codex")
    settings = _read(own)
    kept = _member(_member(settings, "hooks"), "state")
    for hook in (*_hooks(app_root / ".codex", _read(app_root / ".codex")), *_hooks(own, settings)):
        if not _OWN.search(hook.command):
            continue
        state = next((kept[key] for key in hook.keys if key in kept), None)
        state = state if isinstance(state, dict) else {}
        if state.get("enabled") is False:
            return "you have switched it off there"
        if "trusted_hash" not in state:
            return "you have not trusted it there"
        if state["trusted_hash"] != hook.digest:
            return "it has changed since you trusted it there"
    return ""


def _read(folder: Path) -> JsonObject:
    text, _, problem = read_text(folder, SETTINGS, SETTINGS)
    value = read_value(text or "", Form.TOML) if problem is None else None
    return value if value is not None else {}


def _member(value: Json, key: str) -> JsonObject:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _hooks(folder: Path, settings: JsonObject) -> Iterator[_Hook]:
    """Yield the commands that Codex would run before a tool."""
    files = (os.path.join(os.path.realpath(folder), SETTINGS), os.path.join(folder, SETTINGS))
    for at, group in enumerate(_items(_member(settings, "hooks"), "PreToolUse")):
        for number, handler in enumerate(_items(group, "hooks")):
            command = handler.get("command")
            if isinstance(command, str):
                keys = tuple(f"{file}:pre_tool_use:{at}:{number}" for file in files)
                yield _Hook(keys, _digest(group, handler), command)


def _items(value: JsonObject, key: str) -> list[JsonObject]:
    found = value.get(key)
    return [item if isinstance(item, dict) else {} for item in found] if isinstance(found, list) else []


def _digest(group: JsonObject, handler: JsonObject) -> str:
    """Return what Codex keeps of a hook: a digest of all that says when and what it runs."""
    whole = {"timeout": _DEFAULT_SECONDS, "async": False, **handler}
    matcher = {"matcher": group["matcher"]} if "matcher" in group else {}
    hook = {"event_name": "pre_tool_use", **matcher, "hooks": [whole]}
    text = json.dumps(hook, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
