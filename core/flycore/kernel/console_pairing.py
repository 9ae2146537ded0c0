"""Pairing: which consoles may decide. The one beside the kernel is paired by the connection that their
supervisor handed over; any other one proves by a one-time code that its person sits at this kernel.

A code is shown where a person already sits, and typed at the new console. It leaves the kernel in one event,
which the bus passes on only to consoles that can decide and to the terminal of `flytui serve`.

    attach ──▶ issued ── right code ──▶ used: the connection can decide from now on
                 ├────── third wrong code, two minutes, connection closed ──▶ invalid
                 └────── attach again ──▶ a new code; the earlier one is invalid
"""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum

import msgspec

from flycore.approval.callers import distinguish_callers, identify_peer
from flycore.audit import events as audit_events
from flycore.kernel.approver import ApproverDeps, KernelApprover
from flycore.kernel.bus import Recorder
from flycore.kernel.lock import LockHolder
from flycore.model.call import Caller
from flycore.model.errors import AuditUnwritable
from flycore.model.events import PAIRING, EventClass
from flycore.model.json import JsonObject
from flycore.pipeline.targets.window import ProtectedWindows
from flysafe.procfs import ancestor_names, terminal_of

ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""Letters and digits without those that look alike."""
LENGTH = 8
VALID_SECONDS = 120.0
TRIES = 3
WINDOW_SECONDS = 120.0
MOST_OF_ONE = 4
"""Codes that are shown for one program within WINDOW_SECONDS."""
MOST_SHOWN = 12
"""Codes that are shown to a person within WINDOW_SECONDS, for all programs together."""


class CodeCheck(StrEnum):
    """The result of checking a code."""

    PAIRED = "paired"
    WRONG = "wrong"
    SPENT = "spent"
    """The code was wrong for the last time: the right one is now invalid as well."""
    NONE = "none"
    """The connection has no valid code."""


class _IssuedCode(msgspec.Struct):
    code: str
    until: float
    tries: int = TRIES


class PairingCodes:
    """The codes of one kernel, by connection, which is any hashable value. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._open: dict[Hashable, _IssuedCode] = {}
        self._shown: deque[tuple[float, str]] = deque()

    def issue(self, connection: Hashable, program: str, now: float) -> str | None:
        """Issue a new code; None if the program, or all programs together, requested too many."""
        while self._shown and now - self._shown[0][0] >= WINDOW_SECONDS:
            self._shown.popleft()
        of_one = sum(name == program for _, name in self._shown)
        if len(self._shown) >= MOST_SHOWN or of_one >= MOST_OF_ONE:
            return None
        # Both limits bound the guesses: 12 codes in two minutes with 3 tries each, of 31 ** 8 possible codes.
        self._shown.append((now, program))
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        self._open[connection] = _IssuedCode(code, now + VALID_SECONDS)
        return code

    def check(self, connection: Hashable, code: str, now: float) -> CodeCheck:
        """Check a code against that of the connection. Case, spaces and hyphens do not matter."""
        issued = self._open.get(connection)
        if issued is None or now >= issued.until:
            self._open.pop(connection, None)
            return CodeCheck.NONE
        typed = "".join(code.split()).replace("-", "").upper()
        # In constant time, so that the time of an answer does not show how much of a guess was right.
        if hmac.compare_digest(typed.encode("utf-8", "replace"), issued.code.encode("ascii")):
            del self._open[connection]
            return CodeCheck.PAIRED
        issued.tries -= 1
        if issued.tries:
            return CodeCheck.WRONG
        del self._open[connection]
        return CodeCheck.SPENT

    def tries_left(self, connection: Hashable) -> int:
        """Return how many more wrong codes the connection may send before its code is invalid."""
        issued = self._open.get(connection)
        return issued.tries if issued is not None else 0

    def forget(self, connection: Hashable) -> None:
        """Drop the code of a closed connection."""
        self._open.pop(connection, None)


NO_CONSOLE_OPEN = "nobody could see the code: no console is open, and flytui serve has no terminal"
TOO_MANY_CODES = "too many codes were requested: try again in two minutes"
OWN_CONSOLE = "console"
"""The name of the console that the supervisor started in log lines that have no pid."""
_WHY_NOT = {
    CodeCheck.WRONG: "this is not the code that was shown; tries left: {}",
    CodeCheck.SPENT: "this is not the code that was shown, and that code is now invalid; attach again",
    CodeCheck.NONE: "there is no valid code: it was refused, or its two minutes are over; attach again",
}


