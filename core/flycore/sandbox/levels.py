"""The sandbox level of a call on this machine, and which of the declared permissions are enforced."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from flycore.model.enums import Level
from flycore.model.sidecar import Limits, Permissions
from flycore.model.stability import PermissionReport, SandboxReport

MECHANISM = "own session, resource limits, closed descriptors, environment allow-list"
NOT_ENFORCED = "not enforced yet: this version has no sandbox"
_OWN = "; the program is one of flytui's own"


@lru_cache(maxsize=1_024)
def report(permissions: Permissions, limits: Limits, *, bundled: bool) -> SandboxReport:
    """The declared permissions and limits, with whether each is enforced. `bundled` says that the program is
    an unmodified sidecar of this distribution."""
    return SandboxReport(
        level=Level.HOST_CONTROL if permissions.desktop else Level.NONE,
        mechanism=MECHANISM,
        permissions=tuple(_rows(permissions, limits, NOT_ENFORCED + (_OWN if bundled else ""))),
    )


def _rows(permissions: Permissions, limits: Limits, open_because: str) -> Iterator[PermissionReport]:
    network = "this machine's whole network" if permissions.network else "none"
    yield PermissionReport(name="network", declared=network, enforced=False, why=open_because)
    for name, paths in (("files read", permissions.read), ("files write", permissions.write)):
        declared = ", ".join(paths) or "none"
        yield PermissionReport(name=name, declared=declared, enforced=False, why=open_because)
    yield PermissionReport(
        name="secrets",
        declared=", ".join(permissions.secrets) or "none",
        enforced=True,
        why="its environment holds the declared ones and no other",
    )
    if permissions.desktop:
        yield PermissionReport(
            name="desktop",
            declared="sees and controls the screen",
            enforced=False,
            why="cannot be: a tool that works on the desktop cannot be kept from it",
        )
    declared_limits = ", ".join(_limit_words(limits))
    if declared_limits:
        yield PermissionReport(
            name="limits",
            declared=declared_limits,
            enforced=True,
            why="resource limits of each process, set as it starts",
        )


def _limit_words(limits: Limits) -> Iterator[str]:
    for value, words in (
        (limits.cpu_seconds, "s cpu"),
        (limits.memory_bytes, "bytes memory"),
        (limits.file_bytes, "bytes a file"),
        (limits.open_files, "open files"),
    ):
        if value is not None:
            yield f"{value} {words}"
