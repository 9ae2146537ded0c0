"""Kits: what a file may say, each fault with its place, which of two wins, and what no kit can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import flycore
from flycore.catalog.bindings import binds
from flycore.catalog.builtin import KNOWN
from flycore.discovery.kits import builtin_kits, parse_kits
from flycore.discovery.scan import scan, search_roots
from flycore.model.described import Described, DescribedState, Origin, SourceKind
from flycore.model.diagnostics import Severity
from flycore.registry.paths import find_paths
from kits.kernel import folders
from kits.tables import each_row


def kit(**other: Any) -> dict[str, Any]:
    """A kit with nothing wrong, but for what is given."""
    right = {
        "id": "own.kit",
        "kind": "capability",
        "name": "Own",
        "version": "1.0",
        "permissions": ["network"],
        "capabilityBindings": ["web.*"],
        "eventSubscriptions": ["tool"],
    }
    return {key: value for key, value in {**right, **other}.items() if value is not None}


def read(*kits: Any, **frame: Any) -> list[Described]:
    """The kits of a file of the project that says this."""
    text = json.dumps({"schemaVersion": 1, "kits": list(kits), **frame}, indent=1)
    return parse_kits(text, "tools/kits/kits.jsonc", Origin.PROJECT)


class World:
    """A project and a home, and what is found around them."""

    def __init__(self, base: Path) -> None:
        self.root = base / "project"
        self.home = base / "home"
        self.root.mkdir()
        self.home.mkdir()
        self.environ = folders(self.home)
        self.places = find_paths(str(self.root), None, self.environ, self.root)

    def look(self) -> list[Described]:
        return list(scan(search_roots(self.places, self.environ)))

    def write(self, path: Path, *kits: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schemaVersion": 1, "kits": list(kits)}))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_flytui_describes_itself_without_a_fault_and_binds_only_what_there_is() -> None:
    kits = builtin_kits()
    assert {kit.type for kit in kits} == {"cli", "tui", "gateway", "capability"}
    for item in kits:
        assert item.state is DescribedState.LISTED, item.reasons
        assert item.version == flycore.__version__
        for binding in item.bindings:
            assert any(binds(binding.name, name) for name in KNOWN), binding.name


def test_the_documented_kit_is_right() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "kits.md").read_text()
    text = page.partition("```jsonc kits\n")[2].partition("```")[0]
    (found,) = parse_kits(text, "tools/kits/kits.jsonc", Origin.PROJECT)
    assert found.state is DescribedState.LISTED
    assert not found.reasons


def test_a_right_kit_is_listed_with_all_it_says() -> None:
    (found,) = read(kit())
    assert found.state is DescribedState.LISTED
    assert not found.reasons
    assert (found.kind, found.id, found.type, found.version) == (
        SourceKind.KIT,
        "own.kit",
        "capability",
        "1.0",
    )
    assert found.permissions == ("network",)
    assert [binding.name for binding in found.bindings] == ["web.*"]
    assert found.subscriptions == ("tool",)


@each_row(
    ("wrong", "at"),
    [
        ({"id": None}, "/kits/0"),
        ({"id": "../evil"}, "/kits/0/id"),
        ({"id": "x" * 200}, "/kits/0/id"),
        ({"kind": "daemon"}, "/kits/0/kind"),
        ({"kind": 7}, "/kits/0/kind"),
        ({"version": ""}, "/kits/0/version"),
        ({"permissions": "network"}, "/kits/0/permissions"),
        ({"permissions": ["a b"]}, "/kits/0/permissions/0"),
        ({"permissions": ["x"] * 201}, "/kits/0/permissions"),
        ({"capabilityBindings": ["*.web"]}, "/kits/0/capabilityBindings/0"),
        ({"capabilityBindings": [{}]}, "/kits/0/capabilityBindings/0"),
        ({"eventSubscriptions": ["tool", "tools"]}, "/kits/0/eventSubscriptions/1"),
        ({"command": "rm"}, "/kits/0/command"),
    ],
)
def test_each_fault_names_its_place_and_a_way_out(wrong: dict[str, Any], at: str) -> None:
    text = json.dumps({"schemaVersion": 1, "kits": [kit(**wrong), kit(id="other")]}, indent=1)
    found, other = parse_kits(text, "tools/kits/kits.jsonc", Origin.PROJECT)
    assert found.state is DescribedState.FAULTY
    assert other.state is DescribedState.LISTED
    reason = next(reason for reason in found.reasons if reason.pointer == at)
    assert reason.severity is Severity.ERROR
    assert reason.remedy
    assert reason.position is not None
    line = text.splitlines()[reason.position.line - 1]
    assert line[reason.position.column - 1 :].strip()


def test_an_unknown_key_is_told_with_the_nearest_known_one_and_does_no_harm() -> None:
    (found,) = read(kit(permission=["network"]))
    assert found.state is DescribedState.LISTED
    assert "permissions" in found.reasons[0].remedy


@each_row(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schemaVersion": 2}',
        '{"schemaVersion": 1, "kits": {}}',
        '{"schemaVersion": 1, "schemaVersion": 1}',
        "[" * 5000,
    ],
)
def test_a_file_that_cannot_be_used_is_one_faulty_line_that_says_why(text: str) -> None:
    (found,) = parse_kits(text, "tools/kits/kits.jsonc", Origin.PROJECT)
    assert found.state is DescribedState.FAULTY
    assert found.reasons[0].position is not None


def test_a_file_of_ten_thousand_kits_is_read_as_far_as_is_told() -> None:
    found = read(*(kit(id=f"k{at}") for at in range(2_000)))
    assert len(found) < 300
    assert found[-1].reasons[0].rule == "too-many"


def test_the_project_wins_over_the_person_and_nobody_poses_as_flytui_itself(world: World) -> None:
    world.write(world.root / "tools/kits/kits.jsonc", kit(), kit(id="flytui.console", name="Evil"))
    world.write(world.root / ".flyflor/kits/kits.jsonc", kit(name="Legacy"))
    world.write(world.places.config_dir / "kits/kits.jsonc", kit(name="Mine"), kit(id="mine"))
    found = world.look()
    own = {item.name: item for item in found if item.id == "own.kit"}
    assert own["Own"].state is DescribedState.LISTED
    assert own["Legacy"].state is own["Mine"].state is DescribedState.SHADOWED
    assert "tools/kits/kits.jsonc" in own["Mine"].reasons[0].message
    evil = next(item for item in found if item.name == "Evil")
    assert evil.state is DescribedState.SHADOWED
    mine = next(item for item in found if item.id == "mine")
    assert mine.state is DescribedState.LISTED
    assert str(world.home) not in mine.path
