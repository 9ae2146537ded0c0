"""The console part of a connection: pairs a console and carries out its decisions.

The console whose connection the supervisor handed over is paired without a code; any other one needs it.
Every decision that arrives before the pairing is answered `unauthorized`, whatever its payload is.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio.to_thread
import msgspec

import flycore
from flycore.kernel.approver import KernelApprover
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Outcome
from flycore.model.call import Caller
from flycore.pipeline.targets.window import ProtectedWindows, window_displays
from flycore.rpc import console_messages as c
from flycore.rpc import messages as m
from flycore.rpc.method_row import Method

SendError = Callable[[m.Envelope | None, m.ErrorCode, str], Awaitable[None]]

UNPAIRED = "only a console that has presented its pairing code can decide"


class Send(Protocol):
    """Sends a message to the peer."""

    def __call__(self, kind: str, payload: object, answers: m.Envelope | None) -> Awaitable[None]:
        """Send a message of that type as the answer to `answers`. Raises ConnectionClosed."""
        ...


class ConsoleSession:
    """The approver role of one connection: how it gets the role, and the decisions that it makes with it."""

    def __init__(
        self, kernel: Kernel, send: Send, refuse: SendError, pid: int, *, handed_over: bool = False
    ) -> None:
        self._kernel = kernel
        self._send = send
        self._refuse = refuse
        self._pid = pid
        self._handed_over = handed_over
        self._windows = ProtectedWindows()
        self._approver: KernelApprover | None = None
        self._proof = ""
        """Name of the file that the peer has to make before its next decision; empty for none."""
        self.version = ""
        """Version of flytui that the peer stated in `client.hello`."""

    @property
    def paired(self) -> bool:
        """Whether this connection has the approver role."""
        return self._approver is not None

    async def enter(self, message: m.Envelope, method: Method, caller: Caller, *, viewer: bool) -> None:
        """Answer `console.attach` and `console.pair`. Raises msgspec.ValidationError for a wrong payload."""
        if not viewer:
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, method.refusal)
        elif self.version != flycore.__version__:
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, other_version(self.version))
        elif self._approver is not None:
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, "this console is paired already")
        elif message.type == "console.attach":
            await self._attach(message, msgspec.convert(message.payload, c.Attach), caller)
        else:
            await self._pair(message, msgspec.convert(message.payload, c.Pair), caller)

    async def decide(self, message: m.Envelope, method: Method, caller: Caller, *, viewer: bool) -> None:
        """Carry out the decision that `method` names. A viewer that is not paired may decide what a person is
        asked on a terminal. Raises msgspec.ValidationError for a wrong payload."""
        approver = self._approver
        if approver is None and viewer and method.at_terminal is not None and self._has_proof():
            approver = self._kernel.pairing.terminal_approver(caller, self._pid)
        if approver is None:
            # This comes before the payload is read: a peer that is not paired learns nothing of its shape.
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, UNPAIRED)
            return
        wanted = msgspec.convert(message.payload, method.payload)
        if self._approver is None and not (method.at_terminal and method.at_terminal(wanted)):
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, UNPAIRED)
            return
        done = await getattr(approver, method.name)(*method.arguments_in(wanted))
        outcome = _outcome(done) if method.result is bool else done
        payload = method.answer_of(outcome)
        if method.answer == "ask.snapshot":
            about = message.payload["id"]
            asks = [ask for ask in self._kernel.asks() if ask.request.id == about]
            payload["asks"] = msgspec.to_builtins(asks)
        await self._send(method.answer, payload, message)

    def new_proof(self) -> str:
        """Return the name of the file by which the peer shows that it may write the root's state folder.

        A confined program may reach the socket, and must not decide for a person who is at no console.
        """
        self._proof = f"terminal-{secrets.token_hex(16)}"
        return self._proof

    def _has_proof(self) -> bool:
        """Return whether the peer has made that file, which is removed. It counts for one decision."""
        name, self._proof = self._proof, ""
        if not name:
            return False
        try:
            os.unlink(self._kernel.state_dir / name)
        except OSError:
            return False
        return True

    def close(self, caller: Caller) -> None:
        """Give up the approver role, because the connection ended. Open requests keep waiting."""
        approver, self._approver = self._approver, None
        self._kernel.pairing.disconnected(self, approver, caller, self._pid)

    async def _attach(self, message: m.Envelope, wanted: c.Attach, caller: Caller) -> None:
        displays = await anyio.to_thread.run_sync(window_displays, wanted.window_ids, wanted.pids)
        self._windows = ProtectedWindows(window_ids=wanted.window_ids, pids=wanted.pids, displays=displays)
        why_not = "" if self._handed_over else self._kernel.pairing.request_code(self, caller, self._pid)
        if why_not:
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, why_not)
        else:
            await self._send("console.pairing", {}, message)

    async def _pair(self, message: m.Envelope, wanted: c.Pair, caller: Caller) -> None:
        pairing = self._kernel.pairing
        paired: KernelApprover | str
        if self._handed_over:
            paired = pairing.open_own(self, self._pid, self._windows)
        else:
            paired = pairing.pair(self, wanted.code, caller, self._pid, self._windows)
        if isinstance(paired, str):
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, paired)
        else:
            self._approver = paired
            await self._send("ack", {"paired": True}, message)


def other_version(console: str) -> str:
    """Return why a console of that version cannot pair, and what the reader can do."""
    kernel = f"flytui {flycore.__version__}"
    if not console:
        return f"a console must state its version in client.hello; this kernel is {kernel}"
    return (
        f"this console is flytui {console} and the kernel is {kernel}: restart the older one, "
        "so that both show and decide the same"
    )


def _outcome(changed: bool) -> Outcome:
    return Outcome(accepted=changed, why_not="" if changed else "it no longer exists")
