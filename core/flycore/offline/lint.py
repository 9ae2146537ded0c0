"""The check of the files that people write; each finding has its place and the text of its line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from flycore.discovery.executables import is_executable
from flycore.model.diagnostics import Diagnostic, Position
from flycore.offline.lint_sources import (
    CheckSettings,
    FileToCheck,
    LintedFile,
    LintedRoot,
    LintSource,
    lint_sources,
)
from flycore.registry.jsonc.parse import excerpt_at, parse_jsonc
from flycore.registry.jsonc.spans import line_starts
from flycore.registry.paths import RootPaths
from flycore.registry.read_file import read_text

KINDS = tuple(source.kind for source in lint_sources())
_SETTINGS = "settings"
"""The kind of a file that nothing tells."""
_EXECUTABLES = "executables"
_FOREIGN_FOLDERS = frozenset((".glee", ".ybs", ".gibson", ".flyflor"))


class LintResult(NamedTuple):
    """The files that were checked, and all findings in the order of the files."""

    files: tuple[LintedFile, ...]
    diagnostics: tuple[Diagnostic, ...]


def lint_root(places: RootPaths, check_settings: CheckSettings) -> LintResult:
    """Check every file of the root that a person writes. Starts no process and writes nothing."""
    root = LintedRoot(places, dict(os.environ), check_settings)
    files: list[LintedFile] = []
    found: list[Diagnostic] = []
    for source in lint_sources():
        findings = source.of_root(root)
        files += findings.files
        found += _sorted(findings.diagnostics, places.app_root, source)
    return LintResult(tuple(files), tuple(dict.fromkeys(found)))


def lint_file(places: RootPaths, file: Path, kind: str, check_settings: CheckSettings) -> LintResult:
    """Check one file, anywhere, as a file of that kind; with `""` its name or content decides the kind."""
    shown = str(file)
    path = Path(os.path.abspath(file))
    if not kind and is_executable(path) and _named_kind(str(path)) is None:
        kind = _EXECUTABLES
    # The bytes of an executable are a program's, and need not be a text.
    program = kind == _EXECUTABLES
    text, data, problem = ("", b"", None) if program else read_text(path.parent, path.name, shown)
    if text is None:
        found: tuple[Diagnostic, ...] = (problem,) if problem is not None else ()
        return LintResult((LintedFile(kind, shown),), found)
    kind = kind or kind_of(str(path), text)
    source = next(one for one in lint_sources() if one.kind == kind)
    root = LintedRoot(places, dict(os.environ), check_settings)
    listed = source.of_file(root, FileToCheck(path, shown, text, data))
    foreign = source.foreign or _is_foreign(str(path))
    shown_found = (_without_line(item) if foreign else _with_line(item, text) for item in listed)
    return LintResult((LintedFile(kind, shown),), tuple(dict.fromkeys(shown_found)))


def kind_of(name: str, text: str) -> str:
    """Return a file's kind by its path, else by its members; `settings` if neither tells."""
    named = _named_kind(name)
    if named is not None:
        return named
    sources = lint_sources()
    value, _ = parse_jsonc(text, name)
    members = value if isinstance(value, dict) else {}
    of_members = (one.kind for one in sources if any(member in members for member in one.members))
    return next(of_members, _SETTINGS)


def _named_kind(name: str) -> str | None:
    """Return a file's kind by its path; None where that tells none."""
    found = (one.kind for one in lint_sources() for end in one.names if f"/{name}".endswith(f"/{end}"))
    return next(found, None)


def _sorted(found: Iterable[Diagnostic], app_root: Path, source: LintSource) -> list[Diagnostic]:
    """Sort the findings of one kind by place, and add the text of its line to each that is in a file of
    flytui's own."""
    listed = list(found)
    positions = [item.position for item in listed if item.position is not None]
    files = list(dict.fromkeys(position.file for position in positions))
    # A registry's findings are also about files of other systems that name folders of tools, and about the
    # tools themselves: any of these may hold a secret.
    own = [] if source.foreign else [file for file in files if _is_own(file)]
    texts = {file: _text_of(file, app_root) for file in own}
    shown = [
        _without_line(item)
        if _is_foreign(_file_of(item.position))
        else _with_line(item, texts.get(_file_of(item.position), ""))
        for item in listed
    ]

    def place(item: Diagnostic) -> tuple[int, int, int]:
        where = item.position
        return (files.index(where.file), where.line, where.column) if where is not None else (-1, 0, 0)

    return sorted(shown, key=place)


def _is_own(file: str) -> bool:
    """Whether a file has the name of one that flytui itself reads, and no other program."""
    if _is_foreign(file):
        return False
    ends = (end for source in lint_sources() if not source.foreign for end in source.names)
    return any(f"/{file}".endswith(f"/{end}") for end in ends)


def _is_foreign(file: str) -> bool:
    """Whether a file lies in a folder of another system, also where it has a form that flytui itself has."""
    return not _FOREIGN_FOLDERS.isdisjoint(Path(file).parts)


def _file_of(position: Position | None) -> str:
    return position.file if position is not None else ""


def _text_of(file: str, app_root: Path) -> str:
    path = Path(os.path.expanduser(file))
    path = path if path.is_absolute() else app_root / path
    return read_text(path.parent, path.name, file)[0] or ""


def _without_line(item: Diagnostic) -> Diagnostic:
    return msgspec.structs.replace(item, excerpt="") if item.excerpt else item


def _with_line(item: Diagnostic, text: str) -> Diagnostic:
    """Add the text of its line to a finding, if it has none and the file has that line."""
    if item.excerpt or item.position is None or not text:
        return item
    starts = line_starts(text)
    if item.position.line > len(starts):
        return item
    offset = min(starts[item.position.line - 1] + item.position.column - 1, len(text))
    return msgspec.structs.replace(item, excerpt=excerpt_at(text, offset))
