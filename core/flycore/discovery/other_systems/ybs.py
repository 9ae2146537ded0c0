"""YBS: `.ybs.json`, `BUILD_CONFIG.json`, and its folders of executables that describe themselves.

Two generations of its configuration are read: `externalTools` with `searchPaths`, `defaultTimeout` and
`enabled`, and `tools` with `search_paths` and `external`.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flycore.discovery.diagnostics import parsed, shorten
from flycore.discovery.other_systems.model import (
    FoundFile,
    Migration,
    OtherSystem,
    Places,
    executable_entry,
    project_path,
    secret_findings,
    usable_text,
)
from flycore.discovery.server_import import entry_id
from flycore.model.diagnostics import Diagnostic
from flycore.model.durations import duration_ms
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.model.migration import Verdict
from flycore.registry.paths import REGISTRY_FILE, TOOLS_CONFIG_FILE

if TYPE_CHECKING:
    from flycore.discovery.scan import SearchRoots

PROJECT_FILES = (".ybs.json", ".ybs/config.json", "BUILD_CONFIG.json")
HOME_FILES = (".ybs.json", ".ybs/config.json", ".config/ybs/config.json")
SEARCHED = ("~/.ybs/tools", "~/.config/ybs/tools", ".ybs/tools")
"""Folders of YBS that flytui searches without configuration."""
TOO_WIDE = ("/", "~", ".")
MOST_PATHS = 64
_EXAMPLE = 'write "searchPaths": ["~/.ybs/tools", "./tools"]'
_TIMES = ("defaultTimeout", "defaultTimeoutMs")
_SECTIONS = {
    "llm": "flytui runs no model",
    "context": "flytui keeps no conversation",
    "agent": "flytui runs no agent",
    "git": "commits are the agent's own",
    "ui": "flytui has settings of its own: flytui config show lists them",
    "safety": "write rules into your policy.jsonc: deny and ask are decided there, and each tool is confined "
    "to the permissions of its entry",
}


def files(roots: SearchRoots) -> Iterator[FoundFile]:
    """Yield the configuration files of the project and of the person."""
    yield from (FoundFile(roots.project, file) for file in PROJECT_FILES)
    if roots.home is not None:
        yield from (FoundFile(roots.home, file) for file in HOME_FILES)


def read(text: str, shown: str) -> Places:
    """Return the file with its places, and the problems of its syntax."""
    value, source, problems = parsed(text, shown, others=True)
    file = Places(shown, value if isinstance(value, dict) else {}, source.nearest_position)
    file.found.extend(problems)
    if not problems and not isinstance(value, dict):
        file.add("", "config-value", "the file must be an object", 'write {"externalTools": {}}')
    return file


def check(text: str, shown: str) -> list[Diagnostic]:
    """Return the findings of a configuration file."""
    file = read(text, shown)
    if file.found:
        return file.found
    for pointer, holder in _holders(file):
        _check_paths(file, pointer, holder)
        for key in _TIMES:
            if key in holder and _limit_ms(key, holder[key]) is None:
                remedy = f'write "{key}": {"30000" if key.endswith("Ms") else "30.0"}'
                file.add(f"{pointer}/{key}", "duration", f"{key} must be a time of at most 24 hours", remedy)
        if not isinstance(holder.get("enabled", True), bool):
            file.add(
                f"{pointer}/enabled", "config-value", "enabled must be true or false", 'write "enabled": true'
            )
    for at, tool in enumerate(_external(file)):
        if not isinstance(tool, dict) or not all(isinstance(tool.get(key), str) for key in ("name", "path")):
            remedy = 'write {"name": "…", "type": "executable", "path": "…"}'
            file.add(f"/tools/external/{at}", "config-value", "a tool needs a name and a path", remedy)
    secret_findings(file)
    return file.found


def _limit_ms(key: str, value: Json) -> int | None:
    """Return the milliseconds of `defaultTimeout` (seconds) or `defaultTimeoutMs`; None for no duration."""
    if key.endswith("Ms") and isinstance(value, int | float) and not isinstance(value, bool):
        return duration_ms(value / 1_000)
    return duration_ms(value)


def _holders(file: Places) -> Iterator[tuple[str, JsonObject]]:
    """Yield the objects that may name folders and times, each with its pointer. Others are reported."""
    value = file.value if isinstance(file.value, dict) else {}
    for key in ("externalTools", "tools"):
        holder = value.get(key, {})
        if isinstance(holder, dict):
            yield pointer_join("", key), holder
        else:
            file.add(
                pointer_join("", key), "config-value", f"{key} must be an object", f'write "{key}": {{}}'
            )


def _paths_of(pointer: str, holder: JsonObject) -> tuple[str, Json]:
    key = "search_paths" if pointer == "/tools" else "searchPaths"
    return f"{pointer}/{key}", holder.get(key, [])


def _check_paths(file: Places, pointer: str, holder: JsonObject) -> None:
    below, paths = _paths_of(pointer, holder)
    if not isinstance(paths, list) or len(paths) > MOST_PATHS:
        file.add(below, "config-value", f"the folders must be a list of at most {MOST_PATHS} texts", _EXAMPLE)
        return
    seen: set[str] = set()
    for at, path in enumerate(paths):
        if not isinstance(path, str) or not path.strip() or not path.isprintable():
            file.add(f"{below}/{at}", "config-value", "a folder must be a printable text", _EXAMPLE)
        elif ".." in path.split("/"):
            remedy = "name the folder from the project, from ~/ or from /"
            file.warn(f"{below}/{at}", "search-path", "the folder leads out of the project", remedy)
        elif posixpath.normpath(path) in seen:
            file.warn(f"{below}/{at}", "search-path", "the folder is named twice", "keep one of the two")
        if isinstance(path, str):
            seen.add(posixpath.normpath(path))


def _external(file: Places) -> list[Json]:
    tools = file.value.get("tools") if isinstance(file.value, dict) else None
    listed = tools.get("external") if isinstance(tools, dict) else None
    return listed[:MOST_PATHS] if isinstance(listed, list) else []


def migrate(roots: SearchRoots, into: Migration) -> None:
    """Add what the configuration files name, and the folders that are searched anyway."""
    for found in files(roots):
        text = usable_text(found, check, into)
        if text is not None:
            _migrate_file(read(text, found.shown), into)
    for folder in SEARCHED:
        where = roots.home if folder.startswith("~/") else roots.project
        if where is not None and (where.path / folder.removeprefix("~/")).is_dir():
            into.as_is(folder, folder, "searched without configuration; what is found there waits for trust")


def _migrate_file(file: Places, into: Migration) -> None:
    value = file.value if isinstance(file.value, dict) else {}
    for pointer, holder in _holders(file):
        below, paths = _paths_of(pointer, holder)
        for at, path in enumerate(paths if isinstance(paths, list) else ()):
            _migrate_path(str(path), file.at(f"{below}/{at}"), into)
        _migrate_limits(holder, pointer, file, into)
    for at, tool in enumerate(_external(file)):
        if isinstance(tool, dict):
            _migrate_tool(tool, file.at(f"/tools/external/{at}"), into)
    for key in value:
        if key in _SECTIONS:
            into.cannot(file.at(pointer_join("", key)), key, _SECTIONS[key])
    if isinstance(tools := value.get("tools"), dict) and "builtin" in tools:
        into.cannot(
            file.at("/tools/builtin"), "tools.builtin", "flytui's own tools have entries of their own"
        )


def _migrate_path(path: str, source: str, into: Migration) -> None:
    kept = searched_path(path, into)
    if kept is None:
        into.cannot(source, shorten(path, 200), "it leads out of the project: name it from ~/ or from /")
    elif kept in TOO_WIDE:
        into.cannot(source, path, "too wide to be searched: name the folder in it that holds the tools")
    elif kept in SEARCHED:
        into.as_is(source, kept, "searched without configuration")
    else:
        verdict = Verdict.TAKEN if kept == path else Verdict.REWRITTEN
        text = "" if kept == path else f"written as {kept}"
        line = into.line(verdict, source, shorten(path, 200), text, TOOLS_CONFIG_FILE)
        into.search_paths.append((kept, line))


def searched_path(path: str, into: Migration) -> str | None:
    """Return the folder as `tools/config.jsonc` writes it; None where it leads out of the project."""
    below = project_path(path, into.app_root)
    if below is not None:
        return below if below.startswith(".") else f"./{below}"
    if not path.isprintable() or ".." in path.split("/"):
        return None
    home = f"{into.home}/" if into.home is not None else "\0"
    if path.startswith(home):
        return f"~/{posixpath.normpath(path.removeprefix(home))}"
    return posixpath.normpath(path) if path.startswith(("~/", "/")) else None


def _migrate_limits(holder: JsonObject, pointer: str, file: Places, into: Migration) -> None:
    for key in _TIMES:
        if key in holder and pointer == "/externalTools":
            exact, milliseconds = key.endswith("Ms"), _limit_ms(key, holder[key])
            line = into.line(
                Verdict.TAKEN if exact else Verdict.REWRITTEN,
                file.at(f"{pointer}/{key}"),
                f"externalTools.{key}",
                "" if exact else f"written as defaultTimeoutMs {milliseconds}",
                TOOLS_CONFIG_FILE,
            )
            into.settings.append(("/externalTools/defaultTimeoutMs", milliseconds, line))
            break
    if pointer == "/externalTools" and "enabled" in holder:
        line = into.line(
            Verdict.TAKEN, file.at(f"{pointer}/enabled"), "externalTools.enabled", "", TOOLS_CONFIG_FILE
        )
        into.settings.append(("/externalTools/enabled", holder["enabled"], line))


def _migrate_tool(tool: JsonObject, source: str, into: Migration) -> None:
    name, path = str(tool.get("name", "")), str(tool.get("path", ""))
    subject = shorten(name, 80)
    below = project_path(path, into.app_root)
    folder = searched_path(os.path.dirname(path), into)
    if tool.get("type", "executable") != "executable":
        into.cannot(source, subject, "it is not of the type executable")
        return
    if folder in SEARCHED:
        if tool.get("enabled") is False:
            into.cannot(
                source,
                subject,
                f"{folder} is searched: once it is listed, do not trust it, or remove the file",
            )
        else:
            into.as_is(source, subject, f"found in {folder}, which is searched without configuration")
        return
    sidecar = entry_id(name)
    if below is None or not sidecar:
        why = "its program is outside the project: put its folder into searchPaths, or the program into tools"
        into.cannot(
            source, subject, why if sidecar else "its name has no letter or digit that an id may have"
        )
        return
    entry = executable_entry(sidecar, f"./{below}", "")
    if tool.get("enabled") is False:
        entry |= {"enabled": False, "disabledReason": "switched off in YBS"}
    text = "an entry without permissions: no network and no files; flytui sandbox learn says what it lacks"
    into.entries.append((sidecar, entry, into.line(Verdict.REWRITTEN, source, subject, text, REGISTRY_FILE)))


YBS = OtherSystem("ybs", "YBS", (".ybs.json", ".ybs/config.json", "BUILD_CONFIG.json"), files, check, migrate)
