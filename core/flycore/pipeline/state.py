"""The state of one root: the environment, fixed while a kernel runs, and the state that is replaced."""

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
    """What does not change while a kernel runs: its paths, its environment variables, its distribution."""

    places: RootPaths
    environ: Mapping[str, str]
    interpreter_dir: Path
    distribution: Distribution | None

    def resolve(
        self, registry: Registry, entry: SidecarEntry, command: str, args: tuple[str, ...]
    ) -> ResolvedProgram:
        """The program that a command of that entry leads to on this machine."""
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
    """Registry, catalog, policy and settings of one moment, which belong together."""

    registry: Registry
    catalog: Catalog
    policy: Policy
    settings: Settings
    programs: Mapping[str, ResolvedProgram]
    """Sidecar id to the program that its command leads to."""
    trusted: frozenset[str]
    index: Mapping[str, CapabilityView] = field(default_factory=dict)
    """Tool name to its view in the catalog."""
    entries: Mapping[str, SidecarEntry] = field(default_factory=dict)
    """Sidecar id to its entry in the registry."""


class CurrentState:
    """Holds the present root state for all its readers. One writer replaces it as a whole."""

    def __init__(self, root_state: RootState) -> None:
        self._root_state = root_state

    @property
    def latest(self) -> RootState:
        """The present state. A function reads it once: the next read may give another state, and parts of two
        states do not fit together."""
        return self._root_state

    def replace(self, root_state: RootState) -> None:
        """Make `root_state` the present state. Calls under way see it from their next read on."""
        self._root_state = root_state


class LiveLimits:
    """The limits of queue and quota as the user's settings have them now, read at each use, so that a change
    counts without a restart. A limit that was lowered refuses what comes next and ends nothing."""

    def __init__(self, state: CurrentState) -> None:
        self._state = state

    @property
    def per_caller(self) -> int:
        """How many requests of one caller may wait for a person."""
        return self._state.latest.settings.queue_per_caller

    @property
    def total(self) -> int:
        """How many requests may wait for a person in all."""
        return self._state.latest.settings.queue_total

    def timeout(self, risk: Risk) -> float:
        """How long a request of that risk waits for a person, in seconds."""
        return self._state.latest.settings.approval_times.of(risk) / 1000

    @property
    def calls_per_minute(self) -> int:
        """How many calls of one caller may begin within a minute."""
        return self._state.latest.settings.calls_per_minute

    @property
    def running(self) -> int:
        """How many calls of one caller may run at once."""
        return self._state.latest.settings.running

    @property
    def high_risk_per_session(self) -> int:
        """How many high-risk calls one process of a caller may make."""
        return self._state.latest.settings.high_risk_per_session
