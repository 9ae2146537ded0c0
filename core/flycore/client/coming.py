"""A kernel that is still being opened: its client lets those who ask wait, its approver refuses."""

from __future__ import annotations

import anyio

from flycore.client.protocol import Client
from flycore.client.relay import RelayClient
from flycore.model.approval import Answer, Outcome
from flycore.model.json import JsonObject

NOT_YET = "the kernel is still being opened"
_REFUSED = Outcome(accepted=False, why_not=NOT_YET)


class ComingClient(RelayClient):
    """What is asked before `arrived` is answered after it."""

    def __init__(self) -> None:
        self._here = anyio.Event()
        self._client: Client

    def arrived(self, client: Client) -> None:
        """The kernel's client is there."""
        self._client = client
        self._here.set()

    async def reach(self) -> Client:
        """See RelayClient. Waits for as long as it takes."""
        await self._here.wait()
        return self._client


class NoApprover:
    """The approver of a kernel that is not there: nothing that a person does now is kept for later."""

    def attach(self, window_ids: tuple[int, ...], pids: tuple[int, ...]) -> None:
        """Nobody to tell."""

    def detach(self) -> None:
        """Nobody to tell."""

    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> Outcome:
        """Refused."""
        return _REFUSED

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        """Refused."""
        return _REFUSED

    async def hold(self, request_id: str, held: bool) -> bool:
        """There is none."""
        return False

    async def revoke(self, lease_id: str) -> bool:
        """There is none."""
        return False

    async def remove_rule(self, where: str, digest: str) -> Outcome:
        """Refused."""
        return _REFUSED

    async def unblock(self, tool: str) -> bool:
        """There is none."""
        return False

    async def undo(self) -> Outcome:
        """Refused."""
        return _REFUSED

    async def answer(self, question_id: str, option: str, text: str = "") -> Outcome:
        """Refused."""
        return _REFUSED

    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> Outcome:
        """Refused."""
        return _REFUSED

    async def enable(self, sidecar: str, enabled: bool, reason: str) -> Outcome:
        """Refused."""
        return _REFUSED

    async def import_server(self, path: str, name: str, digest: str) -> Outcome:
        """Refused."""
        return _REFUSED

    async def refuse_pairing(self, pid: int) -> bool:
        """There is none."""
        return False

    async def write_starter(self) -> Outcome:
        """Refused."""
        return _REFUSED
