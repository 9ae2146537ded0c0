"""What the kernel knows of its root: what does not change while it runs, and what it knows at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flycore.model.catalog import CapabilityView, Catalog
from flycore.model.enums import Risk
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.policy.evaluate import Policy
from flycore.registry.paths import RootPaths
from flycore.registry.resolve import resolve_program
from flycore.registry.settings import Settings
from flycore.sandbox.seals import Distribution, is_bundled


@dataclass(frozen=True, slots=True)
class RootEnvironment:
    """What does not change while a kernel runs: where it is and what it can reach."""

    places: RootPaths
    environ: Mapping[str, str]
    interpreter_dir: Path
    distribution: Distribution | None

    def resolve(
        self, registry: Registry, entry: SidecarEntry, command: str, args: tuple[str, ...]
    ) -> ResolvedProgram:
        """Where a command of that entry leads on this machine."""
        return resolve_program(
            command,
            args,
            entry=entry,
            registry=registry,
            interpreter_dir=self.interpreter_dir,
            path_env=self.environ.get("PATH", ""),
        )

    def bundled(self, program: ResolvedProgram | None) -> bool:
        """Whether the program is one of this distribution's own sidecars."""
        return (
            program is not None and self.distribution is not None and is_bundled(program, self.distribution)
        )


@dataclass(frozen=True, slots=True)
class RootState:
    """Registry, catalog, policy and settings that belong together. A call takes it once per look."""

    registry: Registry
    catalog: Catalog
    policy: Policy
    settings: Settings
    programs: Mapping[str, ResolvedProgram]
    """Sidecar id to its followed command."""
    trusted: frozenset[str]
    index: Mapping[str, CapabilityView] = field(default_factory=dict)
    """Tool name to its view."""
    entries: Mapping[str, SidecarEntry] = field(default_factory=dict)
    """Sidecar id to its entry."""


class CurrentState:
    """The world as it is now, for everybody who reads it. One writer replaces it, whole."""

    def __init__(self, world: RootState) -> None:
        self._world = world

    @property
    def world(self) -> RootState:
        """Read it once for one look: the next read may give another."""
        return self._world

    def replace(self, world: RootState) -> None:
        """Calls find this one from now on."""
        self._world = world


# Limits that follow the settings: read at each use, so that a change counts without a restart.


class LiveLimits:
    """What queue and quota hold callers to, as the user's settings say now. Lowered, they refuse what
    comes next and take nothing back."""

    def __init__(self, state: CurrentState) -> None:
        self._state = state

    @property
    def per_caller(self) -> int:
        """Requests of one caller that may wait."""
        return self._state.world.settings.queue_per_caller

    @property
    def total(self) -> int:
        """Requests that may wait."""
        return self._state.world.settings.queue_total

    def timeout(self, risk: Risk) -> float:
        """Seconds a request of that risk waits."""
        return self._state.world.settings.approval_times.of(risk) / 1000

    @property
    def calls_per_minute(self) -> int:
        """Calls of one caller."""
        return self._state.world.settings.calls_per_minute

    @property
    def running(self) -> int:
        """Calls of one caller at once."""
        return self._state.world.settings.running

    @property
    def high_risk_per_session(self) -> int:
        """High-risk calls of one caller's process."""
        return self._state.world.settings.high_risk_per_session
