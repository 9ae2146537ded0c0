"""The lock of a root, where its file system or its owner does not let it be locked."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from flycore.kernel.lock import RootLock, living_holder, start_turn
from flycore.model.enums import KernelRole
from flycore.model.errors import RootBusy, StateUnwritable
from flycore.registry.paths import RootPaths, find_paths


@pytest.fixture
def places(tmp_path: Path) -> RootPaths:
    return find_paths(str(tmp_path), None, {"HOME": str(tmp_path / "home")}, tmp_path)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named_with_what_to_do(
    places: RootPaths, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def no_locks(fd: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with (
        pytest.raises(StateUnwritable, match="no locks: set XDG_STATE_HOME"),
        RootLock.acquire(places, KernelRole.HEADLESS),
    ):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT TESTED: root may write everywhere")
def test_a_state_folder_that_may_not_be_written_is_named_with_what_to_do(places: RootPaths) -> None:
    above = places.state_dir.parent.parent.parent
    above.mkdir(parents=True)
    above.chmod(0o500)
    for opening in (RootLock.acquire(places, KernelRole.HEADLESS), start_turn(places)):
        with pytest.raises(StateUnwritable, match="XDG_STATE_HOME"), opening:
            pass
    above.chmod(0o700)


def test_one_of_several_starters_has_the_turn(places: RootPaths) -> None:
    with start_turn(places) as first, start_turn(places) as second:
        assert (first, second) == (True, False)
    with start_turn(places) as third:
        assert third


def test_the_holder_says_whether_it_gives_way(places: RootPaths) -> None:
    for on_demand in (True, False):
        with RootLock.acquire(places, KernelRole.HEADLESS, on_demand=on_demand):
            holder = living_holder(places)
            assert holder is not None
            assert (holder.pid, holder.on_demand) == (os.getpid(), on_demand)
            with pytest.raises(RootBusy) as busy, RootLock.acquire(places, KernelRole.CONSOLE):
                pass
            assert busy.value.on_demand is on_demand
    assert living_holder(places) is None
