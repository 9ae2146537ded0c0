"""Where a stub finds the forker, and which processes may work for each other. Standard library only."""

from __future__ import annotations

import os
import stat
import sys
from binascii import crc32

import flycore
from flysafe.runtime_folder import socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_FACTS = (
    *("Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"),
    *("NoNewPrivs:", "Seccomp:", "Seccomp_filters:"),
)
"""Lines of /proc/PID/status that say what a process may do."""


def forker_socket(environ: Mapping[str, str]) -> str:
    """Return the path of the socket of this installation's forker."""
    # Two installations of one user must not run each other's commands.
    installation = f"{os.path.dirname(flycore.__file__)}\n{flycore.__version__}\n{sys.prefix}"
    return socket_path(f"commands-{crc32(os.fsencode(installation)):08x}.sock", environ)


def is_private_folder(path: str) -> bool:
    """Return whether only this user could have put something into the folder."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022


def may_replace(other: int) -> bool:
    """Return whether this process may do whatever the process `other` may do, and nothing more.

    False if it is not known: one of them may be confined. A command of a program in a sandbox must not run
    outside, and a person's command must not run inside.
    """
    own = _rights("self")
    return own is not None and own == _rights(str(other))


def is_confined() -> bool:
    """Return whether this process may be confined: nothing is forked for it."""
    return _rights("self") is None


def _rights(process: str) -> tuple[object, ...] | None:
    """Return what the process may do; None if that is not known."""
    folder = f"/proc/{process}"
    try:
        root = os.stat(f"{folder}/root")
        namespaces = [os.readlink(f"{folder}/ns/{name}") for name in _NAMESPACES]
        with open(f"{folder}/status", encoding="utf-8", errors="replace") as file:
            facts = [line for line in file if line.startswith(_FACTS)]
        label = _security_label(folder)
    except OSError:
        return None
    # Only a process that can gain no privileges may be confined by Landlock, of which /proc tells nothing.
    if "NoNewPrivs:\t0\n" not in facts:
        return None
    return root.st_dev, root.st_ino, namespaces, facts, label


def _security_label(folder: str) -> str:
    """Return the label of SELinux, AppArmor or the like; empty if the system has none."""
    try:
        with open(f"{folder}/attr/current", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
