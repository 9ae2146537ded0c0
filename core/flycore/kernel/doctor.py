"""What Doctor checks, as pure functions over what was found. A front end adds its terminal's own."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from os import stat_result

import msgspec

from flycore.approval.entry_summary import describe_entry
from flycore.approval.trust_store import TrustStore
from flycore.audit.projection import MOST_OPEN, CallRecord, history
from flycore.audit.record import TimeRange
from flycore.audit.verify import CUT, TORN, WHOLE, verify
from flycore.kernel.effective_entries import RULE as CHANGED_RULE
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.panic import read_panic
from flycore.model.audit import Verification
from flycore.model.catalog import Catalog, SidecarView
from flycore.model.diagnostics import Check, CheckState, Diagnostic, Fix, FixKind, Position, Severity
from flycore.model.enums import Code, Effective, ReasonCode
from flycore.model.sidecar import SidecarEntry
from flycore.model.status import Status
from flycore.policy.evaluate import Policy, expired_rules
from flycore.policy.files import PolicyFile
from flycore.registry.paths import RootPaths

OLDEST_PYTHON = (3, 11)
WRITTEN_WRONG = frozenset(
    {
        ReasonCode.MANIFEST_INVALID,
        ReasonCode.OUTSIDE_ROOT_DENIED,
        ReasonCode.KIND_UNSUPPORTED,
        ReasonCode.CORE_INCOMPATIBLE,
        ReasonCode.PROTOCOL_INCOMPATIBLE,
    }
)
"""Reasons that lie in what is written; the others lie in the machine or in a choice."""
_WEIGHT = {Severity.ERROR: CheckState.FAIL, Severity.WARNING: CheckState.WARN, Severity.INFO: CheckState.OK}


def check_python(version: tuple[int, ...]) -> Check:
    """Whether the interpreter is new enough."""
    said = ".".join(map(str, version[:3]))
    if version[:2] < OLDEST_PYTHON:
        return Check(name="python", state=CheckState.FAIL, message=said, fix="install Python 3.11 or newer")
    return Check(name="python", state=CheckState.OK, message=said)


def check_registry(files: tuple[str, ...], diagnostics: tuple[Diagnostic, ...]) -> Iterator[Check]:
    """Which files were read, and what is wrong with registry and settings as wholes."""
    if files:
        yield Check(name="registry", state=CheckState.OK, message=f"read {', '.join(files)}")
    else:
        yield Check(
            name="registry",
            state=CheckState.WARN,
            message="no registry file, so no sidecar is configured",
            fix="write tools/external.tools.jsonc; flytui schema registry describes it",
            remedy_fix=Fix(kind=FixKind.INIT, words="write a first registry"),
        )
    for finding in diagnostics:
        yield _finding("registry", finding)


def _finding(name: str, finding: Diagnostic) -> Check:
    where = f"{finding.position}: " if finding.position else ""
    excerpt = f"\n{finding.excerpt}" if finding.excerpt else ""
    return Check(
        name=name,
        state=_WEIGHT[finding.severity],
        message=f"{where}{finding.message}{excerpt}",
        fix=finding.remedy,
        remedy_fix=_edit(finding.position),
    )


def _edit(position: Position | None) -> Fix | None:
    if position is None:
        return None
    return Fix(kind=FixKind.EDIT, words=f"open {position}", file=position.file, line=position.line)


def check_sidecar(view: SidecarView) -> Iterator[Check]:
    """How a sidecar is, then each finding about what is written of it."""
    name = f"sidecar {view.id}"
    effective = view.stability.effective
    findings = [problem for problem in view.entry.problems if problem.severity is not Severity.INFO]
    reasons = [
        reason
        for reason in view.stability.reasons
        if not (reason.code is ReasonCode.MANIFEST_INVALID and findings)
    ]
    for reason in reasons:
        chosen = effective is Effective.DISABLED
        state = CheckState.FAIL if reason.code in WRITTEN_WRONG else CheckState.WARN
        code = "" if chosen else f" {reason.code.value}:"
        yield Check(
            name=name,
            state=CheckState.OK if chosen else state,
            message=f"{effective.value}:{code} {reason.message}",
            fix=reason.remedy,
            remedy_fix=reason.fix,
            sidecar=view.id,
        )
    if not reasons and not findings:
        yield Check(name=name, state=CheckState.OK, message=effective.value, sidecar=view.id)
    for finding in findings:
        difference = view.changed if finding.rule == CHANGED_RULE else ()
        yield msgspec.structs.replace(_finding(name, finding), difference=difference, sidecar=view.id)


def check_policy(policy: Policy, now: float, pid: int | None) -> Iterator[Check]:
    """What is wrong in the policy files, at which place, what holds meanwhile, and which rules are over.
    `pid` is of the kernel that runs on the root, if one does; `now` is Unix time, seconds."""
    expired = expired_rules(policy, now)
    if policy.ok and not policy.diagnostics and not expired:
        yield Check(name="policy", state=CheckState.OK, message="loaded")
    for finding in (*policy.diagnostics, *expired):
        yield _finding("policy", finding)
    for layer in policy.layers:
        if not layer.ok:
            message = f"{layer.file} cannot be used: {_since_start(layer, pid)}"
            yield Check(name="policy", state=CheckState.FAIL, message=message, fix="mend that file")


def _since_start(layer: PolicyFile, pid: int | None) -> str:
    """What holds in place of a file that cannot be used."""
    if not layer.present:
        return "none of its rules hold"
    if pid is None:
        return "a kernel that starts now asks for everything"
    return (
        f"the kernel that runs (pid {pid}) goes on with the last good rules it read from there, and asks for "
        "everything where it read none; one that starts now asks for everything"
    )


def check_trust(waiting: int, diagnostics: tuple[Diagnostic, ...]) -> Iterator[Check]:
    """Whether entries wait for trust, and whether the store can be relied on."""
    if waiting:
        entries = "1 entry waits" if waiting == 1 else f"{waiting} entries wait"
        fix = Fix(kind=FixKind.TRUST, words="see what they would run, and decide")
        message = f"{entries} for trust"
        yield Check(name="trust", state=CheckState.WARN, message=message, fix="flytui trust", remedy_fix=fix)
    else:
        yield Check(name="trust", state=CheckState.OK, message="nothing waits")
    for finding in diagnostics:
        yield _finding("trust", finding)


def check_panic(stopped: bool) -> Check:
    """Whether everything is stopped until a person releases it."""
    if not stopped:
        return Check(name="stop", state=CheckState.OK, message="calls are taken")
    return Check(
        name="stop",
        state=CheckState.WARN,
        message="everything is stopped: no call is taken until a person releases it",
        fix="ctrl+o in the console releases it",
    )


def check_sandbox() -> Check:
    """What confinement there is."""
    return Check(
        name="sandbox",
        state=CheckState.WARN,
        message="not enforced in this version: declared permissions are shown, not held to",
        fix="approve only what you would run yourself",
    )


def check_audit(found: Verification) -> Check:
    """Whether the log is as it was written."""
    place = f"{found.file}:{found.line}" if found.line else found.file
    where = f" at {place}" if place and found.exit_code else ""
    message = f"{found.message}{where} ({found.lines} lines)"
    if found.exit_code == WHOLE:
        return Check(name="audit", state=CheckState.OK, message=message)
    if found.exit_code == TORN:
        fix = "nothing to do: the next start sets the torn end aside and notes it"
        return Check(name="audit", state=CheckState.WARN, message=message, fix=fix)
    of_anchors = bool(found.file) and not found.line
    what = "its anchors were changed" if of_anchors else "the log was changed"
    what = "lines are missing at its end" if found.exit_code == CUT else what
    fix = f"{what}: keep a copy, and find out who wrote to it; nothing runs on a broken log"
    return Check(name="audit", state=CheckState.FAIL, message=message, fix=fix)


def check_anchors(problem: str) -> Iterator[Check]:
    """Whether the log leaves its anchors; `problem` is what the running kernel reports of the last one."""
    if problem:
        yield Check(
            name="anchors",
            state=CheckState.WARN,
            message=f"{problem}; lines that are cut off at the log's end are not noticed",
            fix="make that file writable, and see who changed its folder: the next sync tries again",
        )


def check_outcomes(unknown: tuple[CallRecord, ...]) -> Check:
    """Calls of the last day that a killed kernel left without an outcome, newest first."""
    if not unknown:
        return Check(name="outcomes", state=CheckState.OK, message="every call of the last day has one")
    calls = "1 call was" if len(unknown) == 1 else f"{len(unknown)} calls were"
    return Check(
        name="outcomes",
        state=CheckState.WARN,
        message=f"{calls} under way when their kernel was killed, in the last day (latest: "
        f"{unknown[0].tool}); whether they took effect is not known",
        fix="flytui activity list names them: look before you call again",
    )


def check_notify(command: tuple[str, ...], *, found: bool, problem: str) -> Iterator[Check]:
    """Whether the person's own program for notices is there, and did its work; `problem` is the running
    kernel's word on the last time."""
    if not command:
        return
    if problem:
        yield Check(name="notify", state=CheckState.WARN, message=problem, fix="mend notify.command")
    elif not found:
        message = f"notify.command names {command[0]}, which is not to be found or not executable"
        yield Check(name="notify", state=CheckState.WARN, message=message, fix="write its whole path")
    else:
        yield Check(name="notify", state=CheckState.OK, message=f"{command[0]} is told when a request waits")


