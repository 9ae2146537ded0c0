"""The sandbox level of an entry's calls on this machine, the weakest level that they may have, and which of
the declared permissions are enforced."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from flycore.model.catalog import Catalog
from flycore.model.enums import Level
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.model.stability import PermissionReport, SandboxReport
from flycore.model.tool_exec import HttpExec
from flycore.model.url_template import literal_host
from flycore.sandbox.detection import SandboxSupport
from flycore.sandbox.limit_report import limit_rows
from flysafe.control_groups import memory_control

CONFINING = (Level.ENFORCED, Level.DEGRADED)
"""The levels at which a program is started confined."""
MECHANISM = "own session, resource limits, closed descriptors, environment allow-list"
"""What every level has."""
MECHANISMS = {
    Level.ENFORCED: "bubblewrap and a filter of system calls",
    Level.DEGRADED: (
        "Landlock and a filter of system calls; names of other processes, and sizes, times and modes of other"
        " files, stay in reach; protected files in a folder that may be written are not held, only looked at"
        " after the call"
    ),
}
NOT_ENFORCED = "not enforced"
ELSEWHERE = f"{NOT_ENFORCED}: the server runs on another machine, or was started by somebody else"
NOTHING_WORKS = f"{NOT_ENFORCED}: no sandbox works on this machine"
ON_THE_DESKTOP = "cannot be: a tool that works on the desktop cannot be kept from it"
_CONTROLS = f"{NOT_ENFORCED}: it controls programs outside a sandbox, and reaches what they reach"
_OWN = "; the program is one of flytui's own"
_BY_KERNEL = "flytui sends the request itself, to this host and to what it redirects to, and starts nothing"
_OUTSIDE = ("browser.", "audio.speak")
"""Tools of flytui's own that work by a program of this desktop: a browser, or the sound server."""


def sandbox_level(entry: SidecarEntry, support: SandboxSupport, *, bundled: bool) -> Level:
    """Return the level at which the entry's programs run here. `bundled` says that the program is an
    unmodified sidecar of this distribution."""
    if controls_host(entry, bundled=bundled):
        return Level.HOST_CONTROL
    return support.best if is_confinable(entry, bundled=bundled) else Level.NONE


def minimum_level(entry: SidecarEntry, *, bundled: bool) -> Level:
    """Return the weakest level at which the entry's tools may run, as long as the user's settings name no
    other for a tool."""
    # What no sandbox can hold has no minimum, else it could not run at all; each card shows that.
    if not is_confinable(entry, bundled=bundled) or bundled:
        return Level.NONE
    return Level.ENFORCED if entry.creator else Level.DEGRADED


def is_confinable(entry: SidecarEntry, *, bundled: bool) -> bool:
    """Whether the entry's programs run in the sandbox where this machine has one."""
    return not entry.url and not controls_host(entry, bundled=bundled)


def controls_host(entry: SidecarEntry, *, bundled: bool) -> bool:
    """Whether the entry's tools work by programs of this desktop, from which no sandbox can keep them."""
    if entry.permissions.desktop:
        return True
    # A name alone makes no other program such a one: it would leave the sandbox by it.
    return bundled and any(name.startswith(_OUTSIDE) for name in entry.tool_names)


def report(entry: SidecarEntry, support: SandboxSupport, *, bundled: bool) -> SandboxReport:
    """Return the level of the entry's calls, and for each permission and limit whether it is enforced."""
    level = sandbox_level(entry, support, bundled=bundled)
    if isinstance(entry.exec, HttpExec):
        return _request_report(entry, entry.exec)
    open_because = "" if level in CONFINING else _why_open(entry, level, bundled=bundled)
    return _report(
        entry.effective_permissions, limit_rows(entry, memory_control().why_not), level, open_because
    )


def sandbox_in_words(catalog: Catalog) -> str:
    """Return for how many sidecars the sandbox is in force, and at which level: `enforced for 3 of 5`."""
    found = [view.stability.evidence.sandbox for view in catalog.sidecars]
    given = [report.level for report in found if report is not None]
    parts = [f"{level} for {given.count(level)} of {len(given)}" for level in CONFINING if level in given]
    return ", ".join(parts) or NOT_ENFORCED


