"""The limits that a call of a tool would run under, by the files as they are now, and what a call lacked."""

from __future__ import annotations

import os
from typing import NamedTuple

import msgspec

from flycore.catalog.builtin import AGENT_ACTIONS
from flycore.catalog.builtin_tools import FILES_FAMILY, builtin_names
from flycore.catalog.reasons import permitted
from flycore.model.call import ToolResult
from flycore.model.enums import Level, PathState
from flycore.model.json import JsonObject
from flycore.model.json_diff import json_difference
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import GrantedPath, SandboxExplanation
from flycore.offline.files import read_registry
from flycore.offline.policy import OfflinePolicy, read_offline_policy
from flycore.pipeline.call import Rejection
from flycore.pipeline.confine import (
    StartedProgram,
    program_files,
    protected_files,
    seen_at_own_path,
)
from flycore.pipeline.prepare import seal_programs
from flycore.registry.edits import permit_entry
from flycore.registry.paths import RootPaths
from flycore.sandbox.call_confinement import CallFolders, NotPermitted, confinement_of
from flycore.sandbox.confinement import Confinement
from flycore.sandbox.levels import CONFINING, builtin_report, minimum_level, report
from flycore.sandbox.protected_files import with_protected
from flycore.sandbox.runtime_roots import RuntimeUnknown


def explain_sandbox(places: RootPaths, tool: str) -> SandboxExplanation | None:
    """Return the limits of the tool; None where no valid entry offers it. Runs nothing but the trial of the
    sandbox."""
    offline = read_offline_policy(places)
    root_state, root = offline.root_state, offline.environment
    entry = offline.entry(tool)
    if entry is None or not entry.valid or tool in AGENT_ACTIONS:
        return None
    if tool in builtin_names():
        return _builtin(offline, tool, entry)
    bundled = root.bundled(root_state.files.programs.get(entry.id))
    found = report(entry, root_state.support, bundled=bundled)
    least = root_state.files.settings.sandbox_minimum.get(tool, minimum_level(entry, bundled=bundled))
    explanation = SandboxExplanation(
        tool=tool,
        sidecar=entry.id,
        least=least,
        report=found,
        remedy=root_state.support.remedy(Level.DEGRADED),
    )
    if found.level not in CONFINING:
        return explanation
    sealed = seal_programs(root, root_state.registry, entry, root_state.support)
    if isinstance(sealed, Rejection):
        return _with_problem(explanation, sealed.message)
    if sealed.program.state is not PathState.RESOLVED:
        return _with_problem(explanation, sealed.program.message)
    programs = [StartedProgram(sealed.program, sealed.seal)]
    programs += [StartedProgram(sealed.delegate_programs[item.name], item.seal) for item in sealed.delegates]
    folders = CallFolders(
        app_root=str(places.app_root),
        cwd=os.path.realpath(root.working_folder(root_state.registry, entry)),
        home=root.environ.get("HOME", ""),
    )
    own_path = seen_at_own_path(found.level)
    try:
        files = [program_files(item, places.store_dir, at_own_path=own_path) for item in programs]
        confinement = confinement_of(entry.effective_permissions, {}, folders, files)
        kept = protected_files(places, folders.home, found.level, entry.effective_permissions, {})
        confinement = with_protected(confinement, kept)
    except (RuntimeUnknown, NotPermitted) as error:
        return _with_problem(explanation, str(error))
    declared = (*entry.permissions.read, *entry.permissions.write)
    return _with_paths(explanation, confinement, tuple(path for path in declared if "${" in path))


def _builtin(offline: OfflinePolicy, tool: str, entry: SidecarEntry) -> SandboxExplanation:
    """Return the limits of a tool of the kernel. What it starts is known only for a call."""
    own = tool.startswith(f"{FILES_FAMILY}.")
    permissions, minimum = entry.permissions, offline.root_state.files.settings.sandbox_minimum
    root = str(offline.environment.places.app_root)
    return SandboxExplanation(
        tool=tool,
        sidecar=entry.id,
        least=minimum.get(tool, minimum_level(entry, bundled=own)),
        report=builtin_report(offline.root_state.support, entry, own=own),
        remedy=offline.root_state.support.remedy(Level.DEGRADED),
        network=permissions.network,
        paths=(GrantedPath(path=root, writable=bool(permissions.write)),),
    )


class ProposedPermissions(NamedTuple):
    """The permissions of an entry with what a call of it was refused."""

    entry: SidecarEntry
    """The entry as its file has it now."""
    permissions: JsonObject
    difference: tuple[str, ...]
    """The change, as lines `+ /pointer: after`; empty where nothing is proposed."""


def propose_permissions(places: RootPaths, result: ToolResult) -> ProposedPermissions | None:
    """Return the smallest permissions for what that call was refused; None where that is not known, or its
    entry is gone."""
    entry = read_registry(places, os.environ).entry(result.sidecar or "")
    if entry is None or not entry.valid or result.refusals is None:
        return None
    after = permitted(entry, result.refusals) if result.refusals.grantable else entry.raw
    permissions = after.get("permissions")
    return ProposedPermissions(
        entry=entry,
        permissions=permissions if isinstance(permissions, dict) else {},
        difference=json_difference(entry.raw, after),
    )


def add_permissions(places: RootPaths, result: ToolResult) -> str:
    """Add to the entry what that call was refused. Return why that was not done, else nothing. The changed
    entry is not trusted."""
    found = propose_permissions(places, result)
    if found is None:
        return "there is nothing to add"
    return permit_entry(places, found.entry, {**found.entry.raw, "permissions": found.permissions}).why_not


def _with_problem(explanation: SandboxExplanation, problem: str) -> SandboxExplanation:
    return msgspec.structs.replace(explanation, problem=problem)


def _with_paths(
    explanation: SandboxExplanation, confinement: Confinement, by_input: tuple[str, ...]
) -> SandboxExplanation:
    paths = (
        GrantedPath(path=mount.path, writable=mount.writable, sealed=bool(mount.source) and mount.follow)
        for mount in confinement.ordered_mounts()
        # A folder above a protected file is granted with the folder that it lies in.
        if mount.follow or not mount.writable
    )
    return msgspec.structs.replace(
        explanation, network=confinement.network, paths=tuple(paths), by_input=by_input
    )
