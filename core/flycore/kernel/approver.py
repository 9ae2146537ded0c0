"""The person's hand on the kernel: what the console in this process is given, and a paired one in another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from flycore.approval.queue import ApprovalQueue
from flycore.kernel.connections import OpenConsoles
from flycore.kernel.refresh import StateRefresher
from flycore.kernel.standing_permissions import DESKTOP_CONTROLLED, RevocationHistory
from flycore.model.approval import Answer, Outcome
from flycore.model.enums import Choice
from flycore.model.json import JsonObject
from flycore.pipeline.targets.window import ProtectedWindows

AnswerQuestion = Callable[[str, str, str, str], Awaitable[Outcome]]


class ApproverDeps(NamedTuple):
    """What every console of one kernel has its hand on."""

    queue: ApprovalQueue
    upkeep: StateRefresher
    answer: AnswerQuestion
    seats: OpenConsoles
    revocations: Callable[[str], RevocationHistory]
    """A console takes back what it has revoked itself; named for the log."""


class KernelApprover:
    """See flycore.client.protocol.Approver. One console's; `who` names it to other consoles and in the log's
    lines on requests, `by` in its other lines."""

    def __init__(
        self,
        reach: ApproverDeps,
        who: str,
        by: str,
        *,
        refuse: Callable[[int], bool],
        opened: Callable[[], None] | None = None,
    ) -> None:
        """`refuse` refuses the pairing codes that a process asked for; `opened` is called when the console
        takes its seat."""
        self._queue = reach.queue
        self._revocations = reach.revocations(by)
        self._upkeep = reach.upkeep
        self._answer = reach.answer
        self._seats = reach.seats
        self._refuse = refuse
        self.who, self._by = who, by
        self._opened = opened

    def attach(self, window_ids: tuple[int, ...], pids: tuple[int, ...]) -> None:
        """See Approver."""
        opened = self._seats.open(self, ProtectedWindows(window_ids=window_ids, pids=pids))
        if opened and self._opened is not None:
            self._opened()

    def detach(self) -> None:
        """See Approver. Where it was the only console, whoever waits inline is told that nobody is there."""
        self.disconnect()
        if not self._seats:
            self._queue.approver_left()

    def disconnect(self) -> None:
        """The console is gone without a word, and may come back: whoever waits, waits on."""
        self._seats.close(self)

    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> Outcome:
        """See Approver. While a tool has its hands on the machine only refusals count."""
        outcome = self._queue.decide(request_id, subject_digest, answer, by=self.who, hand=self._by)
        return await self._refreshed(outcome) if answer.choice == Choice.RULE else outcome

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        """See Approver."""
        return await self._queue.edit(request_id, subject_digest, input)

    async def hold(self, request_id: str, held: bool) -> bool:
        """See Approver."""
        return self._queue.set_paused(request_id, held)

    async def revoke(self, lease_id: str) -> bool:
        """See Approver."""
        return self._revocations.revoke(lease_id)

    async def remove_rule(self, where: str, digest: str) -> Outcome:
        """See Approver."""
        return await self._refreshed(self._revocations.remove_rule(where, digest))

    async def unblock(self, tool: str) -> bool:
        """See Approver."""
        return self._revocations.unblock(tool)

    async def undo(self) -> Outcome:
        """See Approver."""
        return await self._refreshed(self._revocations.undo())

    async def answer(self, question_id: str, option: str, text: str = "") -> Outcome:
        """See Approver."""
        return await self._answer(question_id, option, text, self._by)

    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> Outcome:
        """See Approver."""
        return await self._upkeep.trust(accepted, self._by)

    async def enable(self, sidecar: str, enabled: bool, reason: str) -> Outcome:
        """See Approver. Nothing is switched on while a tool may be pressing keys."""
        if enabled and self._revocations.hands():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        return await self._upkeep.apply_edit(
            lambda trusting, now: trusting.set_enabled(sidecar, enabled, reason, now, self._by)
        )

    async def refuse_pairing(self, pid: int) -> bool:
        """See Approver."""
        return self._refuse(pid)

    async def write_starter(self) -> Outcome:
        """See Approver."""
        if self._revocations.hands():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        return await self._upkeep.apply_edit(lambda trusting, now: trusting.write_starter(now, self._by))

    async def import_server(self, path: str, name: str, digest: str) -> Outcome:
        """See Approver. What the file says now counts, and only if that is what was shown."""
        if self._revocations.hands():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        offered = await self._upkeep.describing.find_import(path, name)
        if offered is None or offered.digest != digest:
            said = "it is not what was shown any more: look at it again"
            return Outcome(accepted=False, why_not=said)
        return await self._upkeep.apply_edit(
            lambda trusting, now: trusting.import_server(offered, now, self._by)
        )

    async def _refreshed(self, outcome: Outcome) -> Outcome:
        """The outcome, once the next call finds the rules as they are written now."""
        if outcome.accepted:
            await self._upkeep.refresh()
        return outcome
