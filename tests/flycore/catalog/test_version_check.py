"""Declared versions against the kernel's, the protocol's and the installed package's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flycore.catalog.version import check_versions
from flycore.model.enums import RUNNABLE_KINDS, Kind
from flycore.model.sidecar import SidecarEntry


@pytest.mark.parametrize(
    ("fields", "core", "installed", "state", "code"),
    [
        ({}, "0.1.0", None, "unknown", None),
        ({}, "0.1.0", "0.1.0", "compatible", None),
        ({"compatible_core": ">=0.1,<1"}, "0.1.0", None, "compatible", None),
        ({"compatible_core": ">=0.1,<1"}, "0.2.0rc1", None, "compatible", None),
        ({"compatible_core": ">=0.1"}, "0.1.0.dev1", None, "incompatible", "core-incompatible"),
        ({"compatible_core": ">=2"}, "0.1.0", None, "incompatible", "core-incompatible"),
        ({"compatible_core": "two"}, "0.1.0", None, "incompatible", "core-incompatible"),
        ({"protocol_version": "1"}, "0.1.0", None, "compatible", None),
        ({"protocol_version": ">=1,<3"}, "0.1.0", None, "compatible", None),
        ({"protocol_version": "2"}, "0.1.0", None, "incompatible", "protocol-incompatible"),
        ({"protocol_version": "one"}, "0.1.0", None, "incompatible", "protocol-incompatible"),
        ({"protocol_version": "process-json/1"}, "0.1.0", None, "compatible", None),
        ({"protocol_version": "process-json/2"}, "0.1.0", None, "incompatible", "protocol-incompatible"),
        ({"compatible_core": "^0.1.0"}, "0.1.5", None, "compatible", None),
        ({"compatible_core": "^0.3.0"}, "0.4.0", None, "incompatible", "core-incompatible"),
        ({"package_id": "p"}, "0.1.0", None, "unknown", None),
        ({"package_id": "p"}, "0.1.0", "1.0", "compatible", None),
        ({"package_version": "1.4.0"}, "0.1.0", None, "unknown", None),
        ({"package_version": "1.4.0"}, "0.1.0", "1.4", "compatible", None),
        ({"package_version": "1.4.0"}, "0.1.0", "1.3", "unknown", "version-unknown"),
        ({"package_version": "odd"}, "0.1.0", "odd", "compatible", None),
        ({"package_version": "odd"}, "0.1.0", "1.0", "unknown", "version-unknown"),
        ({"compatible_core": ">=2", "package_id": "p"}, "0.1.0", "1", "incompatible", "core-incompatible"),
    ],
)
def test_versions(
    make_entry: Callable[..., SidecarEntry],
    fields: dict[str, Any],
    core: str,
    installed: str | None,
    state: str,
    code: str | None,
) -> None:
    found, reason, evidence = check_versions(
        make_entry(**fields), core=core, protocols=("1",), installed_version=installed
    )
    assert found == state
    assert (reason.code if reason else None) == code
    assert reason is None or reason.remedy
    assert (evidence.core, evidence.installed_version) == (core, installed)


def test_this_version_runs_every_kind(make_entry: Callable[..., SidecarEntry]) -> None:
    assert set(RUNNABLE_KINDS) == set(Kind)
    for kind in Kind:
        _, reason, _ = check_versions(
            make_entry(kind=kind), core="0.1.0", protocols=("1",), installed_version=None
        )
        assert reason is None


def test_remedy_names_the_kinds_that_run(
    make_entry: Callable[..., SidecarEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A version that runs fewer kinds: this one runs all.
    monkeypatch.setattr("flycore.catalog.version.RUNNABLE_KINDS", (Kind.PROCESS_JSON,))
    state, reason, _ = check_versions(
        make_entry(kind=Kind.EXECUTABLE), core="0.1.0", protocols=("1",), installed_version=None
    )
    assert state == "incompatible"
    assert reason is not None
    assert reason.code == "kind-unsupported"
    assert "process-json" in reason.remedy