def check_socket(folder: str, found: stat_result | None, uid: int, runtime_dir: bool) -> Check:
    """The folder of the socket: its owner's alone. `found` is None where it does not exist yet."""
    if found is None:
        note = "" if runtime_dir else "; XDG_RUNTIME_DIR is not set"
        return Check(name="socket", state=CheckState.OK, message=f"{folder} is made when needed{note}")
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or stat.S_IMODE(found.st_mode) & 0o077:
        return Check(
            name="socket",
            state=CheckState.FAIL,
            message=f"{folder} is not this user's alone ({stat.filemode(found.st_mode)})",
            fix=f"remove it, or chmod 700 {folder}",
        )
    return Check(name="socket", state=CheckState.OK, message=folder)


def check_desktop(
    entries: tuple[SidecarEntry, ...], environ: Mapping[str, str], present: Mapping[str, bool]
) -> Iterator[Check]:
    """Display and programs, where a configured tool needs them. `present` says what PATH holds."""
    using = [entry.id for entry in entries if entry.valid and entry.enabled and entry.permissions.desktop]
    if using:
        named = ", ".join(using)
        if environ.get("DISPLAY"):
            yield Check(
                name="display", state=CheckState.OK, message=f"DISPLAY {environ['DISPLAY']} for {named}"
            )
        else:
            yield Check(
                name="display",
                state=CheckState.WARN,
                message=f"DISPLAY is not set; {named} needs an X11 display",
                fix="start flytui inside the desktop session, or set DISPLAY",
            )
        yield _program("xdotool", present, f"{named} focuses windows and types through it")


