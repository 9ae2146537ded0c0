"""Standing permissions: leases, rules and blocks, which outlive one answer; their changes and undo."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from flycore.approval.leases import HeldLease, LeaseChange, LeaseStore
from flycore.approval.tool_blocks import ToolBlockStore
from flycore.audit import events as audit_events
from flycore.kernel.accepted_policy import AcceptedPolicy
from flycore.kernel.bus import Recorder
from flycore.kernel.questions import DESKTOP_CONTROLLED
from flycore.model.approval import Answer, ApprovalRequest, Lease, MatchedRule, Outcome, StandingRule
from flycore.model.enums import Choice
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.model.question import Block
from flycore.policy.looser_rules import written_rule_key
from flycore.policy.rule_file import RemoveResult, read_rules, remove_rule, restore_rule, write_rule

UNDO_KEPT = 20
"""Revocations that one console can undo."""


class PermissionChange(StrEnum):
    """A change to a rule or a block, as it is logged."""

    WRITTEN = "written"
    REMOVED = "removed"
    BLOCKED = "blocked"
    UNBLOCKED = "unblocked"
    RESTORED = "restored"


class _Use(NamedTuple):
    times: int
    last: float


class StandingPermissions:
    """The person's rules and blocks of one root, and the log lines about them and about leases."""

    def __init__(
        self,
        policy: Path,
        blocks: ToolBlockStore,
        recorder: Recorder,
        names: Callable[[], frozenset[str]],
        changed: Callable[[], None],
        accepted: AcceptedPolicy,
    ) -> None:
        """`accepted` is told of each rule that is written or removed here, because a person decided that."""
        self.policy = policy
        self.blocks = blocks
        self._recorder = recorder
        self._names = names
        self._changed = changed
        self._accepted = accepted
        self._rules: tuple[StandingRule, ...] = ()
        self._stamp: tuple[int, ...] | None = None
        self._request_of_rule: dict[str, str] = {}
        """The digest of a rule to the request that it was written for."""
        self._uses: dict[tuple[str, str, str], _Use] = {}

    def write_for_answer(self, request: ApprovalRequest, answer: Answer, by: str) -> str:
        """Write the rule or block that comes with an answer. Return why it failed, or empty.

        `by` names the console in the log.
        """
        if answer.choice == Choice.BLOCK:
            fault = self.blocks.block(request.tool, self._recorder.clock.now(), answer.reason)
            return fault or self.record_block(request.tool, PermissionChange.BLOCKED, by, request.id)
        if answer.choice == Choice.RULE and answer.rule is not None:
            written = write_rule(
                self.policy, request, answer.rule, names=self._names(), now=self._recorder.clock.now()
            )
            if not written.written:
                return f"no rule was written: {written.why_not}"
            self._accepted.note_written(written.key)
            rule: JsonObject = msgspec.to_builtins(answer.rule)
            self._remember(written.where, request.id)
            return self.record_rule(PermissionChange.WRITTEN, written.where, rule, by, request.id)
        return ""

    def note_removed(self, rule: JsonObject) -> None:
        """Note that a person removed the rule from the file."""
        self._accepted.note_removed(written_rule_key(rule))

    def note_restored(self, rule: JsonObject) -> None:
        """Note that a person wrote the rule into the file again."""
        self._accepted.note_written(written_rule_key(rule))

    def record_lease(self, move: LeaseChange, lease: Lease, by: str) -> None:
        """Log a change of a lease and who made it. Its calls have lines of their own."""
        if move is not LeaseChange.USED:
            self._recorder.record(
                audit_events.LEASE_CHANGED, audit_events.lease_changed(lease, move.value, by=by), sync=True
            )

    def count_rules(self, rules: tuple[MatchedRule, ...]) -> None:
        """Count the use of these rules by one call, and publish it if one is the person's own."""
        used = {(rule.decision.value, rule.tool, rule.because) for rule in rules}
        for key in used:
            before = self._uses.get(key)
            self._uses[key] = _Use(before.times + 1 if before else 1, self._recorder.clock.now())
        if any((rule.decision, rule.tool, rule.because) in used for rule in self._rules):
            self._recorder.publish(EventClass.APPROVAL, "rules.changed", {})

    def rules(self) -> tuple[StandingRule, ...]:
        """Return the person's own rules, as they are in the policy file now."""
        # The file is parsed again only when it has changed; the stamp costs one `lstat`.
        stamp = _stamp(self.policy)
        if stamp is None or stamp != self._stamp:
            self._rules, self._stamp = read_rules(self.policy), stamp
        return tuple(self._used(rule) for rule in self._rules)

    def record_block(self, tool: str, change: PermissionChange, by: str, request_id: str = "") -> str:
        """Log that a tool was blocked or unblocked. Always returns empty: the change is made."""
        fields = audit_events.block_changed(tool, change.value, by=by, request=request_id)
        self._recorder.record(audit_events.BLOCK_CHANGED, fields, sync=True)
        return self._publish_change("blocks.changed")

    def record_rule(
        self, change: PermissionChange, where: str, rule: JsonObject, by: str, request_id: str = ""
    ) -> str:
        """Log that a rule was written, removed or restored. Always returns empty: the change is made."""
        fields = audit_events.rule_changed(where, rule, change.value, by=by, request=request_id)
        self._recorder.record(audit_events.RULE_CHANGED, fields, sync=True)
        return self._publish_change("rules.changed")

    def _publish_change(self, kind: str) -> str:
        self._changed()
        self._recorder.publish(EventClass.APPROVAL, kind, {})
        return ""

    def _remember(self, where: str, request_id: str) -> None:
        found = next((rule for rule in read_rules(self.policy) if rule.where == where), None)
        if found is not None:
            self._request_of_rule[found.digest] = request_id

    def _used(self, rule: StandingRule) -> StandingRule:
        use = self._uses.get((rule.decision, rule.tool, rule.because))
        return msgspec.structs.replace(
            rule,
            from_request=self._request_of_rule.get(rule.digest, ""),
            used=use.times if use else 0,
            last_used=use.last if use else None,
        )


