"""The check of the files that people write; each finding has its place and the text of its line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from flycore.catalog.builtin import AGENT_ACTIONS, KNOWN
from flycore.catalog.proposed_entries import undeclared_permissions
from flycore.catalog.registry_capability import own_schema_findings
from flycore.discovery.kits import parse_kits
from flycore.discovery.scan import search_roots, user_kits
from flycore.kernel.load_state import find_environment, read_files
from flycore.model.described import Origin
from flycore.model.diagnostics import Diagnostic
from flycore.model.enums import Source
from flycore.policy.evaluate import expired_rules
from flycore.policy.files import read_policy
from flycore.policy.rules import RuleLayer
from flycore.registry.jsonc.parse import excerpt_at, parse_jsonc
from flycore.registry.jsonc.spans import line_starts
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import PROJECT_POLICY_FILE, SETTINGS_FILE
from flycore.registry.read_file import read_text
from flycore.registry.settings import parse_settings, read_settings

if TYPE_CHECKING:
    from flycore.registry.paths import RootPaths
    from flycore.registry.settings import ReadSettings

CheckSettings = Callable[["ReadSettings"], tuple[Diagnostic, ...]]
"""A callback that lists the faults of settings, including keys and themes, which only the console knows."""
KINDS = ("registry", "policy", "settings", "kits")
_NAMES = {
    "external.tools.jsonc": "registry",
    "policy.jsonc": "policy",
    "config.jsonc": "settings",
    "kits.jsonc": "kits",
}
_MEMBERS = {"sidecars": "registry", "rules": "policy", "kits": "kits"}
"""Members by which a file's kind is recognised: only files of that kind have them."""


class LintedFile(NamedTuple):
    """A file that was checked."""

    kind: str
    """One of KINDS; empty if the file cannot be read and its kind was not given."""
    file: str
    present: bool = True


class LintResult(NamedTuple):
    """The files that were checked, and all findings in the order of the files."""

    files: tuple[LintedFile, ...]
    diagnostics: tuple[Diagnostic, ...]


def lint_root(places: RootPaths, check_settings: CheckSettings) -> LintResult:
    """Check every file of the root that a person writes. Starts no process and writes nothing."""
    files = read_files(find_environment(places, dict(os.environ)), None)
    settings = places.config_dir / SETTINGS_FILE
    checked = [LintedFile("registry", file) for file in files.registry.files]
    checked += [LintedFile("policy", layer.file, layer.present) for layer in files.policy.layers]
    checked.append(LintedFile("settings", str(settings), os.path.lexists(settings)))
    found = [
        *files.registry.diagnostics,
        *(problem for entry in files.registry.entries for problem in entry.problems),
        *(note for entry in files.registry.entries for note in own_schema_findings(entry)),
        *undeclared_permissions(files.registry.entries),
        *expired_rules(files.policy, time.time()),
        *check_settings(read_settings(places.config_dir)),
    ]
    kits = user_kits(search_roots(places, os.environ))
    checked += [LintedFile("kits", file) for file in dict.fromkeys(kit.path for kit in kits)]
    found += [problem for kit in kits for problem in kit.reasons]
    return _result(checked, _with_lines(found, places.app_root))


def lint_file(places: RootPaths, file: Path, kind: str, check_settings: CheckSettings) -> LintResult:
    """Check one file, anywhere, as a file of that kind; with `""` its name or content decides the kind."""
    shown = str(file)
    path = Path(os.path.abspath(file))
    text, data, problem = read_text(path.parent, path.name, shown)
    if text is None:
        found: tuple[Diagnostic, ...] = (problem,) if problem is not None else ()
        return _result([LintedFile(kind, shown)], found)
    kind = kind or kind_of(path.name, text)
    if kind == "registry":
        entries, found = parse_registry(text, shown, Source.PROJECT, frozenset(KNOWN))
        found += tuple(problem for entry in entries or () for problem in entry.problems)
        found += tuple(note for entry in entries or () for note in own_schema_findings(entry))
        found += undeclared_permissions(entries or ())
    elif kind == "policy":
        project = path == places.app_root / PROJECT_POLICY_FILE
        layer = RuleLayer.PROJECT if project else RuleLayer.USER
        registry = read_files(find_environment(places, dict(os.environ)), None).registry
        claimed = {name for entry in registry.entries for name in entry.tool_names}
        found = read_policy(data, layer, shown, frozenset(KNOWN) | AGENT_ACTIONS | claimed)[1]
    elif kind == "kits":
        found = tuple(problem for kit in parse_kits(text, shown, Origin.PROJECT) for problem in kit.reasons)
    else:
        found = check_settings(parse_settings(text, shown))
    return _result([LintedFile(kind, shown)], [_with_line(item, text) for item in found])


def kind_of(name: str, text: str) -> str:
    """Return a file's kind by its name, else by its members; `settings` if neither tells."""
    if name in _NAMES:
        return _NAMES[name]
    value, _ = parse_jsonc(text, name)
    members = value if isinstance(value, dict) else {}
    return next((kind for member, kind in _MEMBERS.items() if member in members), "settings")


def _result(files: Iterable[LintedFile], found: Iterable[Diagnostic]) -> LintResult:
    return LintResult(tuple(files), tuple(dict.fromkeys(found)))


def _with_lines(found: Iterable[Diagnostic], app_root: Path) -> list[Diagnostic]:
    """Sort the findings by place, and add the text of its line to each."""
    texts: dict[str, str] = {}
    for item in found:
        if item.position is not None and item.position.file not in texts:
            path = Path(os.path.expanduser(item.position.file))
            path = path if path.is_absolute() else app_root / path
            texts[item.position.file] = read_text(path.parent, path.name, str(path))[0] or ""
    files = list(texts)

    def place(item: Diagnostic) -> tuple[int, int, int]:
        where = item.position
        return (files.index(where.file), where.line, where.column) if where is not None else (-1, 0, 0)

    shown = [_with_line(item, texts[item.position.file] if item.position else "") for item in found]
    return sorted(shown, key=place)


def _with_line(item: Diagnostic, text: str) -> Diagnostic:
    """Add the text of its line to a finding, if it has none and the file has that line."""
    if item.excerpt or item.position is None or not text:
        return item
    starts = line_starts(text)
    if item.position.line > len(starts):
        return item
    offset = min(starts[item.position.line - 1] + item.position.column - 1, len(text))
    return msgspec.structs.replace(item, excerpt=excerpt_at(text, offset))