class ConsolePairing:
    """The pairing of consoles with one kernel: its own one, and those that attach with a code."""

    def __init__(self, deps: ApproverDeps, recorder: Recorder, holder: LockHolder) -> None:
        self._deps = deps
        self._on_demand = holder.on_demand
        self.own_pid = 0
        """The process of the console that the kernel's supervisor started; 0 while none is connected."""
        self._own_connection: Hashable = None
        self._recorder = recorder
        self._clock = recorder.clock
        self._codes = PairingCodes()
        self._terminals = 0
        self._waiting: dict[Hashable, tuple[Caller, int]] = {}
        """Connections with a code that are not paired yet, with their caller and pid."""
        self._descriptions: dict[Hashable, str] = {}
        """Descriptions of connections for a person, kept as an ended process cannot be described."""

    @property
    def consoles(self) -> int:
        """The number of consoles that can decide."""
        return len(self._deps.consoles)

    @property
    def protected_windows(self) -> ProtectedWindows:
        """The windows and processes of every console, which no tool may touch."""
        return self._deps.consoles.protected_windows()

    def serve_alone(self) -> None:
        """Expect no console beside this kernel any more."""
        self._deps.consoles.serve_alone()

    @contextmanager
    def on_terminal(self) -> Iterator[None]:
        """Note while the block runs that codes are shown on the kernel's own terminal."""
        self._terminals += 1
        try:
            yield
        finally:
            self._terminals -= 1

    def request_code(self, connection: Hashable, caller: Caller, pid: int) -> str:
        """Show a code for that connection of process `pid` to a person. Return why not, or empty."""
        if not self.consoles and not self._terminals:
            return NO_CONSOLE_OPEN
        code = self._codes.issue(connection, caller.key, self._clock.monotonic())
        if code is None:
            return TOO_MANY_CODES
        self._descriptions[connection] = distinguish_callers(pid, caller)
        expires = self._clock.now() + VALID_SECONDS
        self._waiting[connection] = caller, pid
        named = self._event_payload(connection, caller, pid)
        self._publish(PAIRING, {"code": code, **named, "expiresAt": round(expires, 3)})
        return ""

    def pair(
        self, connection: Hashable, code: str, caller: Caller, pid: int, windows: ProtectedWindows
    ) -> KernelApprover | str:
        """Open the console that sent the right code and return its approver; else return why not."""
        checked = self._codes.check(connection, code, self._clock.monotonic())
        if checked is not CodeCheck.PAIRED:
            self._record(audit_events.CONSOLE_REFUSED, caller, pid, reason=checked.value)
            if checked is CodeCheck.SPENT and self._waiting.pop(connection, None) is not None:
                self._publish("console.refused", self._event_payload(connection, caller, pid))
            return _WHY_NOT[checked].format(self._codes.tries_left(connection))
        self._waiting.pop(connection, None)
        who = f"the console on pid {pid}"
        approver = KernelApprover(self._deps, who, who, refuse=self.refuse)
        # Logged before it can decide: no decision of a console may stand in the log without its attachment.
        self._record(audit_events.CONSOLE_ATTACHED, caller, pid)
        self._deps.consoles.open(approver, windows)
        self._publish("console.attached", self._event_payload(connection, caller, pid))
        return approver

    def open_own(self, connection: Hashable, pid: int, windows: ProtectedWindows) -> KernelApprover:
        """Open the console of process `pid` that the supervisor started, and return its approver."""
        # The connection of an earlier console may close after this one has come: it must not close this one.
        self._own_connection, self.own_pid = connection, pid
        approver = KernelApprover(self._deps, f"the console on pid {pid}", OWN_CONSOLE, refuse=self.refuse)
        self._deps.consoles.open(approver, windows)
        self._record(audit_events.CONSOLE_OPENED, identify_peer(pid, "console"), pid)
        return approver

    def terminal_approver(self, caller: Caller, pid: int) -> KernelApprover | None:
        """Return the approver of a command at whose terminal a person decides; None if a console has to
        decide: this is not a kernel on demand, or the caller is a program that a kernel started."""
        if not self._on_demand or self.consoles or not caller.is_program:
            return None
        who = f"a terminal, {distinguish_callers(pid, caller)}"
        return KernelApprover(self._deps, who, who, refuse=self.refuse)

    def disconnected(
        self, connection: Hashable, approver: KernelApprover | None, caller: Caller, pid: int
    ) -> None:
        """Drop the code of a closed connection and close its console. Waiting requests stay undecided."""
        self._codes.forget(connection)
        was_waiting = self._waiting.pop(connection, None)
        if connection is self._own_connection:
            self._own_connection, self.own_pid = None, 0
        if approver is not None:
            self._deps.consoles.close(approver)
            self._record(audit_events.CONSOLE_LEFT, caller, pid)
        if approver is not None or was_waiting is not None:
            self._publish("console.left", self._event_payload(connection, caller, pid))
        self._descriptions.pop(connection, None)

    def refuse(self, pid: int) -> bool:
        """Refuse the codes of that process; return False if it has none."""
        connections = [connection for connection, (_, asker) in self._waiting.items() if asker == pid]
        for connection in connections:
            caller, _ = self._waiting.pop(connection)
            self._codes.forget(connection)
            self._record(audit_events.CONSOLE_REFUSED, caller, pid, reason="refused")
            self._publish("console.refused", self._event_payload(connection, caller, pid))
        return bool(connections)

    def _record(self, event: str, caller: Caller, pid: int, reason: str = "") -> None:
        # Nothing runs because of these lines, so a line that cannot be written stops nothing.
        with suppress(AuditUnwritable):
            fields = audit_events.console(
                caller, pid, terminal=terminal_of(pid), kin=ancestor_names(pid), reason=reason
            )
            self._recorder.audit.append(event, fields, sync=True)

    def _publish(self, kind: str, payload: JsonObject) -> None:
        self._recorder.publish(EventClass.APPROVAL, kind, payload)

    def _event_payload(self, connection: Hashable, caller: Caller, pid: int) -> JsonObject:
        who = self._descriptions.get(connection, f"{caller.program} (pid {pid})")
        return {"program": caller.program, "pid": pid, "who": who}
