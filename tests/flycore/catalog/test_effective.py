"""`effective` over every combination of states, against a table written from the specification alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from flycore.catalog.snapshot import effective
from flycore.model.enums import (
    Discovery,
    Manifest,
    PathState,
    ProbeState,
    RuntimeState,
    SandboxState,
    UpgradeState,
    VersionState,
)
from flycore.model.stability import Evidence, Stability, VersionEvidence
from kits.tables import each_row

DIMENSIONS = {
    "manifest": Manifest,
    "path": PathState,
    "version": VersionState,
    "probe": ProbeState,
    "runtime": RuntimeState,
    "sandbox": SandboxState,
    "upgrade": UpgradeState,
}
STOPS = {
    ("discovery", "missing"),
    ("manifest", "invalid"),
    ("path", "unresolved"),
    ("path", "outside-root-denied"),
    ("version", "incompatible"),
    ("upgrade", "applying"),
    ("upgrade", "rollback-required"),
    ("upgrade", "failed"),
    ("probe", "unavailable"),
    ("sandbox", "denied"),
}
WORSENS = {
    ("runtime", "failed"),
    ("runtime", "timed-out"),
    ("runtime", "schema-error"),
    ("probe", "degraded"),
    ("upgrade", "staged"),
    ("sandbox", "quota-limited"),
}


def _combinations(discovery: Discovery) -> Iterator[dict[str, object]]:
    choices = [[None, *values] for values in DIMENSIONS.values()]
    for states in product(*choices):
        yield {"discovery": discovery, **dict(zip(DIMENSIONS, states, strict=True))}


def _oracle(states: dict[str, object], package: bool) -> str:
    said = {(name, str(state)) for name, state in states.items() if state is not None}
    if ("discovery", "disabled") in said:
        return "disabled"
    if said & STOPS:
        return "unavailable"
    if said & WORSENS or (("version", "unknown") in said and package):
        return "degraded"
    return "available"


@each_row("package", [False, True])
@each_row("discovery", list(Discovery))
def test_every_combination(discovery: Discovery, package: bool) -> None:
    declared, installed = ("1.0", "2.0") if package else (None, None)
    versions = VersionEvidence(core="0.1.0", package_version=declared, installed_version=installed)
    evidence = Evidence(version=versions)
    wrong = [
        states
        for states in _combinations(discovery)
        if effective(Stability(**states, evidence=evidence)) != _oracle(states, package)  # type: ignore[arg-type]  # states by name
    ]
    assert wrong == []


@pytest.mark.parametrize(("installed", "word"), [("2.0", "degraded"), (None, "available")])
def test_package_id_alone_declares_a_package_and_one_that_is_not_found_says_nothing(
    installed: str | None, word: str
) -> None:
    version = VersionEvidence(core="0.1.0", package_id="search-web", installed_version=installed)
    found = Stability(
        discovery=Discovery.CONFIGURED, version=VersionState.UNKNOWN, evidence=Evidence(version=version)
    )
    assert effective(found) == word
