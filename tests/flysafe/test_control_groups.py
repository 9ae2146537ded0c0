"""Which control group was delegated, by the texts of the system, and what is done with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flysafe.control_groups import (
    NO_CONTROLLER,
    NO_HIERARCHY,
    NOT_DELEGATED,
    OTHER_PROCESSES,
    Delegation,
    GroupTexts,
    MemoryGroups,
    find_delegation,
    look_for_delegation,
    own_groups,
)
from kits.control_groups import EVENTS, tree_of_files
from kits.tables import each_row

USER, PROCESS = 1000, 77
V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
HYBRID = V1 + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
INNER = "50 24 0:26 /outer/box /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
SPACED = "30 24 0:26 / /with\\040space rw - cgroup2 cgroup2 rw\n"


@each_row(
    ("cgroup", "mountinfo", "folders"),
    [
        ("0::/user.slice/a.scope\n", V2, ("user.slice/a.scope", "user.slice", "")),
        ("0::/\n", V2, ("",)),
        ("0::/outer/box/x\n", INNER, ("x", "")),
        ("0::/outer/box\n", INNER, ("",)),
        # A group that this mount does not show, and one outside of the process's namespace.
        ("0::/outer/other\n", INNER, None),
        ("0::/../other\n", V2, None),
        ("4:memory:/a\n1:name=systemd:/a\n", V1, None),
        ("4:memory:/a\n0::/b\n", V1, None),
        ("", V2, None),
        ("0::/a\n", "", None),
        ("0::/a\n", "no mount at all\n\n", None),
        ("0::/name with: colon (deleted)\n", V2, ("name with: colon (deleted)", "")),
    ],
)
def test_the_folders_of_the_own_group_and_those_above(
    cgroup: str, mountinfo: str, folders: tuple[str, ...] | None
) -> None:
    wanted = tuple(f"/sys/fs/cgroup/{name}".rstrip("/") for name in folders or ())
    assert own_groups(cgroup, mountinfo) == wanted


def test_a_mount_point_is_read_as_the_system_writes_it() -> None:
    assert own_groups("4:memory:/x\n0::/b\n", HYBRID) == (
        "/sys/fs/cgroup/unified/b",
        "/sys/fs/cgroup/unified",
    )
    assert own_groups("0::/b\n", SPACED) == ("/with space/b", "/with space")


DELEGATED = GroupTexts(
    owner=USER, delegated=True, controllers="cpu memory pids\n", enabled="", processes=f"{PROCESS}\n"
)
ABOVE = GroupTexts(
    owner=USER, delegated=True, controllers="cpu memory pids\n", enabled="memory\n", processes=""
)
OWN = DELEGATED._replace(delegated=False, controllers="cpu memory\n")


@each_row(
    ("own", "above", "found"),
    [
        (DELEGATED, ABOVE, Delegation("/s/a.scope")),
        (DELEGATED._replace(processes=""), ABOVE, Delegation("/s/a.scope")),
        (DELEGATED._replace(enabled="memory\n"), ABOVE, Delegation("/s/a.scope", enabled=True)),
        # The group above was delegated to somebody else, who made the own one.
        (OWN, ABOVE, Delegation(why_not=NOT_DELEGATED)),
        (DELEGATED._replace(owner=0), ABOVE, Delegation(why_not=NOT_DELEGATED)),
        (DELEGATED._replace(owner=-1), ABOVE, Delegation(why_not=NOT_DELEGATED)),
        (DELEGATED._replace(processes=f"{PROCESS}\n78\n"), ABOVE, Delegation(why_not=OTHER_PROCESSES)),
        (DELEGATED._replace(processes="7\n"), ABOVE, Delegation(why_not=OTHER_PROCESSES)),
        (DELEGATED._replace(controllers="hugetlb\n"), ABOVE, Delegation(why_not=NO_CONTROLLER)),
        (DELEGATED._replace(controllers="memory_of_another\n"), ABOVE, Delegation(why_not=NO_CONTROLLER)),
    ],
)
def test_the_own_group_is_used_where_it_was_delegated(
    own: GroupTexts, above: GroupTexts, found: Delegation
) -> None:
    assert find_delegation([("/s/a.scope", own), ("/s", above)], USER, PROCESS) == found


@each_row(
    ("above", "found"),
    [
        (ABOVE, Delegation("/s/a.scope", settled=True, enabled=True)),
        (ABOVE._replace(enabled=""), Delegation("/s/a.scope", settled=True)),
        (ABOVE._replace(delegated=False), Delegation(why_not=NOT_DELEGATED)),
        (ABOVE._replace(processes="9\n"), Delegation(why_not=OTHER_PROCESSES)),
        (ABOVE._replace(processes=f"{PROCESS}\n"), Delegation(why_not=OTHER_PROCESSES)),
    ],
)
def test_a_process_in_flytuis_own_group_uses_the_one_above(above: GroupTexts, found: Delegation) -> None:
    groups = [("/s/a.scope/flytui", OWN._replace(processes="1\n2\n77\n")), ("/s/a.scope", above)]
    assert find_delegation(groups, USER, PROCESS) == found


def test_without_a_hierarchy_that_is_said() -> None:
    assert find_delegation([], USER, PROCESS) == Delegation(why_not=NO_HIERARCHY)


def test_looking_changes_nothing_here() -> None:
    before = Path("/proc/self/cgroup").read_text()
    found = look_for_delegation()
    assert bool(found.group) is not bool(found.why_not)
    assert Path("/proc/self/cgroup").read_text() == before


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryGroups]:
    """The groups below a folder whose new folders look like groups."""
    (tmp_path / "cgroup.subtree_control").touch()
    with tree_of_files(monkeypatch, "memory.swap.max"):
        yield MemoryGroups(str(tmp_path))


def test_a_group_has_its_limit_and_an_entrance(groups: MemoryGroups, tmp_path: Path) -> None:
    descriptors = set(os.listdir("/proc/self/fd"))
    groups.prepare(Delegation(str(tmp_path)))
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"
    group = groups.create(1_000_000)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    written = {name: (folder / name).read_text() for name in ("memory.max", "memory.swap.max")}
    assert written == {"memory.max": "1000000", "memory.swap.max": "0"}
    assert (folder / "memory.oom.group").read_text() == "1"
    os.write(group.entrance, b"0")
    assert (folder / "cgroup.procs").read_text() == "0"
    assert not group.exceeded()
    (folder / "cgroup.procs").write_text("7\n8\n")
    assert group.processes() == {7, 8}
    group.kill()  # a kernel without it
    (folder / "cgroup.kill").touch()
    group.kill()
    assert (folder / "cgroup.kill").read_text() == "1"
    (folder / "memory.events").write_text(EVENTS.format(killed=1))
    assert group.exceeded()
    group.close_entrance()
    group.remove()
    assert not folder.exists()
    assert not group.exceeded()
    assert set(os.listdir("/proc/self/fd")) == descriptors


def test_what_is_enabled_stays(groups: MemoryGroups, tmp_path: Path) -> None:
    groups.prepare(Delegation(str(tmp_path), enabled=True))
    assert (tmp_path / "cgroup.subtree_control").read_text() == ""


def test_a_busy_group_is_removed_later(groups: MemoryGroups, tmp_path: Path) -> None:
    group, other = groups.create(5), groups.create(6)
    folder, busy = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    assert (folder / "memory.max").read_text() == "5"
    (busy / "busy").touch()
    other.remove()
    group.remove()
    assert groups.remove_left()
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [busy]
    (busy / "busy").unlink()
    assert not groups.remove_left()
    assert not busy.exists()


def test_a_group_that_cannot_be_limited_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tree_of_files(monkeypatch), monkeypatch.context() as inner:
        inner.setattr("kits.control_groups.FILES", ("cgroup.procs",))
        with pytest.raises(FileNotFoundError):
            MemoryGroups(str(tmp_path)).create(5)
    assert list(tmp_path.iterdir()) == []


def test_groups_of_a_dead_process_are_swept_and_no_others(groups: MemoryGroups, tmp_path: Path) -> None:
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    kept = (f"flytui-call-{os.getpid()}-1", "flytui-call-x-1", "flytui", f"other-{dead}")
    for name in (f"flytui-call-{dead}-1", f"flytui-call-{dead}-2", *kept):
        os.mkdir(tmp_path / name)
    (tmp_path / f"flytui-call-{dead}-2" / "busy").touch()
    groups.prepare(Delegation(str(tmp_path)))
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {*kept, f"flytui-call-{dead}-2"}
