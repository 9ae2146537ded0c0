"""The sources of findings: one row for each kind of file that `flytui lint` checks.

A new kind of file is a row in `lint_sources`. A row says how its files are found in a root, and how the text
of one file is checked; how findings are ordered, printed and counted is the same for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flycore.catalog.builtin import AGENT_ACTIONS, KNOWN
from flycore.catalog.proposed_entries import undeclared_permissions
from flycore.catalog.registry_capability import example_findings, own_schema_findings
from flycore.discovery import executables, plugins, servers, skills
from flycore.discovery.kits import parse_kits
from flycore.discovery.other_systems.model import OtherSystem, read_found
from flycore.discovery.other_systems.table import SYSTEMS
from flycore.discovery.scan import SearchRoots, search_roots, user_kits
from flycore.discovery.search_folder import FileText
from flycore.discovery.tool_folders import MEMBER as TOOLS_CONFIG_MEMBER
from flycore.discovery.tool_folders import check_tools_config
from flycore.kernel.load_state import find_environment, is_reserved, read_files
from flycore.model.described import Described, Origin
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Source
from flycore.pipeline.context import Files
from flycore.policy.evaluate import expired_rules
from flycore.policy.files import read_policy
from flycore.policy.rules import RuleLayer
from flycore.registry.manifest import parse_manifest
from flycore.registry.package_metadata import without_metadata
from flycore.registry.parse_registry import parse_registry
from flycore.registry.paths import (
    MANIFEST_FILE,
    PROJECT_POLICY_FILE,
    SETTINGS_FILE,
    TOOLS_CONFIG_FILE,
    RootPaths,
)
from flycore.registry.read_file import read_text
from flycore.registry.settings import parse_settings, read_settings

if TYPE_CHECKING:
    from flycore.model.sidecar import SidecarEntry
    from flycore.registry.settings import ReadSettings

CheckSettings = Callable[["ReadSettings"], tuple[Diagnostic, ...]]
"""A callback that lists the faults of settings, including keys and themes, which only the console knows."""


class LintedFile(NamedTuple):
    """A file that was checked."""

    kind: str
    """The kind of a row of the table; empty if the file cannot be read and its kind was not given."""
    file: str
    present: bool = True


class Findings(NamedTuple):
    """The files of one kind that were checked, and what was found in them."""

    files: tuple[LintedFile, ...]
    diagnostics: tuple[Diagnostic, ...]


class FileToCheck(NamedTuple):
    """One file that a person named."""

    path: Path
    shown: str
    text: str
    data: bytes


@dataclass(frozen=True)
class LintedRoot:
    """The root whose files are checked. What several sources read is read once."""

    places: RootPaths
    environ: Mapping[str, str]
    check_settings: CheckSettings

    @cached_property
    def files(self) -> Files:
        """Registry and policy, as a kernel would read them."""
        return read_files(find_environment(self.places, self.environ), None)

    @cached_property
    def folders(self) -> SearchRoots:
        """The folders that discovery searches."""
        return search_roots(self.places, self.environ)


class LintSource(NamedTuple):
    """One kind of file."""

    kind: str
    of_root: Callable[[LintedRoot], Findings]
    """Checks all files of the kind that belong to a root."""
    of_file: Callable[[LintedRoot, FileToCheck], Iterable[Diagnostic]]
    """Checks one file, wherever it is."""
    names: tuple[str, ...]
    """Ends of the paths of such files."""
    members: tuple[str, ...] = ()
    """Members by which the content of a JSONC file is recognised: only files of this kind have them."""
    foreign: bool = False
    """Whether the files are those of another program. None of their lines is shown: any may hold a secret."""


def _registry(root: LintedRoot) -> Findings:
    registry, policy = root.files.registry, root.files.policy
    # The diagnostics of the registry hold those of policy and settings as well, which have rows of their own.
    others = {*policy.diagnostics, *read_settings(root.places.config_dir).problems}
    others |= {item for item in registry.diagnostics if _of_tools_config(item)}
    others |= {item for item in registry.diagnostics if item.rule == executables.RULE}
    own = [entry for entry in registry.entries if not entry.source.discovered]
    found = [*(item for item in registry.diagnostics if item not in others), *_of_entries(own)]
    found += without_metadata(own, registry)
    return Findings(tuple(LintedFile("registry", file) for file in registry.files), tuple(found))


def _of_entries(entries: Iterable[SidecarEntry]) -> Iterator[Diagnostic]:
    listed = tuple(entries)
    for entry in listed:
        yield from entry.problems
    for entry in listed:
        yield from own_schema_findings(entry)
        yield from example_findings(entry)
    yield from undeclared_permissions(listed)


def _registry_file(root: LintedRoot, file: FileToCheck) -> Iterator[Diagnostic]:
    entries, found = parse_registry(file.text, file.shown, Source.PROJECT, frozenset(KNOWN))
    yield from found
    yield from _of_entries(entries or ())


def _of_tools_config(item: Diagnostic) -> bool:
    return item.position is not None and item.position.file == TOOLS_CONFIG_FILE


def _tools_config(root: LintedRoot) -> Findings:
    text, _, problem = read_text(root.places.app_root, TOOLS_CONFIG_FILE, TOOLS_CONFIG_FILE)
    found = list(check_tools_config(text, TOOLS_CONFIG_FILE)) if text is not None else []
    found += [problem] if problem is not None else []
    # What is known only of a root: folders that are not there.
    found += (item for item in root.files.registry.diagnostics if _of_tools_config(item))
    present = text is not None or problem is not None
    return Findings((LintedFile("tools-config", TOOLS_CONFIG_FILE, present),), tuple(dict.fromkeys(found)))


def _tools_config_file(root: LintedRoot, file: FileToCheck) -> Iterable[Diagnostic]:
    return check_tools_config(file.text, file.shown)


def _manifests(root: LintedRoot) -> Findings:
    entries = [entry for entry in root.files.registry.entries if entry.source is Source.MANIFEST]
    files = tuple(LintedFile("manifest", entry.position.file) for entry in entries)
    return Findings(files, tuple(_of_entries(entries)))


def _manifest_file(root: LintedRoot, file: FileToCheck) -> Iterable[Diagnostic]:
    folder = file.path.parent.name
    return _of_entries([parse_manifest(file.text, file.shown, folder=folder, is_reserved=is_reserved)])


def _executables(root: LintedRoot) -> Findings:
    registry = root.files.registry
    entries = [entry for entry in registry.entries if entry.source is Source.EXECUTABLE]
    found = [item for item in registry.diagnostics if item.rule == executables.RULE]
    files = tuple(LintedFile("executables", entry.position.file) for entry in entries)
    return Findings(files, (*found, *_of_entries(entries)))


def _executable_file(root: LintedRoot, file: FileToCheck) -> Iterable[Diagnostic]:
    return executables.check_executable(file.path, file.shown)


def _policy(root: LintedRoot) -> Findings:
    policy = root.files.policy
    files = tuple(LintedFile("policy", layer.file, layer.present) for layer in policy.layers)
    return Findings(files, (*policy.diagnostics, *expired_rules(policy, time.time())))


def _policy_file(root: LintedRoot, file: FileToCheck) -> Iterable[Diagnostic]:
    project = file.path == root.places.app_root / PROJECT_POLICY_FILE
    layer = RuleLayer.PROJECT if project else RuleLayer.USER
    claimed = {name for entry in root.files.registry.entries for name in entry.tool_names}
    return read_policy(file.data, layer, file.shown, frozenset(KNOWN) | AGENT_ACTIONS | claimed)[1]


def _settings(root: LintedRoot) -> Findings:
    path = root.places.config_dir / SETTINGS_FILE
    files = (LintedFile("settings", str(path), path.exists() or path.is_symlink()),)
    return Findings(files, root.check_settings(read_settings(root.places.config_dir)))


def _settings_file(root: LintedRoot, file: FileToCheck) -> Iterable[Diagnostic]:
    return root.check_settings(parse_settings(file.text, file.shown))


def _of_described(kind: str, items: Iterable[Described]) -> Findings:
    listed = tuple(items)
    files = tuple(LintedFile(kind, file) for file in dict.fromkeys(item.path for item in listed if item.path))
    return Findings(files, tuple(problem for item in listed for problem in item.reasons))


def _kits(root: LintedRoot) -> Findings:
    return _of_described("kits", user_kits(root.folders))


def _kits_file(root: LintedRoot, file: FileToCheck) -> Iterator[Diagnostic]:
    for kit in parse_kits(file.text, file.shown, Origin.PROJECT):
        yield from kit.reasons


def _skills(root: LintedRoot) -> Findings:
    found = list(skills.read_skills(root.folders.project, skills.PROJECT_FOLDERS))
    if root.folders.home is not None:
        found += skills.read_skills(root.folders.home, skills.HOME_FOLDERS)
    return _of_described("skills", found)


def _skill_file(root: LintedRoot, file: FileToCheck) -> Iterable[Diagnostic]:
    head = FileText(file.data[: skills.MOST_HEAD].decode("utf-8", "replace").removeprefix("\ufeff"))
    return skills.skill(file.path.parent.name, file.shown, head, Origin.PROJECT).reasons


def _plugins(root: LintedRoot) -> Findings:
    found = list(plugins.read_project_plugins(root.folders.project))
    if root.folders.home is not None:
        found += plugins.read_installed_plugins(root.folders.home, root.places.app_root)
    return _of_described("plugins", found)


def _plugin_file(root: LintedRoot, file: FileToCheck) -> Iterable[Diagnostic]:
    folder = file.path.parent.parent.name
    return plugins.plugin(folder, file.shown, FileText(file.text), Origin.PROJECT).reasons


def _servers(root: LintedRoot) -> Findings:
    app_root = str(root.places.app_root)
    found = list(servers.read_servers(root.folders.project, servers.PROJECT_FILES, app_root))
    if root.folders.home is not None:
        found += servers.read_servers(root.folders.home, servers.HOME_FILES, app_root)
    return _of_described("mcp-servers", found)


def _servers_file(root: LintedRoot, file: FileToCheck) -> Iterator[Diagnostic]:
    app_root = str(root.places.app_root)
    for server in servers.servers_of(FileText(file.text), file.shown, Origin.PROJECT, app_root):
        yield from server.reasons


def _system_source(system: OtherSystem) -> LintSource:
    """Return the row of another system: its files, and that flytui does not read all of them."""

    def of_root(root: LintedRoot) -> Findings:
        files: list[LintedFile] = []
        found: list[Diagnostic] = []
        for one in system.files(root.folders):
            text, problem = read_found(one)
            if text is None and problem is None:
                continue
            files.append(LintedFile(system.name, one.shown))
            found += system.check(text, one.shown) if text is not None else [problem] if problem else []
            found.append(_not_read(system, one.shown))
        return Findings(tuple(files), tuple(found))

    def of_file(root: LintedRoot, file: FileToCheck) -> Iterable[Diagnostic]:
        return system.check(file.text, file.shown)

    return LintSource(system.name, of_root, of_file, system.names, foreign=True)


def _not_read(system: OtherSystem, shown: str) -> Diagnostic:
    return Diagnostic(
        severity=Severity.INFO,
        rule="other-system",
        message=f"{shown} is a file of {system.title}",
        remedy=f"flytui migrate --from {system.name} shows what of it can be carried over",
        position=Position(file=shown, line=1, column=1),
    )


def lint_sources() -> tuple[LintSource, ...]:
    """Return the table, in the order of the output. Readers of further kinds of file join it here."""
    return (
        LintSource("registry", _registry, _registry_file, ("external.tools.jsonc",), ("sidecars",)),
        LintSource(
            "tools-config",
            _tools_config,
            _tools_config_file,
            (TOOLS_CONFIG_FILE,),
            (TOOLS_CONFIG_MEMBER,),
        ),
        LintSource("manifest", _manifests, _manifest_file, (MANIFEST_FILE,)),
        # What an executable says of itself is not asked for here, because that would start it.
        LintSource("executables", _executables, _executable_file, (), foreign=True),
        LintSource("policy", _policy, _policy_file, ("policy.jsonc",), ("rules",)),
        LintSource("settings", _settings, _settings_file, ("config.jsonc",)),
        LintSource("kits", _kits, _kits_file, ("kits.jsonc",), ("kits",)),
        LintSource("skills", _skills, _skill_file, (skills.SKILL_FILE,)),
        LintSource("plugins", _plugins, _plugin_file, (plugins.MANIFEST,), foreign=True),
        LintSource(
            "mcp-servers",
            _servers,
            _servers_file,
            (".mcp.json", ".cursor/mcp.json", ".claude.json"),
            (servers.KEY,),
            foreign=True,
        ),
        *map(_system_source, SYSTEMS),
    )
