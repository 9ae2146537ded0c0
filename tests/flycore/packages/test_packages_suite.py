"""S12: a kill at every system call of stage, apply, roll back and remove; errors at every one that writes.

Whatever happens, the next start finds the old version or the new one, whole, with the registry that belongs
to it, and what the action said of its end is true.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from flycore.model.enums import PackageResult, UpgradeState
from flycore.packages.area import PackageArea
from flycore.packages.inventory import list_area
from flycore.packages.records import read_records
from flycore.packages.recovery import recover_area
from kits.package_faults import Driver, act, area_of
from kits.packages import REGISTRY, shell_example, tree_facts

pytestmark = [pytest.mark.suite, pytest.mark.timeout(3_600 if os.environ.get("FLYTUI_SUITES") else 300)]
FULL = os.environ.get("FLYTUI_SUITES") == "full"
ACTIONS = ("stage", "apply", "rollback", "remove")
COMMITTED = PackageResult.COMMITTED.value
KILLS = 5
"""Kills of each action at quick size, at moments that are drawn anew each time."""
FAULTS = 4
"""Errors of each action at quick size."""
FAILING = {
    "write": "ENOSPC EIO",
    "openat": "ENOSPC EIO EMFILE",
    "openat2": "ENOSPC EIO",
    "mkdirat": "ENOSPC EIO",
    "mkdir": "ENOSPC EIO",
    "rename": "EIO ENOSPC EXDEV",
    "renameat": "EIO ENOSPC EXDEV",
    "renameat2": "EIO ENOSPC EXDEV",
    "fsync": "EIO ENOSPC",
    "unlinkat": "EIO",
    "fchmod": "EIO",
}


class Facts(NamedTuple):
    """What counts of an area: the registry, the installed files, and the record."""

    registry: str
    installed: dict[str, tuple[int, bytes]]
    records: tuple[tuple[str, str, str, str], ...]


class Ground(NamedTuple):
    """What each action starts from, and what it leads to."""

    folder: Path
    source: str
    before: dict[str, Facts]
    after: dict[str, Facts]
    driver: Driver
    calls: dict[str, dict[str, int]]


def facts_of(area: PackageArea) -> Facts:
    return Facts(
        (area.registry_anchor / area.registry).read_text(),
        tree_facts(area.base / area.folder / "greet-shell"),
        tuple(
            (
                record.state.value,
                record.installed.version if record.installed else "",
                record.staged.version if record.staged else "",
                record.previous.version if record.previous else "",
            )
            for record in read_records(area)
        ),
    )


def copy(ground: Path, action: str, name: str) -> Path:
    """Return a new copy of what the action starts from."""
    target = ground / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ground / f"for-{action}", target)
    return target


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("s12")
    sources = {version: str(shell_example(version, version).folder(folder)) for version in ("1.0.0", "1.1.0")}
    start = folder / "for-first"
    (start / "root" / "tools").mkdir(parents=True)
    (start / "root" / "tools" / "external.tools.jsonc").write_text(REGISTRY)
    steps = [("stage", "1.0.0"), ("apply", ""), ("stage", "1.1.0"), ("apply", ""), ("rollback", "")]
    names = ["first", "first-staged", "stage", "apply", "rollback", "end"]
    for (action, version), before, after in zip(steps, names, names[1:], strict=False):
        shutil.copytree(folder / f"for-{before}", folder / f"for-{after}")
        said = act(action, str(folder / f"for-{after}"), sources.get(version, ""))
        assert ended(said) == COMMITTED
    shutil.copytree(folder / "for-rollback", folder / "for-remove")
    source = sources["1.1.0"]
    before, after = {}, {}
    rehearsal = []
    for action in ACTIONS:
        before[action] = facts_of(area_of(folder / f"for-{action}"))
        done = copy(folder, action, f"done-{action}")
        assert ended(act(action, str(done), source)) == COMMITTED
        after[action] = facts_of(area_of(done))
        rehearsal.append([action, str(copy(folder, action, f"rehearsal-{action}")), source])
    with Driver(rehearsal) as driver:
        calls = {
            action: driver.calls([action, str(copy(folder, action, "counted")), source], folder / "log")
            for action in ACTIONS
        }
        yield Ground(folder, source, before, after, driver, calls)


def ended(said: str) -> str:
    return said.partition("\n")[0]


def same(found: Facts, wanted: Facts) -> bool:
    return found == wanted


def whole(ground: Ground, action: str, base: Path, said: str, what: str) -> None:
    """After the next start, the area is what it was before or after the action, as the action said."""
    area = area_of(base)
    recover_area(area)
    found = facts_of(area)
    old, new = same(found, ground.before[action]), same(found, ground.after[action])
    assert old or new, (action, what, said, found, [view.why for view in list_area(area)])
    if ended(said) == PackageResult.FAILED.value:
        assert old, (action, what, said)
    elif said:
        assert new, (action, what, said)
    assert not [record for record in read_records(area) if record.state is UpgradeState.APPLYING]
    # What was cut off does not stand in the way of the next try.
    again = act(action, str(base), ground.source) if old else COMMITTED
    assert ended(again) == COMMITTED, (action, what, said, again)
    assert same(facts_of(area), ground.after[action]), (action, what)


def drawn(moments: list[str], count: int) -> list[str]:
    """Return all moments at full size, else some of them."""
    return moments if FULL else random.sample(moments, min(count, len(moments)))


@pytest.mark.parametrize("action", ACTIONS)
def test_a_kill_at_any_system_call_leaves_the_old_or_the_new_version(ground: Ground, action: str) -> None:
    moments = [
        f"{call}:signal=KILL:when={number}"
        for call, count in ground.calls[action].items()
        for number in range(1, count + 1)
    ]
    assert len(moments) > 20
    killed = 0
    for moment in drawn(moments, KILLS):
        base = copy(ground.folder, action, "killed")
        said = ground.driver.run([action, str(base), ground.source], moment, ground.folder / "log")
        killed += not said
        whole(ground, action, base, said, moment)
    assert killed


@pytest.mark.parametrize("action", ACTIONS)
def test_an_error_of_any_system_call_ends_as_it_says(ground: Ground, action: str) -> None:
    moments = [
        f"{call}:error={error}:when={number}{more}"
        for call, errors in FAILING.items()
        for number in range(1, ground.calls[action].get(call, 0) + 1)
        for error in errors.split()
        for more in ("", "+")
    ]
    for moment in drawn(moments, FAULTS):
        base = copy(ground.folder, action, "failed")
        said = ground.driver.run([action, str(base), ground.source], moment, ground.folder / "log")
        assert not said.startswith("raised"), (action, moment, said)
        whole(ground, action, base, said, moment)


def test_moves_that_cannot_be_made_in_one_step_change_nothing(ground: Ground) -> None:
    for number in range(1, ground.calls["apply"].get("renameat", 0) + ground.calls["apply"].get("rename", 0)):
        for call in ("rename", "renameat", "renameat2"):
            if number > ground.calls["apply"].get(call, 0):
                continue
            base = copy(ground.folder, "apply", "devices")
            fault = f"{call}:error=EXDEV:when={number}"
            said = ground.driver.run(["apply", str(base), ground.source], fault, ground.folder / "log")
            whole(ground, "apply", base, said, fault)


def test_the_registry_is_what_it_was_but_for_the_entry(ground: Ground) -> None:
    texts = {facts.registry for facts in (*ground.before.values(), *ground.after.values())}
    head, tail = REGISTRY[: REGISTRY.index("}, // odd")], REGISTRY[REGISTRY.rindex("\n  },") :]
    for text in texts:
        assert text.startswith(head)
        assert text.endswith(tail)
    assert json.loads(json.dumps(sorted(map(len, texts))))
