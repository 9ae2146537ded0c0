"""The folders in which executables are tools, in the order in which they win: those of the machine and the
user, those of other systems that people come from, and those of the project.

A project's file can name any folder. That makes nothing in it run: what is found there waits for trust.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from flycore.discovery.diagnostics import DiagnosticList, parsed
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.durations import LONGEST_MS, duration_ms
from flycore.model.json import Json
from flycore.model.sidecar import DEFAULT_TIMEOUT_MS
from flycore.registry.created_tools import limit_faults
from flycore.registry.paths import PROJECT_TOOLS, SYSTEM_TOOLS, TOOLS_CONFIG_FILE, RootPaths
from flycore.registry.read_file import read_text
from flycore.registry.source_text import SourceText

MEMBER = "externalTools"
MOST_SEARCH_PATHS = 64
OTHER_CONFIGS = (".ybs.json", ".ybs/config.json", "BUILD_CONFIG.json", "BUILD_CONFIG")
"""Files of another system, below the app root, that name folders with executables of the same kind."""
OTHER_HOME_FOLDERS = (
    (".gibson/tools/bin", "gibson"),
    (".config/ybs/tools", "ybs-config"),
    (".ybs/tools", "ybs"),
)
OTHER_PROJECT_FOLDERS = ((".ybs/tools", "ybs-project"),)
_LABEL_DIGITS = 6
_REMEDY = f'write for example "{MEMBER}": {{"searchPaths": ["tools/more"], "defaultTimeoutMs": 30000}}'


class ToolFolder(NamedTuple):
    """One folder with executables."""

    path: Path
    label: str
    """The beginning of the ids of what is found in it."""
    in_user_folder: bool = False
    """Whether it is the user's own, so that what lies in it is trusted."""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    """The time limit of a call, where the tool names none itself."""