def _why_open(entry: SidecarEntry, level: Level, *, bundled: bool) -> str:
    own = _OWN if bundled else ""
    if level is Level.HOST_CONTROL:
        return _CONTROLS + own
    if entry.url:
        return ELSEWHERE
    return NOTHING_WORKS + own


def _request_report(entry: SidecarEntry, request: HttpExec) -> SandboxReport:
    """The report of a request that flytui sends itself: nothing is started, and so nothing is confined."""
    host = literal_host(request.url)
    reach = (
        f"{request.method} to {host}" if host else f"{request.method} to a public host that the input names"
    )
    rows = (
        PermissionReport(name="network", declared=reach, enforced=True, why=_BY_KERNEL),
        *(
            PermissionReport(name=name, declared="none", enforced=True, why="nothing is started")
            for name in ("files read", "files write")
        ),
        PermissionReport(
            name="secrets",
            declared=_names(entry.permissions.secrets),
            enforced=True,
            why="the request holds those that it names, and a redirect to another origin holds none",
        ),
    )
    limits = limit_rows(entry, "")
    return SandboxReport(level=Level.NONE, mechanism=_BY_KERNEL, permissions=rows, limits=limits)


@lru_cache(maxsize=1_024)
def _report(
    permissions: Permissions, limits: tuple[PermissionReport, ...], level: Level, open_because: str
) -> SandboxReport:
    mechanism = MECHANISMS.get(level, MECHANISM)
    return SandboxReport(
        level=level,
        mechanism=mechanism,
        permissions=tuple(_rows(permissions, open_because, mechanism)),
        limits=limits,
    )


def _rows(permissions: Permissions, open_because: str, mechanism: str) -> Iterator[PermissionReport]:
    enforced, why = not open_because, open_because or mechanism
    network = "this machine's whole network" if permissions.network else "none"
    yield PermissionReport(name="network", declared=network, enforced=enforced, why=why)
    for name, paths in (("files read", permissions.read), ("files write", permissions.write)):
        declared = _names(paths)
        yield PermissionReport(name=name, declared=declared, enforced=enforced, why=why)
    yield PermissionReport(
        name="secrets",
        declared=_names(permissions.secrets),
        enforced=True,
        why="its environment holds the declared ones and no other",
    )
    if permissions.desktop:
        yield PermissionReport(
            name="desktop", declared="sees and controls the screen", enforced=False, why=ON_THE_DESKTOP
        )


def _names(names: tuple[str, ...]) -> str:
    # A folder may be called none: written plainly it would read as no permission at all.
    return ", ".join("“none”" if name == "none" else name for name in names) or "none"


# How the tools of the kernel itself are held.


_BELOW_DESCRIPTOR = "flytui opens each path below the descriptor of the project folder"


def builtin_report(support: SandboxSupport, entry: SidecarEntry, *, own: bool) -> SandboxReport:
    """Return how a call is held. With `own` the kernel carries it out itself."""
    return own_report(entry) if own else report(entry, support, bundled=False)


def own_report(entry: SidecarEntry) -> SandboxReport:
    """Return how the kernel holds itself to what a tool declares."""
    declared = {"files read": entry.permissions.read, "files write": entry.permissions.write}
    rows = [PermissionReport(name="network", declared="none", enforced=True, why=_BELOW_DESCRIPTOR)]
    rows += [
        PermissionReport(name=name, declared=", ".join(paths) or "none", enforced=True, why=_BELOW_DESCRIPTOR)
        for name, paths in declared.items()
    ]
    rows.append(PermissionReport(name="secrets", declared="none", enforced=True, why=_BELOW_DESCRIPTOR))
    return SandboxReport(
        level=Level.NONE, mechanism=f"no program runs: {_BELOW_DESCRIPTOR}", permissions=tuple(rows)
    )
