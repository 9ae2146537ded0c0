"""The kernel's own tools as parts of a root's state: what they start here, and how they are held."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flycore.catalog.builtin_tools import FILES_FAMILY, GIT, RUNNING, entries_for
from flycore.model.enums import Level
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import SandboxReport
from flycore.pipeline.context import RootEnvironment
from flycore.registry.settings import Settings
from flycore.sandbox.command_seals import OWN_PROGRAM, command_path, find_command
from flycore.sandbox.detection import SandboxSupport
from flycore.sandbox.levels import builtin_report, minimum_level


class BuiltinState(msgspec.Struct, frozen=True):
    """The kernel's own tools at one moment. All but `entries` is by what stands for the id of an entry."""

    entries: Mapping[str, SidecarEntry]
    """What stands for the entry of each tool, by tool."""
    programs: Mapping[str, ResolvedProgram]
    reports: Mapping[str, SandboxReport]
    least: Mapping[str, Level]
    own: frozenset[str]
    """Those that the kernel carries out itself."""


def builtin_state(environment: RootEnvironment, settings: Settings, support: SandboxSupport) -> BuiltinState:
    """Look for the programs of the tools, and say how they are held."""
    entries = entries_for(settings.sandbox_network)
    git = find_command((GIT,), str(environment.places.app_root), command_path(environment.environ))
    own = frozenset(entry.id for tool, entry in entries.items() if tool.startswith(f"{FILES_FAMILY}."))
    return BuiltinState(
        entries=entries,
        # What a call of process.run starts is known only from its input.
        programs={
            entry.id: OWN_PROGRAM if entry.id in own or tool in RUNNING else git
            for tool, entry in entries.items()
        },
        reports={entry.id: builtin_report(support, entry, own=entry.id in own) for entry in entries.values()},
        least={entry.id: minimum_level(entry, bundled=entry.id in own) for entry in entries.values()},
        own=own,
    )
