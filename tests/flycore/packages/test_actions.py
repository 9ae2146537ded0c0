"""Packages are installed, upgraded, rolled back and removed. The rest of the registry stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flycore.model.enums import PackageResult, UpgradeState
from flycore.packages import actions
from flycore.packages.area import PackageArea, open_area
from flycore.packages.inventory import list_area, verify_area
from flycore.registry.jsonc.parse import parse_jsonc
from kits.packages import REGISTRY, Example, area_in, python_example, shell_example, tree_facts


def staged(area: PackageArea, source: Path) -> str:
    """Stage a version and return the digest of its review."""
    end = actions.stage(area, source, 1.0)
    assert end.outcome.result is PackageResult.COMMITTED, end.outcome
    view = next(view for view in list_area(area) if view.id == end.outcome.id)
    assert view.review is not None
    return view.review.digest


def install(area: PackageArea, example: Example, folder: Path) -> None:
    """Stage and apply a version."""
    shown = staged(area, example.folder(folder))
    end = actions.apply(area, example.id, shown)
    assert end.outcome.result is PackageResult.COMMITTED, end.outcome


def registry_of(area: PackageArea) -> str:
    return (area.registry_anchor / area.registry).read_text()


def entry_of(area: PackageArea, sidecar: str) -> object:
    value, problem = parse_jsonc(registry_of(area), "")
    assert problem is None
    assert isinstance(value, dict)
    sidecars = value["sidecars"]
    assert isinstance(sidecars, dict)
    return sidecars.get(sidecar)


@pytest.mark.parametrize("example", [python_example(), shell_example()], ids=["python", "shell"])
@pytest.mark.parametrize("form", ["folder", "tar", "zip"])
def test_each_form_of_source_installs_the_same_files(tmp_path: Path, example: Example, form: str) -> None:
    area = area_in(tmp_path)
    source = getattr(example, form)(tmp_path)
    end = actions.apply(area, example.id, staged(area, source))
    assert end.outcome.result is PackageResult.COMMITTED
    installed = area.base / area.folder / example.id
    assert tree_facts(installed) == tree_facts(example.folder(tmp_path))
    assert verify_area(area)[0].problems == ()
    assert end.entry == entry_of(area, example.id)
    assert list_area(area)[0].state is UpgradeState.IDLE


def test_an_archive_with_one_folder_stands_for_that_folder(tmp_path: Path) -> None:
    area, example = area_in(tmp_path), python_example()
    assert staged(area, example.tar(tmp_path, top="greet-1.0/"))


def test_what_is_staged_changes_nothing_that_runs(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    staged(area, shell_example().folder(tmp_path))
    assert registry_of(area) == REGISTRY
    assert not (area.base / area.folder / "greet-shell").exists()
    following = (area.registry_anchor / f"{area.registry}.next").read_text()
    assert following.startswith(REGISTRY[: REGISTRY.index("// odd")])
    assert following.endswith(REGISTRY[REGISTRY.rindex("\n  },") :])


def test_an_upgrade_and_a_rollback_keep_every_byte_outside_of_the_entry(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    install(area, shell_example("1.0.0", "one"), tmp_path)
    registry = area.registry_anchor / area.registry
    # The person writes comments into the entry, and changes a value of it.
    text = registry.read_text().replace(
        '"packageVersion"', '/* mine */ "timeoutMs": 1234, "packageVersion"', 1
    )
    registry.write_text(text)
    before = tree_facts(area.base / area.folder / "greet-shell")
    install(area, shell_example("1.1.0", "two"), tmp_path)
    after = registry_of(area)
    assert after == text.replace('"1.0.0"', '"1.1.0"')
    assert list_area(area)[0].previous == "1.0.0"
    previous = area.base / area.folder / ".previous" / "greet-shell@1.0.0"
    assert tree_facts(previous) == before
    end = actions.roll_back(area, "greet-shell")
    assert end.outcome.result is PackageResult.COMMITTED
    assert registry_of(area) == text
    assert tree_facts(area.base / area.folder / "greet-shell") == before
    assert not list((area.base / area.folder / ".staging").iterdir())
    assert not list((area.base / area.folder / ".previous").iterdir())
    assert actions.roll_back(area, "greet-shell").outcome.result is PackageResult.FAILED


def test_a_value_that_a_person_wrote_stays(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    asks = {"permissions": {"network": True}, "timeoutMs": 5_000}
    install(area, shell_example("1.0.0", **asks), tmp_path)
    registry = area.registry_anchor / area.registry
    registry.write_text(registry.read_text().replace('"network": true', '"network": false'))
    wants = {"permissions": {"network": True, "desktop": True}, "timeoutMs": 9_000}
    staged(area, shell_example("2.0.0", **wants).folder(tmp_path))
    review = list_area(area)[0].review
    assert review is not None
    assert not review.needs_person
    assert any("permissions" in note for note in review.notes)
    assert actions.apply(area, "greet-shell", review.digest).outcome.changed
    entry = entry_of(area, "greet-shell")
    assert isinstance(entry, dict)
    assert entry["permissions"] == {"network": False}
    assert entry["timeoutMs"] == 9_000


@pytest.mark.parametrize(
    ("more", "asks"),
    [
        ({}, False),
        ({"permissions": {"network": True}}, True),
        ({"tools": [{"name": "greet-shell.greet", "inputSchema": {"type": "object"}, "risk": "high"}]}, True),
        ({"delegates": {"other": {"command": "xdotool"}}}, True),
        ({"timeoutMs": 1_000}, False),
    ],
)
def test_a_change_of_permissions_or_risk_needs_a_person(
    tmp_path: Path, more: dict[str, object], asks: bool
) -> None:
    area = area_in(tmp_path)
    staged(area, shell_example("1.0.0").folder(tmp_path))
    first = list_area(area)[0].review
    assert first is not None
    assert first.needs_person
    actions.apply(area, "greet-shell", first.digest)
    staged(area, shell_example("1.1.0", **more).folder(tmp_path))
    review = list_area(area)[0].review
    assert review is not None
    assert review.needs_person is asks


def test_a_decision_counts_only_for_what_was_shown(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    shown = staged(area, shell_example("1.0.0", "one").folder(tmp_path))
    staged(area, shell_example("1.0.0", "two").folder(tmp_path))
    end = actions.apply(area, "greet-shell", shown)
    assert end.outcome.result is PackageResult.FAILED
    assert registry_of(area) == REGISTRY


def test_staged_files_that_changed_are_not_applied(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    shown = staged(area, shell_example().folder(tmp_path))
    (area.base / area.folder / ".staging" / "greet-shell@1.0.0" / "run.sh").write_text("#!/bin/sh\n")
    assert not actions.apply(area, "greet-shell", shown).outcome.changed
    assert registry_of(area) == REGISTRY


def test_an_entry_that_was_edited_after_staging_is_not_overwritten(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    install(area, shell_example("1.0.0"), tmp_path)
    shown = staged(area, shell_example("1.1.0").folder(tmp_path))
    registry = area.registry_anchor / area.registry
    edited = registry.read_text().replace('"packageId"', '"timeoutMs": 7, "packageId"')
    assert edited != registry.read_text()
    registry.write_text(edited)
    assert not actions.apply(area, "greet-shell", shown).outcome.changed
    assert registry.read_text() == edited
    # An edit elsewhere in the file is no reason to refuse.
    shown = staged(area, shell_example("1.1.0").folder(tmp_path))
    registry.write_text(edited.replace("somebody else's", "changed"))
    assert actions.apply(area, "greet-shell", shown).outcome.changed
    assert "changed" in registry.read_text()


def test_a_removed_package_leaves_nothing(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    install(area, shell_example("1.0.0"), tmp_path)
    install(area, shell_example("1.1.0"), tmp_path)
    staged(area, shell_example("1.2.0").folder(tmp_path))
    end = actions.remove(area, "greet-shell")
    assert end.outcome.result is PackageResult.COMMITTED
    assert entry_of(area, "greet-shell") is None
    # The comma behind an entry goes with the one that came after it.
    assert "".join(registry_of(area).split()) == "".join(REGISTRY.split()).replace("]},//odd", "]}//odd")
    assert [item.name for item in (area.base / area.folder).iterdir() if item.name[0] != "."] == []
    assert not list((area.base / area.folder / ".previous").iterdir())
    assert not list((area.base / area.folder / ".staging").iterdir())
    assert list_area(area) == ()


def test_two_installers_at_once(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    shown = staged(area, shell_example().folder(tmp_path))
    with open_area(area):
        end = actions.apply(area, "greet-shell", shown)
        assert end.outcome.result is PackageResult.FAILED
        assert "another command" in end.outcome.message
        assert not actions.stage(area, python_example().folder(tmp_path), 1.0).outcome.changed
    assert actions.apply(area, "greet-shell", shown).outcome.changed


def test_a_project_without_a_registry_gets_one(tmp_path: Path) -> None:
    area = area_in(tmp_path, registry=None)
    install(area, shell_example(), tmp_path)
    assert json.loads(registry_of(area))["sidecars"].keys() == {"greet-shell"}


def test_a_registry_with_a_fault_is_not_touched(tmp_path: Path) -> None:
    area = area_in(tmp_path, registry="{ nonsense")
    end = actions.stage(area, shell_example().folder(tmp_path), 1.0)
    assert not end.outcome.changed
    assert registry_of(area) == "{ nonsense"
    assert not list((area.base / area.folder / ".staging").iterdir())


def test_an_entry_of_another_origin_is_not_taken_over(tmp_path: Path) -> None:
    taken = REGISTRY.replace('"other"', '"greet-shell"')
    area = area_in(tmp_path, registry=taken)
    end = actions.stage(area, shell_example().folder(tmp_path), 1.0)
    assert not end.outcome.changed
    assert "not of this package" in end.outcome.message


def test_folders_that_are_links_are_refused(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (area.base / "tools" / "packages").symlink_to(outside)
    assert not actions.stage(area, shell_example().folder(tmp_path), 1.0).outcome.changed
    assert not list(outside.iterdir())


def test_a_version_without_its_probe_is_rolled_back(tmp_path: Path) -> None:
    area = area_in(tmp_path)
    install(area, shell_example("1.0.0"), tmp_path)
    install(area, shell_example("1.1.0"), tmp_path)
    actions.record_probe(area, "greet-shell", "it does not answer")
    view = list_area(area)[0]
    assert (view.state, view.why) == (UpgradeState.ROLLBACK_REQUIRED, "it does not answer")
    assert view.next_step == "flytui packages rollback greet-shell"
    actions.keep_disabled(area, "greet-shell")
    assert list_area(area)[0].state is UpgradeState.FAILED
    assert actions.roll_back(area, "greet-shell").outcome.changed
    assert list_area(area)[0].state is UpgradeState.IDLE
