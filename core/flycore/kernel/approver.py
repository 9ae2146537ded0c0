"""The person's hand on the kernel: what the console in this process, and nothing else, is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from flycore.approval.queue import ApprovalQueue
from flycore.executive.preview import Seat
from flycore.kernel.standing import Revocations
from flycore.model.approval import Answer, DecideOutcome
from flycore.model.canonical import JsonObject
from flycore.model.enums import Choice

Trust = Callable[[tuple[tuple[str, str], ...]], Awaitable[DecideOutcome]]
AnswerQuestion = Callable[[str, str, str], Awaitable[DecideOutcome]]


class KernelApprover:
    """See flycore.client.protocol.Approver. One seat: the console that shares the kernel's process."""

    def __init__(
        self,
        queue: ApprovalQueue,
        trust: Trust,
        revocations: Revocations,
        answer: AnswerQuestion,
        renewed: Callable[[], Awaitable[None]],
    ) -> None:
        self._queue = queue
        self._revocations = revocations
        self._trust = trust
        self._answer = answer
        self._renewed = renewed
        self._arrived = anyio.Event()
        self.seat = Seat()
        self.present = False

    def attach(self, window_ids: tuple[int, ...], pids: tuple[int, ...]) -> None:
        """See Approver."""
        self.seat = Seat(window_ids=window_ids, pids=pids)
        self.present = True
        self._arrived.set()

    def detach(self) -> None:
        """See Approver."""
        if self.present:
            self.present = False
            self._arrived = anyio.Event()
        self._queue.leave()

    async def arrives_within(self, seconds: float) -> bool:
        """Wait so long for a console; whether one is there."""
        with anyio.move_on_after(seconds):
            await self._arrived.wait()
        return self.present

    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> DecideOutcome:
        """See Approver. While a tool has its hands on the machine only refusals count."""
        outcome = self._queue.decide(request_id, subject_digest, answer)
        return await self._in_force(outcome) if answer.choice == Choice.RULE else outcome

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> DecideOutcome:
        """See Approver."""
        return await self._queue.edit(request_id, subject_digest, input)

    async def hold(self, request_id: str, held: bool) -> bool:
        """See Approver."""
        return self._queue.hold(request_id, held)

    async def revoke(self, lease_id: str) -> bool:
        """See Approver."""
        return self._revocations.revoke(lease_id)

    async def remove_rule(self, where: str, digest: str) -> DecideOutcome:
        """See Approver."""
        return await self._in_force(self._revocations.remove_rule(where, digest))

    async def unblock(self, tool: str) -> bool:
        """See Approver."""
        return self._revocations.unblock(tool)

    async def undo(self) -> DecideOutcome:
        """See Approver."""
        return await self._in_force(self._revocations.undo())

    async def answer(self, question_id: str, option: str, text: str = "") -> DecideOutcome:
        """See Approver."""
        return await self._answer(question_id, option, text)

    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> DecideOutcome:
        """See Approver."""
        return await self._trust(accepted)

    async def _in_force(self, outcome: DecideOutcome) -> DecideOutcome:
        """The outcome, once the next call finds the rules as they are written now."""
        if outcome.accepted:
            await self._renewed()
        return outcome