def _program(name: str, present: Mapping[str, bool], why: str) -> Check:
    if present.get(name):
        return Check(name=name, state=CheckState.OK, message="found on PATH")
    return Check(
        name=name,
        state=CheckState.WARN,
        message=f"not on PATH: {why}",
        fix=f"install {name} (Debian: apt install {name})",
    )


# Looks at everything one root stands on, for Doctor. Reads; spawns nothing and writes nothing.


PROGRAMS = ("xdotool",)


def check_up(
    places: RootPaths, environ: Mapping[str, str], catalog: Catalog, running: Status | None
) -> tuple[Check, ...]:
    """Every check but those of a terminal, over the files as they are now. `running` is what the kernel
    of the root says of itself, None where there is none. Reads the whole log: not for an event loop."""
    files = read_files(find_environment(places, environ), None)
    registry, policy, notify = files.registry, files.policy, files.settings.notify_command
    store = TrustStore.load(places.trust_file)
    waiting = store.pending(registry, lambda entry: describe_entry(entry, files.resolutions(entry.id)))
    other = tuple(found for found in registry.diagnostics if found not in policy.diagnostics)
    stopped = running.panic if running else read_panic(places.state_dir) is not None
    path = environ.get("PATH", "")
    return (
        check_python(sys.version_info[:3]),
        *check_registry(registry.files, other),
        *(check for view in catalog.sidecars for check in check_sidecar(view)),
        *check_policy(policy, time.time(), running.pid if running else None),
        *check_trust(len(waiting), store.diagnostics),
        check_panic(stopped),
        check_sandbox(),
        check_audit(verify(places.audit_dir, places.anchors_file)),
        *check_anchors(running.anchor_problem if running else ""),
        check_outcomes(_unknown(places)),
        *check_notify(
            notify,
            found=bool(notify) and shutil.which(notify[0], path=path) is not None,
            problem=running.notify_problem if running else "",
        ),
        _socket(places, environ),
        *check_desktop(
            registry.entries, environ, {name: shutil.which(name, path=path) is not None for name in PROGRAMS}
        ),
    )


def _unknown(places: RootPaths) -> tuple[CallRecord, ...]:
    """Calls of the last day whose outcome is not known; none where the log cannot be read, which is a check
    of its own."""
    day = TimeRange(since=datetime.now(UTC) - timedelta(days=1))
    with suppress(OSError):
        calls = history(places.audit_dir, limit=MOST_OPEN, span=day)
        return tuple(call for call in calls if call.code == Code.OUTCOME_UNKNOWN)
    return ()


def _socket(places: RootPaths, environ: Mapping[str, str]) -> Check:
    folder = places.socket.parent
    found = folder.lstat() if os.path.lexists(folder) else None
    return check_socket(str(folder), found, os.getuid(), bool(environ.get("XDG_RUNTIME_DIR")))
