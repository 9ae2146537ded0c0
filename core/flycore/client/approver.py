"""The approver of a console in another process: the same Protocol, over a paired connection."""

from __future__ import annotations

import msgspec

from flycore.client.socket import SocketClient
from flycore.model.approval import Answer, Outcome
from flycore.model.errors import ConnectionLost, ProtocolError
from flycore.model.json import JsonObject

LOST = "the connection to the kernel was lost before it answered"


class SocketApprover:
    """See Approver. Where the kernel is gone nothing counts, and the outcome says so."""

    def __init__(self, client: SocketClient) -> None:
        self._client = client

    def attach(self, window_ids: tuple[int, ...], pids: tuple[int, ...]) -> None:
        """Nothing: the seat was told when the code was asked for, and taken when it was right."""

    def detach(self) -> None:
        """Nothing: the seat is left with the connection, and what waits, waits on."""

    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> Outcome:
        """See Approver."""
        said: JsonObject = {
            "id": request_id,
            "subjectDigest": subject_digest,
            "answer": msgspec.to_builtins(answer),
        }
        return await self._done("ask.decide", said)

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        """See Approver."""
        said: JsonObject = {"id": request_id, "subjectDigest": subject_digest, "input": input}
        return await self._done("ask.edit", said)

    async def hold(self, request_id: str, held: bool) -> bool:
        """See Approver."""
        return (await self._done("ask.hold", {"id": request_id, "held": held})).accepted

    async def revoke(self, lease_id: str) -> bool:
        """See Approver."""
        return (await self._done("lease.revoke", {"id": lease_id})).accepted

    async def remove_rule(self, where: str, digest: str) -> Outcome:
        """See Approver."""
        return await self._done("rule.remove", {"where": where, "digest": digest})

    async def unblock(self, tool: str) -> bool:
        """See Approver."""
        return (await self._done("block.remove", {"tool": tool})).accepted

    async def undo(self) -> Outcome:
        """See Approver."""
        return await self._done("approver.undo", {})

    async def answer(self, question_id: str, option: str, text: str = "") -> Outcome:
        """See Approver."""
        return await self._done("question.answer", {"id": question_id, "option": option, "text": text})

    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> Outcome:
        """See Approver."""
        return await self._done("trust.accept", {"accepted": [list(pair) for pair in accepted]})

    async def enable(self, sidecar: str, enabled: bool, reason: str) -> Outcome:
        """See Approver."""
        said: JsonObject = {"sidecar": sidecar, "enabled": enabled, "reason": reason}
        return await self._done("sidecar.enable", said)

    async def refuse_pairing(self, pid: int) -> bool:
        """See Approver."""
        return (await self._done("console.refuse", {"pid": pid})).accepted

    async def write_starter(self) -> Outcome:
        """See Approver."""
        return await self._done("starter.write", {})

    async def import_server(self, path: str, name: str, digest: str) -> Outcome:
        """See Approver."""
        return await self._done("server.import", {"path": path, "name": name, "digest": digest})

    async def _done(self, kind: str, said: JsonObject) -> Outcome:
        try:
            payload = await self._client.ask_for(kind, said)
        except ConnectionLost:
            return Outcome(accepted=False, why_not=LOST)
        except ProtocolError as error:
            return Outcome(accepted=False, why_not=error.said or str(error))
        return msgspec.convert(payload["outcome"], Outcome)
