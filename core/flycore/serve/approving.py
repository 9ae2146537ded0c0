"""The part of a connection that is a console's: comes in by a code, then carries out what its person decides.

Whatever is said here before the code was right is `unauthorized`, whatever its payload is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

import flycore
from flycore.executive.preview import Seat
from flycore.kernel.approver import KernelApprover
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Outcome
from flycore.model.call import Caller
from flycore.model.json import JsonObject
from flycore.serve import console_messages as c
from flycore.serve import messages as m

Refuse = Callable[[m.Envelope | None, m.ErrorCode, str], Awaitable[None]]
Carry = Callable[[KernelApprover, JsonObject], Awaitable[object]]

UNPAIRED = "only a console that has presented its pairing code decides"
NOT_A_VIEWER = "a console reads and does not call: say so in client.hello, before anything is called"


class Send(Protocol):
    """Sends a message of that type and payload, as the answer to another."""

    def __call__(self, kind: str, payload: object, answers: m.Envelope | None) -> Awaitable[None]:
        """Raises ConnectionClosed."""
        ...


class Approving:
    """One connection's way to the approver role, and what it does with it."""

    def __init__(self, kernel: Kernel, send: Send, refuse: Refuse, pid: int) -> None:
        self._kernel = kernel
        self._send = send
        self._refuse = refuse
        self._pid = pid
        self._seat = Seat()
        self._approver: KernelApprover | None = None
        self.version = ""
        """Of flytui, as the peer has said it."""

    @property
    def paired(self) -> bool:
        """Whether a person decides through this connection."""
        return self._approver is not None

    async def take(self, message: m.Envelope, caller: Caller, *, viewer: bool) -> None:
        """Answer one of CONSOLE_PAYLOADS. Raises msgspec.ValidationError for a payload that is none."""
        if message.type in ("console.attach", "console.pair"):
            if viewer:
                await self._come_in(message, caller)
            else:
                await self._refuse(message, m.ErrorCode.UNAUTHORIZED, NOT_A_VIEWER)
        elif self._approver is None:
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, UNPAIRED)
        else:
            done = await _CARRIED[message.type](self._approver, message.payload)
            kind = "ask.snapshot" if message.type.startswith("ask.") else "ack"
            await self._send(kind, self._told(message, done), message)

    def leave(self, caller: Caller) -> None:
        """The connection is gone. What waits, waits on."""
        approver, self._approver = self._approver, None
        self._kernel.attaching.left(self, approver, caller, self._pid)

    async def _come_in(self, message: m.Envelope, caller: Caller) -> None:
        if self.version != flycore.__version__:
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, other_version(self.version))
        elif self._approver is not None:
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, "this console is paired already")
        elif message.type == "console.attach":
            await self._attach(message, msgspec.convert(message.payload, c.Attach), caller)
        else:
            await self._pair(message, msgspec.convert(message.payload, c.Pair), caller)

    async def _attach(self, message: m.Envelope, wanted: c.Attach, caller: Caller) -> None:
        self._seat = Seat(window_ids=wanted.window_ids, pids=wanted.pids)
        why_not = self._kernel.attaching.ask(self, caller, self._pid)
        if why_not:
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, why_not)
        else:
            await self._send("console.pairing", {}, message)

    async def _pair(self, message: m.Envelope, wanted: c.Pair, caller: Caller) -> None:
        paired = self._kernel.attaching.pair(self, wanted.code, caller, self._pid, self._seat)
        if isinstance(paired, str):
            await self._refuse(message, m.ErrorCode.UNAUTHORIZED, paired)
        else:
            self._approver = paired
            await self._send("ack", {"paired": True}, message)

    def _told(self, message: m.Envelope, done: object) -> JsonObject:
        """The outcome, with the request as it is now where it was about one."""
        outcome: JsonObject = {"outcome": msgspec.to_builtins(done)}
        if message.type.startswith("ask."):
            about = message.payload["id"]
            asks = [ask for ask in self._kernel.asks() if ask.request.id == about]
            outcome["asks"] = msgspec.to_builtins(asks)
        return outcome


def other_version(console: str) -> str:
    """Why a console of that version does not come in, and what to do."""
    here = f"flytui {flycore.__version__}"
    if not console:
        return f"a console says its version in client.hello; this kernel is of {here}"
    return (
        f"this console is of flytui {console}, the kernel of {here}: restart the older one, "
        "so that both show and decide the same"
    )


def _did(changed: bool) -> Outcome:
    return Outcome(accepted=changed, why_not="" if changed else "there is none such any more")


async def _decide(approver: KernelApprover, payload: JsonObject) -> object:
    said = msgspec.convert(payload, c.AskDecide)
    return await approver.decide(said.id, said.subject_digest, said.answer)


async def _edit(approver: KernelApprover, payload: JsonObject) -> object:
    said = msgspec.convert(payload, c.AskEdit)
    return await approver.edit(said.id, said.subject_digest, said.input)


async def _hold(approver: KernelApprover, payload: JsonObject) -> object:
    said = msgspec.convert(payload, c.AskHold)
    return _did(await approver.hold(said.id, said.held))


async def _revoke(approver: KernelApprover, payload: JsonObject) -> object:
    return _did(await approver.revoke(msgspec.convert(payload, c.LeaseRevoke).id))


async def _remove_rule(approver: KernelApprover, payload: JsonObject) -> object:
    said = msgspec.convert(payload, c.RuleRemove)
    return await approver.remove_rule(said.where, said.digest)


async def _unblock(approver: KernelApprover, payload: JsonObject) -> object:
    return _did(await approver.unblock(msgspec.convert(payload, c.BlockRemove).tool))


async def _undo(approver: KernelApprover, payload: JsonObject) -> object:
    msgspec.convert(payload, m.Nothing)
    return await approver.undo()


async def _answer(approver: KernelApprover, payload: JsonObject) -> object:
    said = msgspec.convert(payload, c.QuestionAnswer)
    return await approver.answer(said.id, said.option, said.text)


async def _trust(approver: KernelApprover, payload: JsonObject) -> object:
    return await approver.trust(msgspec.convert(payload, c.TrustAccept).accepted)


async def _enable(approver: KernelApprover, payload: JsonObject) -> object:
    said = msgspec.convert(payload, c.SidecarEnable)
    return await approver.enable(said.sidecar, said.enabled, said.reason)


async def _refuse_pairing(approver: KernelApprover, payload: JsonObject) -> object:
    return _did(await approver.refuse_pairing(msgspec.convert(payload, c.RefusePairing).pid))


async def _write_starter(approver: KernelApprover, payload: JsonObject) -> object:
    msgspec.convert(payload, m.Nothing)
    return await approver.write_starter()


async def _import_server(approver: KernelApprover, payload: JsonObject) -> object:
    said = msgspec.convert(payload, c.ServerImport)
    return await approver.import_server(said.path, said.name, said.digest)


_CARRIED: Mapping[str, Carry] = {
    "ask.decide": _decide,
    "ask.edit": _edit,
    "ask.hold": _hold,
    "lease.revoke": _revoke,
    "rule.remove": _remove_rule,
    "block.remove": _unblock,
    "approver.undo": _undo,
    "question.answer": _answer,
    "trust.accept": _trust,
    "sidecar.enable": _enable,
    "starter.write": _write_starter,
    "server.import": _import_server,
    "console.refuse": _refuse_pairing,
}
