"""The checks of `flytui doctor`: pure functions over what was found, and `check_up`, which runs them all.

A front end adds the checks of its terminal.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from os import stat_result
from pathlib import Path

import msgspec

from flycore.approval.tool_blocks import EVERY_TOOL, ToolBlockStore
from flycore.approval.trust_store import TrustStore
from flycore.audit.projection import MOST_OPEN, CallRecord, history
from flycore.audit.record import TimeRange
from flycore.audit.verify import CUT, TORN, WHOLE, verify
from flycore.catalog.builtin import AGENT_ACTIONS
from flycore.catalog.proposed_entries import undeclared_permissions
from flycore.catalog.reasons import state_unwritable
from flycore.discovery.other_systems.model import read_found
from flycore.discovery.other_systems.table import SYSTEMS
from flycore.discovery.scan import SearchRoots, search_roots
from flycore.kernel.client_checks import check_clients
from flycore.kernel.effective_entries import RULE as CHANGED_RULE
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.panic_file import read_panic
from flycore.kernel.replaced_entries import summarize_entry
from flycore.model.audit import Verification
from flycore.model.catalog import Catalog, SidecarView
from flycore.model.diagnostics import Check, CheckState, Diagnostic, Fix, FixKind, Position, Severity
from flycore.model.enums import Code, Discovery, Effective, ReasonCode
from flycore.model.sidecar import SidecarEntry
from flycore.model.status import Status
from flycore.policy.evaluate import Policy, expired_rules
from flycore.policy.files import PolicyFile
from flycore.registry.paths import RootPaths
from flycore.sandbox.levels import sandbox_in_words
from flysafe.text import safe_text

OLDEST_PYTHON = (3, 11)
MOST_NAMED = 4
"""Files of another system, or tools, that a check names."""
DECLARATION_CODES = frozenset(
    {
        ReasonCode.MANIFEST_INVALID,
        ReasonCode.OUTSIDE_ROOT_DENIED,
        ReasonCode.KIND_UNSUPPORTED,
        ReasonCode.CORE_INCOMPATIBLE,
        ReasonCode.PROTOCOL_INCOMPATIBLE,
    }
)
"""Reasons that come from what a person wrote; others come from the machine or from a choice."""
_STATE_OF = {Severity.ERROR: CheckState.FAIL, Severity.WARNING: CheckState.WARN, Severity.INFO: CheckState.OK}


def check_python(version: tuple[int, ...]) -> Check:
    """Check that the Python interpreter is new enough."""
    text = ".".join(map(str, version[:3]))
    if version[:2] < OLDEST_PYTHON:
        return Check(name="python", state=CheckState.FAIL, message=text, fix="install Python 3.11 or newer")
    return Check(name="python", state=CheckState.OK, message=text)


def check_registry(files: tuple[str, ...], diagnostics: tuple[Diagnostic, ...]) -> Iterator[Check]:
    """Report the files that were read, and the findings on the registry and settings as wholes."""
    if files:
        yield Check(name="registry", state=CheckState.OK, message=f"read {', '.join(files)}")
    else:
        yield Check(
            name="registry",
            state=CheckState.WARN,
            message="this folder has no registry: flytui init writes a first one",
            fix="flytui init, or i in the catalog of the console; docs/registry.md says what stands in it",
            remedy_fix=Fix(kind=FixKind.INIT, words="write a starter registry"),
        )
    for finding in diagnostics:
        yield _finding("registry", finding)


def check_tools(catalog: Catalog) -> Check:
    """Report how many of the tools that something here offers can be called."""
    views = [view for view in catalog.capabilities if view.stability.discovery is Discovery.CONFIGURED]
    down = [view.capability.name for view in views if not view.stability.effective.usable]
    limited = sum(view.stability.effective is Effective.DEGRADED for view in views)
    message = f"{len(views) - len(down)} of {len(views)} tools can be called"
    message += f", {limited} of them with a limit" if limited else ""
    if not down:
        state = CheckState.WARN if limited else CheckState.OK
        return Check(name="tools", state=state, message=message, fix=_WHY_TOOL if limited else "")
    more = f" and {len(down) - MOST_NAMED} more" if len(down) > MOST_NAMED else ""
    message += f"; {len(down)} cannot: {', '.join(down[:MOST_NAMED])}{more}"
    return Check(name="tools", state=CheckState.WARN, message=message, fix=_WHY_TOOL)


_WHY_TOOL = "the checks of their sidecars say what to do; flytui why TOOL says it for one tool"


def _finding(name: str, finding: Diagnostic) -> Check:
    where = f"{finding.position}: " if finding.position else ""
    excerpt = f"\n{finding.excerpt}" if finding.excerpt else ""
    return Check(
        name=name,
        state=_STATE_OF[finding.severity],
        message=f"{where}{finding.message}{excerpt}",
        fix=finding.remedy,
        remedy_fix=_edit_fix(finding.position),
    )


def _edit_fix(position: Position | None) -> Fix | None:
    if position is None:
        return None
    return Fix(kind=FixKind.EDIT, words=f"open {position}", file=position.file, line=position.line)


def check_other_systems(roots: SearchRoots) -> Iterator[Check]:
    """Name the configuration files of each other system, and the command that carries them over."""
    for system in SYSTEMS:
        texts = ((file.shown, read_found(file)) for file in system.files(roots))
        found = [shown for shown, (text, problem) in texts if text is not None or problem is not None]
        if found:
            more = f", and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
            yield Check(
                name="other-systems",
                state=CheckState.OK,
                message=f"{system.title} left {', '.join(found[:MOST_NAMED])}{more}",
                fix=f"flytui migrate --from {system.name} shows what of it can be carried over",
            )


def check_sidecar(view: SidecarView) -> Iterator[Check]:
    """Report a sidecar's state, then each finding on its entry."""
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
        state = CheckState.FAIL if reason.code in DECLARATION_CODES else CheckState.WARN
        code = "" if chosen else f" {reason.code.value}:"
        yield Check(
            name=name,
            state=CheckState.OK if chosen else state,
            message=f"{view.state_text}:{code} {reason.message}",
            fix=reason.remedy,
            remedy_fix=reason.fix,
            sidecar=view.id,
        )
    if not reasons and not findings:
        yield Check(name=name, state=CheckState.OK, message=view.state_text, sidecar=view.id)
    for finding in findings:
        difference = view.changed if finding.rule == CHANGED_RULE else ()
        yield msgspec.structs.replace(_finding(name, finding), difference=difference, sidecar=view.id)