class ToolFolders(NamedTuple):
    """The folders to search, the last of which wins, and what is wrong with the files that name them."""

    folders: tuple[ToolFolder, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class _ExternalTools(NamedTuple):
    """What a file says in `externalTools`."""

    file: str
    paths: tuple[str, ...] = ()
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    enabled: bool = True


def find_tool_folders(places: RootPaths, environ: Mapping[str, str]) -> ToolFolders:
    """Return the folders of one root, whether they exist or not. Raises nothing for the contents of a file.

    Of a folder that is named twice, the last place counts.
    """
    found: list[Diagnostic] = []
    own = _read_external(places.app_root, TOOLS_CONFIG_FILE, found)
    if not own.enabled:
        return ToolFolders((), tuple(found))
    home, users = environ.get("HOME", ""), places.user_tools_dir
    homes = OTHER_HOME_FOLDERS if os.path.isabs(home) else ()
    folders = [
        ToolFolder(SYSTEM_TOOLS, "system", timeout_ms=own.timeout_ms),
        ToolFolder(users, "user", _only_the_user_writes(users), own.timeout_ms),
        *(ToolFolder(Path(home) / path, label) for path, label in homes),
        *(ToolFolder(places.app_root / path, label) for path, label in OTHER_PROJECT_FOLDERS),
    ]
    for file in OTHER_CONFIGS:
        other = _read_external(places.app_root, file, found)
        folders += _named_folders(other, places, home, found) if other.enabled else ()
    folders.append(ToolFolder(places.app_root / PROJECT_TOOLS, "project", timeout_ms=own.timeout_ms))
    folders += _named_folders(own, places, home, found)
    return ToolFolders(tuple(_last_of_each(folders)), tuple(found))


def tool_folder_files(places: RootPaths) -> tuple[Path, ...]:
    """Return the files that may name further folders."""
    return tuple(places.app_root / file for file in (TOOLS_CONFIG_FILE, *OTHER_CONFIGS))


def check_tools_config(text: str, shown: str) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a file of the form of `tools/config.jsonc`."""
    value, source, problems = parsed(text, shown)
    notes = DiagnosticList(source)
    if not problems and not isinstance(value, dict):
        notes.add("", "config-value", "the file must be an object", _REMEDY)
    members = value if isinstance(value, dict) else {}
    external = _read_member(members, shown, source)[1]
    security = members.get("security", {})
    if not isinstance(security, dict):
        remedy = 'write "security": {"max_permissions": {}}'
        notes.add("/security", "config-value", "security must be an object", remedy)
    elif "max_permissions" in security:
        for below, message, remedy in limit_faults(security["max_permissions"]):
            notes.add(f"/security/max_permissions{below}", "config-value", message, remedy)
    return (*problems, *external, *notes.found)


def _read_external(root: Path, file: str, found: list[Diagnostic]) -> _ExternalTools:
    """Return what the file says of executables, and add what is wrong with it to `found`."""
    nothing = _ExternalTools(file)
    text, _, problem = read_text(root, file, file)
    others = file != TOOLS_CONFIG_FILE
    if text is None:
        found += [problem] if problem is not None else []
        return nothing
    value, source, problems = parsed(text, file, others=others)
    # A mistake in another system's file is a note here: that system says what it means.
    found += (_as_note(item) for item in problems) if others else problems
    result, notes = _read_member(value if isinstance(value, dict) else {}, file, source)
    found += (_as_note(item) for item in notes) if others else notes
    return result


def _read_member(
    members: Mapping[str, Json], file: str, source: SourceText
) -> tuple[_ExternalTools, list[Diagnostic]]:
    """Return what the members of a file say of executables, and what is wrong with that."""
    external = members.get(MEMBER)
    if external is None:
        return _ExternalTools(file), []
    notes = DiagnosticList(source, MEMBER)
    if isinstance(external, dict):
        return _checked(external, file, notes), notes.found
    notes.add(f"/{MEMBER}", "external-tools", "must be an object", _REMEDY)
    return _ExternalTools(file), notes.found


def _as_note(item: Diagnostic) -> Diagnostic:
    return msgspec.structs.replace(item, severity=Severity.INFO, excerpt="")


def _checked(external: dict[str, Json], file: str, notes: DiagnosticList) -> _ExternalTools:
    paths = external.get("searchPaths", [])
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        notes.add(f"/{MEMBER}/searchPaths", "external-tools", "must be a list of folders", _REMEDY)
        paths = []
    if len(paths) > MOST_SEARCH_PATHS:
        message = f"names more than {MOST_SEARCH_PATHS} folders, and the others are not searched"
        notes.warn(f"/{MEMBER}/searchPaths", "external-tools", message, "name fewer folders")
    timeout = DEFAULT_TIMEOUT_MS
    for key, unit in (("defaultTimeout", 1_000), ("defaultTimeoutMs", 1)):
        if (amount := external.get(key)) is None:
            continue
        seconds = amount * unit / 1_000 if isinstance(amount, int | float) else None
        read = None if isinstance(amount, bool) else duration_ms(seconds)
        if read is None:
            message = f"must be a number, above 0 and at most {LONGEST_MS // unit}"
            notes.add(f"/{MEMBER}/{key}", "external-tools", message, _REMEDY)
        else:
            timeout = read
    enabled = external.get("enabled", True)
    if not isinstance(enabled, bool):
        notes.add(f"/{MEMBER}/enabled", "external-tools", "must be true or false", _REMEDY)
        enabled = False  # somebody meant to say something about it, so the stricter reading counts
    named = tuple(path for path in paths[:MOST_SEARCH_PATHS] if isinstance(path, str))
    return _ExternalTools(file, named, timeout, enabled)


def _named_folders(
    said: _ExternalTools, places: RootPaths, home: str, found: list[Diagnostic]
) -> Iterator[ToolFolder]:
    """Yield the folders that a file names, with a note for each one that is not there."""
    for path in said.paths:
        whole = Path(home + path[1:]) if home and (path == "~" or path.startswith("~/")) else Path(path)
        folder = Path(os.path.normpath(places.app_root / whole))
        if "\0" in path or (path.startswith("~") and whole == Path(path)):
            continue
        label = "tools-" + hashlib.sha256(os.fsencode(folder)).hexdigest()[:_LABEL_DIGITS]
        if not folder.is_dir():
            found.append(_missing(said.file, path))
        own = folder == places.user_tools_dir and _only_the_user_writes(folder)
        yield ToolFolder(folder, label, own, said.timeout_ms)


def _only_the_user_writes(folder: Path) -> bool:
    """Return whether nobody but this user can put a file into the folder."""
    try:
        facts = os.stat(folder)
    except OSError:
        return False
    return facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def _missing(file: str, path: str) -> Diagnostic:
    return Diagnostic(
        severity=Severity.INFO,
        rule="no-folder",
        message=f"{file}: {MEMBER} names {path}, which is not there",
        remedy="nothing, if no tool lies there; else create the folder",
        position=Position(file=file, line=1, column=1),
    )


def _last_of_each(folders: Iterable[ToolFolder]) -> Iterator[ToolFolder]:
    """Yield the folders in their order, each at its last place."""
    listed = list(folders)
    last = {folder.path: number for number, folder in enumerate(listed)}
    return (folder for number, folder in enumerate(listed) if last[folder.path] == number)
