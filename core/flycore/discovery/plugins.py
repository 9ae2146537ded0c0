"""Finds plugins of Claude Code: folders with `.claude-plugin/plugin.json`, and installed plugins.

The record `~/.claude/plugins/installed_plugins.json` (version 2) names each installed plugin as
`plugin@marketplace`, with the folder that it was copied to. Only manifests below `~/.claude/plugins` are
opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flycore.discovery.diagnostics import (
    MOST_NAME,
    MOST_SUMMARY,
    MOST_VERSION,
    DiagnosticList,
    parsed,
    shorten,
)
from flycore.discovery.search_folder import FileText, SearchFolder
from flycore.model.described import Described, DescribedState, Origin, SourceKind
from flycore.model.diagnostics import Diagnostic

MANIFEST = ".claude-plugin/plugin.json"
PROJECT_FOLDER = "plugins"
RECORD = ".claude/plugins/installed_plugins.json"
INSTALLED = ".claude/plugins"
MOST_MANIFEST = 64 * 1024
MOST_PLUGINS = 256
PARTS = ("skills", "commands", "agents", "hooks", "mcpServers", "lspServers", "outputStyles")
"""Keys of a manifest for the parts of a plugin."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def read_project_plugins(anchor: SearchFolder) -> Iterator[Described]:
    """Yield the project itself where it is a plugin, and the plugins in its folder `plugins`."""
    for folder in ("", *(f"{PROJECT_FOLDER}/{name}/" for name in anchor.folders(PROJECT_FOLDER).names)):
        relative = f"{folder}{MANIFEST}"
        read = anchor.whole(relative, MOST_MANIFEST)
        if not read.absent:
            yield plugin(folder.strip("/").rpartition("/")[2], anchor.shown(relative), read, anchor.origin)


def read_installed_plugins(home: SearchFolder, app_root: Path) -> Iterator[Described]:
    """Yield the plugins that the person installed for all projects, or for this one."""
    read = home.whole(RECORD)
    if read.absent:
        return
    shown = home.shown(RECORD)
    value, _, problems = parsed(read.text or "", shown, others=True)
    plugins = value.get("plugins") if isinstance(value, dict) else None
    if read.problem is not None or not isinstance(plugins, dict):
        yield _described("", shown, home.origin, {}, [read.problem] if read.problem else list(problems[:1]))
        return
    for key, installations in list(plugins.items())[:MOST_PLUGINS]:
        installation = _for_root(installations, app_root)
        if installation is not None:
            yield _installed(home, key, installation)


def plugin(folder: str, shown: str, read: FileText, origin: Origin, known_as: str = "") -> Described:
    """One plugin as its manifest says; `known_as` is its id where something else names it."""
    if read.problem is not None:
        return _described(known_as or folder, shown, origin, {}, [read.problem])
    value, file, problems = parsed(read.text or "", shown, others=True)
    faults = DiagnosticList(file)
    faults.found.extend(problems)
    raw: dict[str, Any] = value if isinstance(value, dict) else {}
    name = raw.get("name")
    if not problems:
        if not isinstance(value, dict):
            faults.add("", "schema", "must be an object", 'write {"name": "…"}')
        elif not isinstance(name, str) or _NAME.fullmatch(name) is None:
            faults.add("/name", "plugin-name", "name must be 1 to 64 of a-z 0-9 . _ -", 'write "name": "…"')
    return _described(known_as or _text(raw, "name") or folder, shown, origin, raw, faults.found)


def _installed(home: SearchFolder, key: str, installation: dict[str, Any]) -> Described:
    folder = _text(installation, "installPath")
    below = f"{home.path / INSTALLED}/"
    relative = folder.removeprefix(below) if folder.startswith(below) else ""
    manifest = f"{relative}/{MANIFEST}"
    plugins = SearchFolder(home.path / INSTALLED, home.origin, home.shown(f"{INSTALLED}/"))
    read = plugins.whole(manifest, MOST_MANIFEST) if relative else FileText()
    if read.absent:  # the manifest is optional; without it only the record describes the plugin
        raw = {"name": key.partition("@")[0], "version": installation.get("version")}
        return _described(key, home.shown(RECORD), home.origin, raw, [])
    return plugin("", plugins.shown(manifest), read, home.origin, known_as=key)


def _for_root(installations: object, app_root: Path) -> dict[str, Any] | None:
    """Return the installation that Claude Code uses here: one for this project, else one for all."""
    listed = installations if isinstance(installations, list) else []
    items = [item for item in listed[:MOST_PLUGINS] if isinstance(item, dict)]
    own = [item for item in items if item.get("projectPath") == str(app_root)]
    everywhere = [item for item in items if item.get("scope") == "user" and "projectPath" not in item]
    return next(iter((*own, *everywhere)), None)


def _described(
    known_as: str, shown: str, origin: Origin, raw: dict[str, Any], problems: list[Diagnostic]
) -> Described:
    broken = any(problem.severity == "error" for problem in problems)
    brings = [part for part in PARTS if raw.get(part)]
    return Described(
        kind=SourceKind.PLUGIN,
        id=shorten(known_as or shown, MOST_NAME),
        name=shorten(_text(raw, "name") or known_as or shown, MOST_NAME),
        source=origin,
        path=shown,
        version=shorten(_text(raw, "version"), MOST_VERSION),
        summary=shorten(" ".join(_text(raw, "description").split()), MOST_SUMMARY),
        lines=(f"brings {', '.join(brings)}",) if brings else (),
        state=DescribedState.FAULTY if broken else DescribedState.LISTED,
        reasons=tuple(problems),
    )


def _text(raw: dict[str, Any], key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""