def check_policy(policy: Policy, now: float, pid: int | None) -> Iterator[Check]:
    """Report findings in the policy files, what is in force meanwhile, and expired rules.

    `pid` is that of the root's kernel, None if none runs; `now` is Unix time in seconds.
    """
    expired = expired_rules(policy, now)
    if policy.ok and not policy.diagnostics and not expired:
        yield Check(name="policy", state=CheckState.OK, message="loaded")
    for finding in (*policy.diagnostics, *expired):
        yield _finding("policy", finding)
    for layer in policy.layers:
        if not layer.ok:
            message = f"{layer.file} cannot be used: {_policy_in_force(layer, pid)}"
            yield Check(name="policy", state=CheckState.FAIL, message=message, fix="fix that file")


def check_waiting_rules(waiting: int) -> Iterator[Check]:
    """Report looser rules of the policy files that the running kernel does not count."""
    if waiting:
        changes = "1 looser change" if waiting == 1 else f"{waiting} looser changes"
        message = f"{changes} of the policy files, not made in the console, wait and do not count"
        fix = "open the console and answer the question, or undo the change in the file"
        yield Check(name="policy", state=CheckState.WARN, message=message, fix=fix)


def _policy_in_force(layer: PolicyFile, pid: int | None) -> str:
    """Say what is in force in place of a policy file that cannot be used."""
    if not layer.present:
        return "none of its rules is in force"
    if pid is None:
        return "a kernel that starts now asks about every call"
    return (
        f"the running kernel (pid {pid}) keeps the last good rules that it read from the file, and asks "
        "about every call if it read none; a kernel that starts now asks about every call"
    )


