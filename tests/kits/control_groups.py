"""Control groups for tests: a tree of ordinary files that behaves like one, and a real delegated group."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flysafe import control_groups
from flysafe.control_groups import own_groups

FILES = ("cgroup.procs", "cgroup.subtree_control", "cgroup.controllers", "memory.max", "memory.oom.group")
EVENTS = "low 0\nhigh 0\nmax 0\noom 0\noom_kill {killed}\noom_group_kill 0\n"
TRIAL_S = 240.0


@contextlib.contextmanager
def tree_of_files(patch: pytest.MonkeyPatch, *more: str) -> Iterator[None]:
    """Let each folder that is made for a call have the files of a group, and lose them when it is removed,
    unless it has a file `busy`."""
    make, remove = os.mkdir, os.rmdir

    def made(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        make(path, mode, dir_fd=dir_fd)
        if _is_of_call(path):
            for name in (*FILES, *more):
                Path(path, name).touch()
            Path(path, "memory.events").write_text(EVENTS.format(killed=0))

    def removed(path: str, *, dir_fd: int | None = None) -> None:
        if _is_of_call(path) and not Path(path, "busy").exists():
            for file in Path(path).iterdir():
                file.unlink()
        remove(path, dir_fd=dir_fd)

    with patch.context() as inner:
        inner.setattr(os, "mkdir", made)
        inner.setattr(os, "rmdir", removed)
        yield


def _is_of_call(path: str) -> bool:
    return os.path.isabs(path) and os.path.basename(path).startswith(control_groups.CALL_PREFIX)


def run_in_delegated_group(script: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run the Python program as the only one in a group that was delegated to it. Skips, loudly, where this
    machine gives none."""
    command = [sys.executable, str(script)]
    if _can_ask_systemd():
        asked = ["systemd-run", "--user", "--scope", "--quiet", "-p", "Delegate=yes", *command]
        return subprocess.run(asked, capture_output=True, text=True, timeout=TRIAL_S, check=False)
    group = _made_by_root(tmp_path.name)
    try:
        # The shell moves itself and then becomes the program.
        enters = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
        asked = ["/bin/sh", "-c", enters, "sh", *command]
        return subprocess.run(asked, capture_output=True, text=True, timeout=TRIAL_S, check=False)
    finally:
        for folder in (group / control_groups.OWN_NAME, group):
            if folder.exists():
                folder.rmdir()


def _can_ask_systemd() -> bool:
    if not shutil.which("systemd-run") or not os.environ.get("XDG_RUNTIME_DIR"):
        return False
    asked = ["systemd-run", "--user", "--scope", "--quiet", "-p", "Delegate=yes", "/bin/true"]
    return subprocess.run(asked, capture_output=True, timeout=60, check=False).returncode == 0


def _made_by_root(name: str) -> Path:
    """A group of root's own at the top of the hierarchy, with the mark of a delegated one."""
    folders = own_groups(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    top = Path(folders[-1]) if folders else Path("/nonexistent")
    enabled = top / "cgroup.subtree_control"
    if os.geteuid() or not enabled.exists() or "memory" not in enabled.read_text().split():
        pytest.skip("NOT TESTED, no control group with a memory controller can be had on this machine")
    group = top / f"flytui-test-{os.getpid()}-{name}"
    group.mkdir()
    os.setxattr(group, "user.delegate", b"1")
    return group
