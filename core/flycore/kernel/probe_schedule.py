"""Decides which sidecars may be probed, and which answers no longer hold.

A probe starts a process, so an answer is kept as long as nothing changed that it can rest on. What a sidecar
finds on this machine is compared instead: the programs on its PATH, the servers that listen, the sockets of
the display and of the sound server.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from flycore.catalog.observations import Answer, Observation, Surroundings
from flycore.catalog.probes import (
    DESKTOP_NAMES,
    HEALTHY_FOR_S,
    SKIPPED,
    ProbeWork,
    all_well,
    file_identity,
    work_key,
)
from flycore.catalog.snapshot import reaches_probe
from flycore.kernel.load_state import probe_work, resolve_programs
from flycore.model.catalog import SidecarView
from flycore.model.enums import EXEC_KINDS, Kind, ReasonCode
from flycore.model.json import digest
from flycore.pipeline.context import Files, RootEnvironment
from flycore.sandbox.environment import declared_secrets, search_path
from flysafe.procfs import listening_sockets

NOT_PROBED = (Kind.MCP, Kind.EXECUTABLE, *EXEC_KINDS)
"""Kinds without a probe: an MCP server's session and the question for a schema replace it; an `exec` acts."""
SETTLED_S = 120.0
"""Seconds after which what was installed or started works, if it ever does. A browser listens before it
answers, and a package manager writes a program before its data."""
_SOUND = "/dev/snd"
_X11_SOCKETS = "/tmp/.X11-unix"  # noqa: S108 - the folder of the X server's sockets, only looked at
_SAID = frozenset((ReasonCode.TOOL_UNAVAILABLE, ReasonCode.PROBE_DEGRADED))
"""Reasons by which a program itself says how it is. All others are faults of the probe, such as a timeout."""


ProbedSidecar = tuple[ProbeWork, Answer]
"""A sidecar that was probed, with its answer."""


def may_be_probed(environment: RootEnvironment, view: SidecarView) -> bool:
    """Return whether a probe may start: the sidecar is trusted, its secrets are there, and everything before
    its probe is good."""
    if not view.trusted or view.entry.kind in NOT_PROBED or not reaches_probe(view.stability):
        return False
    if declared_secrets(view.entry.permissions, environment.secret_values)[1]:
        return False
    # A probe runs the program as a call does, and so not below the level that its tools need.
    reasons = view.stability.reasons
    weak = bool(reasons) and reasons[0].code is ReasonCode.SANDBOX_UNAVAILABLE
    return view.stability.effective.usable or not weak


def probed_sidecars(
    environment: RootEnvironment, files: Files, observations: Mapping[str, Observation]
) -> tuple[ProbedSidecar, ...]:
    """Return the sidecars that this kernel has probed and whose programs are there."""
    entries = ((files.registry.entry(sidecar), item.answer) for sidecar, item in observations.items())
    return tuple(
        (probe_work(environment, files, entry), answer)
        for entry, answer in entries
        if entry is not None and answer is not None and answer.is_probed and files.is_resolved(entry.id)
    )


def outdated(probed: Iterable[ProbedSidecar], now: float) -> set[str]:
    """Return the ids of the sidecars whose answers may no longer hold. This looks at files."""
    servers = listening_sockets()
    return {work.entry.id for work, answer in probed if _is_outdated(work, answer, servers, now)}


def look_around(work: ProbeWork, before: Surroundings | None, now: float) -> Surroundings:
    """Return what the sidecar finds on this machine now; `before` if it is still that. This looks at
    files."""
    found = _digest_of(work, listening_sockets())
    return before if before is not None and before.digest == found else Surroundings(found, now)


def programs_moved(environment: RootEnvironment, files: Files) -> bool:
    """Return whether a program of an entry or of its delegates appeared, is gone, or is another file than
    when the files were read. This looks at files."""
    programs, delegates = resolve_programs(environment, files.registry, files.registry.entries)
    return any(files.programs.get(sidecar) != program for sidecar, program in programs.items()) or any(
        files.delegates.get(sidecar) != found for sidecar, found in delegates.items()
    )


def _digest_of(work: ProbeWork, servers: Iterable[str]) -> str:
    """The digest of what the sidecar finds on this machine; `servers` are the sockets that listen."""
    entry, runtime = work.entry, work.environ.get("XDG_RUNTIME_DIR", "")
    desktop = entry.permissions.desktop
    # A folder has another time of change as soon as a program or a socket appears in it or goes.
    folders = [*(entry.env.get("PATH") or search_path(work.program)).split(":"), _SOUND]
    if runtime and "XDG_RUNTIME_DIR" in (*entry.pass_env, *(DESKTOP_NAMES if desktop else ())):
        folders += [runtime, os.path.join(runtime, "pulse")]
    folders += [_X11_SOCKETS] if desktop else []
    found = {
        "work": work_key(work),
        "folders": [[folder, file_identity(folder)] for folder in folders if os.path.isabs(folder)],
        "servers": sorted(servers) if entry.permissions.network else [],
    }
    return digest(found)


def _is_outdated(work: ProbeWork, answer: Answer, servers: Iterable[str], now: float) -> bool:
    finding, seen = answer.finding, answer.surroundings
    if finding.state is SKIPPED.state or finding.evidence is None:
        return False
    if seen is None or _digest_of(work, servers) != seen.digest:
        return True
    said = finding.reason is None or finding.reason.code in _SAID
    # What a foreign program depends on is not known, so it is asked each time while it is not healthy.
    rests_on_surroundings = work.bundled and said and now - seen.since >= SETTLED_S
    if not all_well(finding) and not rests_on_surroundings:
        return True
    return not 0 <= now - finding.evidence.at < HEALTHY_FOR_S