def check_trust(waiting: int, diagnostics: tuple[Diagnostic, ...]) -> Iterator[Check]:
    """Report entries that wait for trust, and findings on the trust store."""
    if waiting:
        entries = "1 entry waits" if waiting == 1 else f"{waiting} entries wait"
        fix = Fix(kind=FixKind.TRUST, words="see what they would run, and decide")
        message = f"{entries} for trust"
        yield Check(name="trust", state=CheckState.WARN, message=message, fix="flytui trust", remedy_fix=fix)
    else:
        yield Check(name="trust", state=CheckState.OK, message="nothing waits")
    for finding in diagnostics:
        yield _finding("trust", finding)


def check_blocks(blocks: ToolBlockStore, catalog: Catalog) -> Iterator[Check]:
    """Check the list of blocked tools: whether it can be relied on, and whether its names are tools."""
    for found in blocks.diagnostics:
        yield Check(name="blocks", state=CheckState.FAIL, message=found.message, fix=found.remedy)
    known = {view.capability.name for view in catalog.capabilities} | AGENT_ACTIONS
    for block in blocks.all():
        if block.tool not in known and block.tool != EVERY_TOOL:
            yield Check(
                name="blocks",
                state=CheckState.WARN,
                message=f"{safe_text(block.tool)} is blocked, and no tool has that name",
                fix="unblock it on the screen Grants of the console, or block the tool that you meant",
            )


def check_panic(stopped: bool) -> Check:
    """Report an emergency stop."""
    if not stopped:
        return Check(name="stop", state=CheckState.OK, message="calls are accepted")
    return Check(
        name="stop",
        state=CheckState.WARN,
        message="everything is stopped: no call runs until a person releases it",
        fix="press ctrl+o in the console to release it",
    )


def check_sandbox(catalog: Catalog) -> Iterator[Check]:
    """Report for which sidecars the sandbox enforces what they declare, and each entry that declares
    nothing."""
    words = f"declared permissions: {sandbox_in_words(catalog)} sidecars"
    words = words if catalog.sidecars else "no entry declares permissions"
    reasons = [reason for view in catalog.sidecars for reason in view.stability.reasons]
    weak = next((reason for reason in reasons if reason.code is ReasonCode.SANDBOX_UNAVAILABLE), None)
    if weak is not None:
        yield Check(name="sandbox", state=CheckState.WARN, message=weak.message, fix=weak.remedy)
    else:
        yield Check(name="sandbox", state=CheckState.OK, message=words)
    for finding in undeclared_permissions(view.entry for view in catalog.sidecars):
        yield msgspec.structs.replace(
            _finding("permissions", finding),
            message=f"{finding.position}: {finding.rule}: {finding.message}",
            sidecar=finding.sidecar,
        )


def check_audit(verification: Verification) -> Check:
    """Report the verification of the audit log."""
    place = f"{verification.file}:{verification.line}" if verification.line else verification.file
    where = f" at {place}" if place and verification.exit_code else ""
    message = f"{verification.message}{where} ({verification.lines} lines)"
    if verification.exit_code == WHOLE:
        return Check(name="audit", state=CheckState.OK, message=message)
    if verification.exit_code == TORN:
        fix = "nothing: the next start of a kernel moves the torn line to a file of its own and logs that"
        return Check(name="audit", state=CheckState.WARN, message=message, fix=fix)
    anchors_changed = bool(verification.file) and not verification.line
    what = "its anchors were changed" if anchors_changed else "the log was changed"
    what = "lines are missing at its end" if verification.exit_code == CUT else what
    fix = f"{what}: keep a copy, and find out who wrote to it; nothing runs on a broken log"
    return Check(name="audit", state=CheckState.FAIL, message=message, fix=fix)


