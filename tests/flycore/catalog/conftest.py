"""Entries, programs and facts as the registry and the kernel would hand them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flycore.catalog.build import build_catalog
from flycore.catalog.builtin import KNOWN
from flycore.catalog.observations import Answer, Failure, Observation
from flycore.catalog.probes import ProbeFinding
from flycore.catalog.snapshot import SidecarFacts
from flycore.model.catalog import Capability, Catalog
from flycore.model.diagnostics import Position
from flycore.model.enums import Anchor, Decision, PathState, Source
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Registry, SidecarEntry, ToolClaim

FILE = "tools/external.tools.jsonc"


def _entry(
    sidecar: str = "utility.local", tools: tuple[str, ...] = ("file.hash",), **fields: Any
) -> SidecarEntry:
    given: dict[str, Any] = {
        "source": Source.PROJECT,
        "position": Position(file=FILE, line=3, column=5),
        "command": "flytui-sidecar",
        "args": (sidecar,),
        "tools": tuple(ToolClaim(name=name) for name in tools),
        "digest": f"digest of {sidecar}",
    }
    return SidecarEntry(id=sidecar, **(given | fields))


def _program(state: PathState = PathState.RESOLVED, **fields: Any) -> ResolvedProgram:
    given: dict[str, Any] = {
        "mode": "path",
        "base": Anchor.APP,
        "declared": "flytui-sidecar",
        "path": "/bin/true" if state is PathState.RESOLVED else "",
        "argv": ("/bin/true",) if state is PathState.RESOLVED else (),
    }
    return ResolvedProgram(state=state, **(given | fields))


def _observation(
    probe: ProbeFinding | None = None, failure: Failure | None = None, **facts: Any
) -> Observation:
    answer = Answer(finding=probe) if probe is not None else None
    return Observation(answer=answer, failure=failure, **facts)


def _sidecar_facts(entry: SidecarEntry | None = None, **fields: Any) -> SidecarFacts:
    """`policy` is by tool here, and the entry offers the known tools among those that it names."""
    entry = entry or _entry()
    policy = fields.pop("policy", lambda tool: (Decision.ALLOW, "default"))
    given: dict[str, Any] = {
        "entry": entry,
        "program": _program(),
        "core": "0.1.0",
        "policy": lambda capability, _: policy(capability.name),
        "tools": {name: KNOWN.get(name, KNOWN["file.hash"]) for name in entry.tool_names},
        "trusted": True,
        "observation": _observation(fields.pop("probe", None), fields.pop("failure", None)),
    }
    return SidecarFacts(**(given | fields))


def _catalog(*entries: SidecarEntry, **fields: Any) -> Catalog:
    """A catalog of these entries; `programs`, `probes` and `failures` are by sidecar."""

    def policy(capability: Capability, entry: SidecarEntry) -> tuple[Decision, str]:
        return Decision.ASK, "default"

    programs = fields.pop("programs", {entry.id: _program() for entry in entries})
    probes, failures = fields.pop("probes", {}), fields.pop("failures", {})
    trusted = fields.pop("trusted", frozenset(entry.id for entry in entries))
    decide = fields.pop("policy", policy)
    facts = [
        SidecarFacts(
            entry=entry,
            program=programs.get(entry.id),
            core="0.1.0",
            policy=decide,
            trusted=entry.id in trusted,
            observation=_observation(probes.get(entry.id), failures.get(entry.id)),
        )
        for entry in entries
    ]
    registry = Registry(app_root="/root", config_dir="/config", workspace="/root", entries=entries)
    given: dict[str, Any] = {"registry": registry, "now": 1_700_000_000.0}
    return build_catalog(sidecars=facts, **(given | fields))


@pytest.fixture
def make_entry() -> Callable[..., SidecarEntry]:
    return _entry


@pytest.fixture
def make_program() -> Callable[..., ResolvedProgram]:
    return _program


@pytest.fixture
def make_facts() -> Callable[..., SidecarFacts]:
    return _sidecar_facts


@pytest.fixture
def make_catalog() -> Callable[..., Catalog]:
    return _catalog
