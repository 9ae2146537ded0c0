"""Control groups (cgroup v2) by which the memory of several processes is limited together, and by which they
are ended together.

flytui makes groups only below one that was delegated to it: one that belongs to its user, that carries the
mark which systemd gives to a delegated group (`user.delegate`), and in which no other program runs. It never
asks for one, and changes no other group. The rules are those of the kernel's
`Documentation/admin-guide/cgroup-v2.rst` and of systemd's `CGROUP_DELEGATION`:

    delegated group    memory is enabled for its children, so it may hold no process itself
      ├── flytui          flytui's own processes
      ├── flytui-call-7-1  the processes of one call, with its limit
      └── flytui-call-7-2

What is decided follows from texts of the system alone (`find_delegation`), and `MemoryGroups` acts.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

OWN_NAME = "flytui"
"""The group of flytui's own processes."""
CALL_PREFIX = "flytui-call-"
HOW_TO_DELEGATE = "start flytui by `systemd-run --user --scope -p Delegate=yes flytui` to have one"
NO_HIERARCHY = "this system shows no control groups of version 2"
NO_CONTROLLER = "the control groups of version 2 have no memory controller here"
NOT_DELEGATED = f"no control group was delegated to flytui; {HOW_TO_DELEGATE}"
OTHER_PROCESSES = f"other programs run in the control group of flytui; {HOW_TO_DELEGATE}"
_MARK = "user.delegate"
_ESCAPED = re.compile(r"\\([0-7]{3})")


class GroupTexts(NamedTuple):
    """What the system shows of one group: the contents of its files."""

    owner: int
    """The user whom the folder and its files `cgroup.procs` and `cgroup.subtree_control` belong to; -1 where
    they differ or are missing."""
    delegated: bool
    """Whether it carries the mark of a delegated group."""
    controllers: str
    enabled: str
    """The controllers of its children: `cgroup.subtree_control`."""
    processes: str


class Delegation(NamedTuple):
    """The group below which calls get groups of their own, or why there is none."""

    group: str = ""
    settled: bool = False
    """Whether flytui's own processes are in their group already."""
    enabled: bool = False
    """Whether memory is enabled for its children already."""
    why_not: str = ""


def own_groups(cgroup: str, mountinfo: str) -> tuple[str, ...]:
    """Return the folder of this process's group and those of the groups above it, as far as they are shown.

    The texts are those of `/proc/self/cgroup` and `/proc/self/mountinfo`. Empty without version 2.
    """
    named = [line[len("0::") :] for line in cgroup.splitlines() if line.startswith("0::/")]
    for line in mountinfo.splitlines() if named else ():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if after.split(" ")[0] != "cgroup2" or len(fields) < 6:
            continue
        root, point = (_ESCAPED.sub(lambda found: chr(int(found[1], 8)), field) for field in fields[3:5])
        relative = os.path.relpath(named[0], root)
        # A group outside of what this mount shows has a path with `..`, by either of the two.
        if ".." in (*relative.split("/"), *named[0].split("/"), *root.split("/")):
            continue
        folders = [os.path.normpath(os.path.join(point, relative))]
        while folders[-1] != point and len(folders[-1]) > len(point):
            folders.append(os.path.dirname(folders[-1]))
        return tuple(folders)
    return ()


def find_delegation(groups: Sequence[tuple[str, GroupTexts]], user: int, process: int) -> Delegation:
    """Return the group that was delegated to the program of this process and user, or why there is none.

    `groups` is the process's own group and those above it, in that order.
    """
    if not groups:
        return Delegation(why_not=NO_HIERARCHY)
    # A kernel that a supervisor has started is in the group of flytui's own processes from the beginning.
    settled = os.path.basename(groups[0][0]) == OWN_NAME and len(groups) > 1
    path, texts = groups[1 if settled else 0]
    enabled = "memory" in texts.enabled.split()
    if not enabled and "memory" not in texts.controllers.split():
        return Delegation(why_not=NO_CONTROLLER)
    if texts.owner != user or not texts.delegated:
        return Delegation(why_not=NOT_DELEGATED)
    own = set() if settled else {str(process)}
    if not set(texts.processes.split()) <= own:
        return Delegation(why_not=OTHER_PROCESSES)
    return Delegation(path, settled, enabled)


def read_group(folder: str) -> GroupTexts:
    """Return the texts of a group; what cannot be read is empty."""
    files = [os.path.join(folder, name) for name in ("", "cgroup.procs", "cgroup.subtree_control")]
    try:
        owners = {os.stat(path).st_uid for path in files}
    except OSError:
        owners = set()
    try:
        mark = os.getxattr(folder, _MARK)
    except OSError:
        mark = b""
    return GroupTexts(
        owner=owners.pop() if len(owners) == 1 else -1,
        delegated=mark == b"1",
        controllers=_read(os.path.join(folder, "cgroup.controllers")),
        enabled=_read(files[2]),
        processes=_read(files[1]),
    )