def check_anchors(problem: str) -> Iterator[Check]:
    """Report a failed anchor. `problem` is what the running kernel says about it, empty if there is none."""
    if problem:
        yield Check(
            name="anchors",
            state=CheckState.WARN,
            message=f"{problem}; if lines are cut off at the end of the log, nobody will notice",
            fix="make that file writable, and find out who changed its folder: the next sync tries again",
        )


LONG_PAUSE_MS = 5_000
"""A pause of the kernel's event loop from which on somebody should look at it. A shorter one may come from a
busy machine."""


def check_loop(running: Status) -> Check:
    """Report how often the kernel's event loop stood still."""
    if not running.loop_pauses:
        return Check(name="event loop", state=CheckState.OK, message="no pause of more than 100 ms")
    long = running.longest_pause_ms >= LONG_PAUSE_MS
    times = "once" if running.loop_pauses == 1 else f"{running.loop_pauses} times"
    return Check(
        name="event loop",
        state=CheckState.WARN if long else CheckState.OK,
        message=f"it stood still {times} for more than 100 ms, at most for {running.longest_pause_ms} ms; "
        f"the latest was {running.latest_pause}",
        fix="report that place with what was called at that time" if long else "",
    )


TRIED_BYTES = 65_536
"""Bytes of the file that is written to see whether a folder can be written."""


def check_writable(folder: Path) -> Check:
    """Write a file without a name to the folder, as a full disk shows only then. Nothing of it is left."""
    if not folder.is_dir():
        return Check(name="state", state=CheckState.OK, message=f"{folder} is created when needed")
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=TRIED_BYTES) as file:
            file.write(os.urandom(TRIED_BYTES))
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):  # no such files on this disk
            return Check(name="state", state=CheckState.OK, message=f"{folder}; writing was not tried")
        unwritable = state_unwritable(str(folder), error)
        return Check(
            name="state",
            state=CheckState.FAIL,
            message=f"{folder} cannot be written: {error.strerror}; nothing can be called",
            fix=unwritable.remedy if unwritable is not None else "give yourself the right to write there",
        )
    return Check(name="state", state=CheckState.OK, message=f"{folder} can be written")


def check_outcomes(unknown: tuple[CallRecord, ...]) -> Check:
    """Report calls of the last day, newest first, that a killed kernel left without an outcome."""
    if not unknown:
        return Check(
            name="outcomes", state=CheckState.OK, message="the outcome of every call of the last day is known"
        )
    calls = "1 call was" if len(unknown) == 1 else f"{len(unknown)} calls were"
    return Check(
        name="outcomes",
        state=CheckState.WARN,
        message=f"{calls} under way when their kernel was killed, in the last day (latest: "
        f"{unknown[0].tool}); whether they took effect is not known",
        fix="flytui activity list shows them: check their effect before you call again",
    )


def check_notify(command: tuple[str, ...], *, found: bool, problem: str) -> Iterator[Check]:
    """Check that the notification program exists and works.

    `problem` is what the running kernel says about its last run, empty if it worked.
    """
    if not command:
        return
    if problem:
        yield Check(name="notify", state=CheckState.WARN, message=problem, fix="fix notify.command")
    elif not found:
        message = f"notify.command names {command[0]}, which does not exist or is not executable"
        yield Check(name="notify", state=CheckState.WARN, message=message, fix="write its full path")
    else:
        yield Check(name="notify", state=CheckState.OK, message=f"{command[0]} runs when a request waits")


def check_socket(folder: str, status: stat_result | None, uid: int, runtime_dir: bool) -> Check:
    """Check that only this user can open the socket's folder. `status` is None if it does not exist."""
    if status is None:
        note = "" if runtime_dir else "; XDG_RUNTIME_DIR is not set"
        return Check(name="socket", state=CheckState.OK, message=f"{folder} is created when needed{note}")
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid or stat.S_IMODE(status.st_mode) & 0o077:
        return Check(
            name="socket",
            state=CheckState.FAIL,
            message=f"{folder} is open to other users ({stat.filemode(status.st_mode)})",
            fix=f"remove it, or chmod 700 {folder}",
        )
    return Check(name="socket", state=CheckState.OK, message=folder)


