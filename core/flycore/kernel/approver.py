"""The approver: the decisions of a person at one console, which are carried out in the kernel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from flycore.approval.queue import ApprovalQueue
from flycore.kernel.connections import OpenConsoles
from flycore.kernel.packages import DISCARD, PackageActions
from flycore.kernel.questions import DESKTOP_CONTROLLED
from flycore.kernel.refresh import StateRefresher
from flycore.kernel.standing_permissions import RevocationHistory
from flycore.model.approval import Answer, Outcome
from flycore.model.enums import Choice, PackageAction, PackageScope
from flycore.model.json import JsonObject
from flycore.model.package import PackageOutcome

AnswerQuestion = Callable[[str, str, str, str, JsonObject | None], Awaitable[Outcome]]


class ApproverDeps(NamedTuple):
    """The parts of a kernel that the approvers of all its consoles act on."""

    queue: ApprovalQueue
    refresher: StateRefresher
    packages: PackageActions
    answer_question: AnswerQuestion
    consoles: OpenConsoles
    revocations: Callable[[str], RevocationHistory]
    """Makes the undo history of one console, which is named for the log."""


class KernelApprover:
    """The approver of one console, for `flycore.rpc.methods.Approver`.

    `who` names the console to other consoles and in log lines on requests, `by` in all other log lines.
    """

    def __init__(self, deps: ApproverDeps, who: str, by: str, *, refuse: Callable[[int], bool]) -> None:
        """`refuse` refuses the pairing codes of a process."""
        self._queue = deps.queue
        self._revocations = deps.revocations(by)
        self._refresher = deps.refresher
        self._packages = deps.packages
        self._answer = deps.answer_question
        self._refuse = refuse
        self._who, self._by = who, by

    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> Outcome:
        """Decide a request. While a tool controls the desktop only a refusal is accepted."""
        outcome = self._queue.decide(request_id, subject_digest, answer, by=self._who, author=self._by)
        return await self._refreshed(outcome) if answer.choice == Choice.RULE else outcome

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        """Change the input of a request before it is decided."""
        return await self._queue.edit(request_id, subject_digest, input)

    async def hold(self, request_id: str, held: bool) -> bool:
        """Stop or resume the time limit of a request, while its person reads it."""
        return self._queue.set_paused(request_id, held)

    async def revoke(self, lease_id: str) -> bool:
        """Revoke a lease; return False if it is no longer active."""
        return self._revocations.revoke(lease_id)

    async def remove_rule(self, where: str, digest: str) -> Outcome:
        """Remove a rule of the person's policy file, if it is still as it was shown."""
        return await self._refreshed(self._revocations.remove_rule(where, digest))

    async def unblock(self, tool: str) -> bool:
        """Let a blocked tool be called again; return False if it is not blocked."""
        return self._revocations.unblock(tool)

    async def undo(self) -> Outcome:
        """Restore what this console revoked last."""
        return await self._refreshed(self._revocations.undo())

    async def answer(
        self, question_id: str, option: str, text: str = "", content: JsonObject | None = None
    ) -> Outcome:
        """Answer a question."""
        return await self._answer(question_id, option, text, self._by, content)

    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> Outcome:
        """Trust the entries that are still as they were shown."""
        return await self._refresher.trust(accepted, self._by)

    async def enable(self, sidecar: str, enabled: bool, reason: str) -> Outcome:
        """Switch an entry of the registry on or off."""
        # Nothing is switched on while a tool controls the desktop: it could press the keys for it.
        if enabled and self._revocations.desktop_controlled():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        return await self._refresher.apply_edit(
            lambda registry, now: registry.set_enabled(sidecar, enabled, reason, now, self._by)
        )

    async def permit(self, sidecar: str, digest: str) -> Outcome:
        """Add the permissions that were shown to the entry."""
        if self._revocations.desktop_controlled():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        return await self._refresher.permit(sidecar, digest, self._by)

    async def refuse_pairing(self, pid: int) -> bool:
        """Refuse the pairing codes of that process; return False if it has none."""
        return self._refuse(pid)

    async def write_starter(self, sidecars: tuple[str, ...], digest: str) -> Outcome:
        """Write these entries of the starter registry, as they were shown, and trust them."""
        if self._revocations.desktop_controlled():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        return await self._refresher.apply_edit(
            lambda registry, now: registry.write_starter(sidecars, digest, now, self._by)
        )

    async def import_server(self, path: str, name: str, digest: str) -> Outcome:
        """Import a server of another client's file, if the file still has what was shown."""
        if self._revocations.desktop_controlled():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        offered = await self._refresher.source_watcher.find_import(path, name)
        if offered is None or offered.digest != digest:
            why_not = "the file has changed since it was shown: look at it again"
            return Outcome(accepted=False, why_not=why_not)
        return await self._refresher.apply_edit(
            lambda registry, now: registry.import_server(offered, now, self._by)
        )

    async def stage_package(self, source: str, scope: PackageScope) -> Outcome:
        """Stage the version in a folder or an archive of the kernel's machine."""
        if self._revocations.desktop_controlled():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        return _package_outcome(await self._packages.stage(source, scope, self._by))

    async def change_package(
        self, action: PackageAction, package: str, scope: PackageScope, digest: str, agreed: bool = True
    ) -> Outcome:
        """Apply, roll back or remove a package, and trust its entry if a person agreed."""
        by = self._by if agreed else f"{self._by}, without a person"
        done = await self._packages.change(action, package, scope, digest, by, agreed=agreed)
        return _package_outcome(done)

    async def discard_package(self, package: str, scope: PackageScope) -> Outcome:
        """Discard the staged version of a package."""
        return _package_outcome(await self._packages.simple(DISCARD, package, scope, self._by))

    async def _refreshed(self, outcome: Outcome) -> Outcome:
        """Wait until calls use the changed rules, and return the outcome."""
        if outcome.accepted:
            await self._refresher.refresh()
        return outcome


def _package_outcome(done: PackageOutcome) -> Outcome:
    return Outcome(accepted=done.changed, why_not=done.message)