class RevocationHistory:
    """The revocations of one console, which can be undone, the last one first, while it is open.

    `by` names the console in the log.
    """

    def __init__(
        self,
        permissions: StandingPermissions,
        leases: LeaseStore,
        desktop_controlled: Callable[[], bool],
        by: str,
    ) -> None:
        self._permissions = permissions
        self._leases = leases
        self._by = by
        self.desktop_controlled = desktop_controlled
        """Whether a tool controls the desktop: it could press keys, so nothing is permitted then."""
        self._revoked: list[HeldLease | RemoveResult | Block] = []

    def revoke(self, lease_id: str) -> bool:
        """Revoke a lease; return False if it is no longer active."""
        revoked = self._leases.withdraw(lease_id, self._by)
        if revoked is not None:
            self._remember(revoked)
        return revoked is not None

    def remove_rule(self, where: str, shown: str) -> Outcome:
        """Remove a rule of the policy file, if it is still as it was shown."""
        if self.desktop_controlled():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        removed = remove_rule(self._permissions.policy, where, shown)
        if removed.rule is None:
            return Outcome(accepted=False, why_not=removed.why_not)
        self._permissions.note_removed(removed.rule)
        self._remember(removed)
        self._permissions.record_rule(PermissionChange.REMOVED, where, removed.rule, self._by)
        return Outcome(accepted=True)

    def unblock(self, tool: str) -> bool:
        """Unblock a tool; return False if it is not blocked."""
        block = None if self.desktop_controlled() else self._permissions.blocks.unblock(tool)
        if block is not None:
            self._remember(block)
            self._permissions.record_block(tool, PermissionChange.UNBLOCKED, self._by)
        return block is not None

    def undo(self) -> Outcome:
        """Undo the last revocation; if it cannot be undone, drop it, so that the one before can be."""
        if self.desktop_controlled():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        if not self._revoked:
            return Outcome(accepted=False, why_not="nothing was revoked in this session")
        last = self._revoked.pop()
        why_not = self._take_back(last)
        return Outcome(accepted=not why_not, why_not=why_not)

    def _take_back(self, last: HeldLease | RemoveResult | Block) -> str:
        if isinstance(last, HeldLease):
            return self._leases.restore(last, self._by)
        if isinstance(last, RemoveResult):
            rule = last.rule or {}
            why_not = restore_rule(self._permissions.policy, last)
            if not why_not:
                self._permissions.note_restored(rule)
            where = str(self._permissions.policy)
            return why_not or self._permissions.record_rule(PermissionChange.RESTORED, where, rule, self._by)
        why_not = self._permissions.blocks.block(last.tool, last.since, last.reason)
        return why_not or self._permissions.record_block(last.tool, PermissionChange.RESTORED, self._by)

    def _remember(self, revoked: HeldLease | RemoveResult | Block) -> None:
        self._revoked.append(revoked)
        del self._revoked[:-UNDO_KEPT]


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes with the file; None if there is no file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