def check_desktop(
    entries: tuple[SidecarEntry, ...], environ: Mapping[str, str], present: Mapping[str, bool]
) -> Iterator[Check]:
    """Check the display and programs that configured tools need. `present` says which are on PATH."""
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
        yield _program("xdotool", present, f"{named} needs it to focus windows and to type")


def _program(name: str, present: Mapping[str, bool], why: str) -> Check:
    if present.get(name):
        return Check(name=name, state=CheckState.OK, message="found on PATH")
    return Check(
        name=name,
        state=CheckState.WARN,
        message=f"not on PATH: {why}",
        fix=f"install {name} (Debian: apt install {name})",
    )


# Running the checks.


PROGRAMS = ("xdotool",)
"""Programs that desktop tools need."""


def check_up(
    places: RootPaths, environ: Mapping[str, str], catalog: Catalog, running: Status | None
) -> tuple[Check, ...]:
    """Run every check but those of a terminal on the files as they are now. Starts nothing, and what it
    writes it removes.

    `running` is the status of the root's kernel, None if none runs. This reads the whole log, so it must not
    be called on an event loop.
    """
    files = read_files(find_environment(places, environ), None)
    registry, policy, notify = files.registry, files.policy, files.settings.notify_command
    store = TrustStore(places.trust_file)
    waiting = store.pending(registry, lambda entry: summarize_entry(entry, files))
    other = tuple(found for found in registry.diagnostics if found not in policy.diagnostics)
    stopped = running.panic if running else read_panic(places.state_dir) is not None
    path = environ.get("PATH", "")
    return (
        # First, because a folder without a registry has nothing else to look at.
        *check_registry(registry.files, other),
        check_tools(catalog),
        check_python(sys.version_info[:3]),
        *check_other_systems(search_roots(places, environ)),
        *(check for view in catalog.sidecars for check in check_sidecar(view)),
        *check_policy(policy, time.time(), running.pid if running else None),
        *check_waiting_rules(running.waiting_rules if running else 0),
        *check_trust(len(waiting), store.diagnostics),
        *check_blocks(ToolBlockStore(places.blocks_file), catalog),
        check_panic(stopped),
        *check_sandbox(catalog),
        check_writable(places.state_dir),
        check_audit(verify(places.audit_dir, places.anchors_file)),
        *check_anchors(running.anchor_problem if running else ""),
        *((check_loop(running),) if running else ()),
        check_outcomes(_unknown_outcomes(places)),
        *check_notify(
            notify,
            found=bool(notify) and shutil.which(notify[0], path=path) is not None,
            problem=running.notify_problem if running else "",
        ),
        _socket(places, environ),
        *check_clients(places, environ),
        *check_desktop(
            registry.entries, environ, {name: shutil.which(name, path=path) is not None for name in PROGRAMS}
        ),
    )


def _unknown_outcomes(places: RootPaths) -> tuple[CallRecord, ...]:
    """Return the calls of the last day with an unknown outcome; none if the log cannot be read, which
    `check_audit` reports."""
    day = TimeRange(since=datetime.now(UTC) - timedelta(days=1))
    with suppress(OSError):
        calls = history(places.audit_dir, limit=MOST_OPEN, span=day)
        return tuple(call for call in calls if call.code == Code.OUTCOME_UNKNOWN)
    return ()


def _socket(places: RootPaths, environ: Mapping[str, str]) -> Check:
    folder = places.socket.parent
    found = folder.lstat() if os.path.lexists(folder) else None
    return check_socket(str(folder), found, os.getuid(), bool(environ.get("XDG_RUNTIME_DIR")))