def look_for_delegation() -> Delegation:
    """Return what was delegated to this process. Changes nothing."""
    folders = own_groups(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo"))
    groups = [(folder, read_group(folder)) for folder in folders[:2]]
    return find_delegation(groups, os.geteuid(), os.getpid())


def settle() -> Delegation:
    """Move this process into the group of flytui's own processes, where a group was delegated to it.

    Called before it has started another process: those that it starts later are in that group by themselves.
    """
    found = look_for_delegation()
    if not found.group or found.settled:
        return found
    try:
        own = os.path.join(found.group, OWN_NAME)
        with suppress(FileExistsError):
            os.mkdir(own, 0o755)
        _write(os.path.join(own, "cgroup.procs"), "0")
    except OSError as error:
        return Delegation(why_not=f"its control group cannot be used: {error}")
    return look_for_delegation()


class MemoryGroup:
    """The group of one call's processes. Its owner closes the entrance once the first one is in it, and calls
    `remove` once all have ended."""

    __slots__ = ("_folder", "_groups", "entrance")

    def __init__(self, groups: MemoryGroups, folder: str, entrance: int) -> None:
        self._groups, self._folder = groups, folder
        self.entrance = entrance
        """A descriptor of the group's `cgroup.procs`: a process that writes 0 to it moves into the group."""

    def take(self, process: int) -> None:
        """Move that process into the group, and close the entrance. Raises OSError."""
        os.write(self.entrance, str(process).encode())
        self.close_entrance()

    def close_entrance(self) -> None:
        """Close the descriptor."""
        if self.entrance >= 0:
            os.close(self.entrance)
            self.entrance = -1

    def processes(self) -> frozenset[int]:
        """Return the ids of the processes that are in the group now, without zombies."""
        return frozenset(map(int, _read(os.path.join(self._folder, "cgroup.procs")).split()))

    def kill(self) -> None:
        """Kill all its processes, and those that they are starting. Does nothing before Linux 5.14."""
        with suppress(OSError):
            _write(os.path.join(self._folder, "cgroup.kill"), "1")

    def exceeded(self) -> bool:
        """Return whether the system has ended processes of the group because of its limit."""
        counts = dict(
            line.split(" ", 1)
            for line in _read(os.path.join(self._folder, "memory.events")).splitlines()
            if " " in line
        )
        return int(counts.get("oom_kill", "0")) > 0

    def remove(self) -> None:
        """Remove the group, now or when its last process has gone."""
        self.close_entrance()
        self._groups.remove(self._folder)


class MemoryGroups:
    """The groups of all calls of this process, below a delegated group."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._left: list[str] = []

    def prepare(self, delegation: Delegation) -> None:
        """Enable memory for the groups, and remove those that a killed process has left. Raises OSError."""
        if not delegation.enabled:
            _write(os.path.join(self._folder, "cgroup.subtree_control"), "+memory")
        for name in os.listdir(self._folder):
            owner = name.removeprefix(CALL_PREFIX).partition("-")[0]
            # One that has processes cannot be removed. The process may live and be about to use an empty one.
            if name.startswith(CALL_PREFIX) and owner.isdecimal() and not os.path.exists(f"/proc/{owner}"):
                with suppress(OSError):
                    os.rmdir(os.path.join(self._folder, name))

    def create(self, most_bytes: int) -> MemoryGroup:
        """Make a group whose processes together may use so much memory. Raises OSError."""
        self.remove_left()
        folder = os.path.join(self._folder, f"{CALL_PREFIX}{os.getpid()}-{next(self._numbers)}")
        os.mkdir(folder, 0o755)
        try:
            _write(os.path.join(folder, "memory.max"), str(most_bytes))
            # Without swap the limit is one of memory. A system without it has no such file.
            with suppress(FileNotFoundError):
                _write(os.path.join(folder, "memory.swap.max"), "0")
            # A program that lost one of its processes might go on and answer; so all of them end together.
            _write(os.path.join(folder, "memory.oom.group"), "1")
            entrance = os.open(os.path.join(folder, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self.remove(folder)
            raise
        return MemoryGroup(self, folder, entrance)

    def remove(self, folder: str) -> None:
        """Remove the group of a call, or note it to be removed later."""
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            # EBUSY: a process that was killed is still on its way out.
            self._left.append(folder)

    def remove_left(self) -> bool:
        """Remove the groups that were still in use. Returns whether some still are."""
        left, self._left = self._left, []
        for folder in left:
            self.remove(folder)
        return bool(self._left)


class MemoryControl(NamedTuple):
    """How the memory of a call's processes is limited together here."""

    groups: MemoryGroups | None = None
    why_not: str = ""
    """Why it is not; empty where it is."""


# What is delegated is delegated to the process as a whole, and so is this: nothing, or what was found.
_claimed: list[MemoryControl] = []


def claim() -> MemoryControl:
    """Find the delegated group, once, and prepare it for the groups of calls. Called before a process has
    started another one."""
    if not _claimed:
        found = settle()
        control = MemoryControl(why_not=found.why_not)
        if found.group:
            groups = MemoryGroups(found.group)
            try:
                groups.prepare(found)
                control = MemoryControl(groups)
            except OSError as error:
                control = MemoryControl(why_not=f"its control group cannot be used: {error}")
        _claimed.append(control)
    return _claimed[0]


def memory_control() -> MemoryControl:
    """Return what this process has claimed. One that has claimed nothing has no groups, and says only whether
    a kernel that is started as it was would have them."""
    return _claimed[0] if _claimed else _unclaimed()


@cache
def _unclaimed() -> MemoryControl:
    return MemoryControl(why_not=look_for_delegation().why_not)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
