"""This project's own registry: no problem in it, and every state for a newcomer to see."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from flycore.catalog.builtin import KNOWN
from flycore.model.enums import PathState, ReasonCode
from flycore.model.sidecar import Registry
from flycore.registry.load import load_registry
from flycore.registry.paths import find_paths
from flycore.registry.resolve import resolve_program
from flycore.registry.source_text import key_position

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """The shipped file, and no user's."""
    environ = {"HOME": str(tmp_path)}
    places = find_paths(str(PROJECT), None, environ, tmp_path)
    return load_registry(places, known=frozenset(KNOWN), environ=environ)


def test_nothing_is_wrong_with_it(registry: Registry) -> None:
    assert registry.diagnostics == ()
    assert [entry.problems for entry in registry.entries if entry.problems] == []
    assert all(entry.enabled for entry in registry.entries)


def test_one_entry_has_no_program(registry: Registry, tmp_path: Path) -> None:
    entry = registry.entry("example.missing")
    assert entry is not None
    found = resolve_program(
        entry.command, entry.args, entry=entry, registry=registry, interpreter_dir=tmp_path, path_env=""
    )
    assert (found.state, found.reason) == (PathState.UNRESOLVED, ReasonCode.COMMAND_NOT_FOUND)
    assert f"tools/external.tools.jsonc:{key_position(entry, 'command').line}" in found.remedy


def test_no_path_of_any_machine_stands_in_it(registry: Registry) -> None:
    for entry in registry.entries:
        assert str(Path.home()) not in msgspec.json.encode(entry.raw).decode()
