"""What outlives one answer: leases, rules and blocks; made, taken away, taken back, and written down."""

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
from flycore.kernel.bus import Recorder
from flycore.model.approval import Answer, ApprovalRequest, Lease, MatchedRule, Outcome, StandingRule
from flycore.model.enums import Choice
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.model.question import Block
from flycore.policy.rule_file import RemoveResult, put_back, read_rules, remove_rule, write_rule

UNDO_KEPT = 20
DESKTOP_CONTROLLED = "hands on the machine: wait until the tool has left mouse and keyboard"


class PermissionChange(StrEnum):
    """What a person did to a rule or a block, as the log has it."""

    WRITTEN = "written"
    REMOVED = "removed"
    BLOCKED = "blocked"
    UNBLOCKED = "unblocked"
    RESTORED = "restored"


class _Use(NamedTuple):
    times: int
    last: float


class StandingPermissions:
    """The person's rules and blocks of one root, and the lines about them and about leases."""

    def __init__(
        self,
        policy: Path,
        blocks: ToolBlockStore,
        recorder: Recorder,
        names: Callable[[], frozenset[str]],
        changed: Callable[[], None],
    ) -> None:
        self.policy = policy
        self.blocks = blocks
        self._recorder = recorder
        self._names = names
        self._changed = changed
        self._rules: tuple[StandingRule, ...] = ()
        self._stamp: tuple[int, ...] | None = None
        self._written: dict[str, str] = {}
        """Digest of a rule to the request it was written for."""
        self._uses: dict[tuple[str, str, str], _Use] = {}

    def write_for_answer(self, request: ApprovalRequest, answer: Answer, by: str) -> str:
        """Write the rule or block that an answer stands on; why it could not, in words. `by` says in the
        log who answered."""
        if answer.choice == Choice.BLOCK:
            fault = self.blocks.block(request.tool, self._recorder.clock.now(), answer.reason)
            return fault or self.record_block(request.tool, PermissionChange.BLOCKED, by, request.id)
        if answer.choice == Choice.RULE and answer.rule is not None:
            done = write_rule(
                self.policy, request, answer.rule, names=self._names(), now=self._recorder.clock.now()
            )
            if not done.written:
                return f"no rule was written: {done.why_not}"
            rule: JsonObject = msgspec.to_builtins(answer.rule)
            self._remember(done.where, request.id)
            return self.record_rule(PermissionChange.WRITTEN, done.where, rule, by, request.id)
        return ""

    def record_lease(self, move: LeaseChange, lease: Lease, by: str) -> None:
        """Write down what happened to a lease, and who did it; its calls have lines of their own."""
        if move is not LeaseChange.USED:
            self._recorder.record(
                audit_events.LEASE_CHANGED, audit_events.lease_changed(lease, move.value, by=by), sync=True
            )

    def count_rules(self, rules: tuple[MatchedRule, ...]) -> None:
        """A call was judged by these."""
        for rule in rules:
            key = (rule.decision.value, rule.tool, rule.because)
            before = self._uses.get(key)
            self._uses[key] = _Use(before.times + 1 if before else 1, self._recorder.clock.now())

    def rules(self) -> tuple[StandingRule, ...]:
        """The person's own rules, as their file has them now."""
        stamp = _stamp(self.policy)
        if stamp is None or stamp != self._stamp:
            self._rules, self._stamp = read_rules(self.policy), stamp
        return tuple(self._used(rule) for rule in self._rules)

    def record_block(self, tool: str, change: PermissionChange, by: str, request_id: str = "") -> str:
        """A tool was blocked or unblocked. Gives no fault: what is done is done."""
        fields = audit_events.block_changed(tool, change.value, by=by, request=request_id)
        self._recorder.record(audit_events.BLOCK_CHANGED, fields, sync=True)
        return self._publish_change("blocks.changed")

    def record_rule(
        self, change: PermissionChange, where: str, rule: JsonObject, by: str, request_id: str = ""
    ) -> str:
        """A rule was written, removed or put back. Gives no fault: what is done is done."""
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
            self._written[found.digest] = request_id

    def _used(self, rule: StandingRule) -> StandingRule:
        use = self._uses.get((rule.decision, rule.tool, rule.because))
        return msgspec.structs.replace(
            rule,
            from_request=self._written.get(rule.digest, ""),
            used=use.times if use else 0,
            last_used=use.last if use else None,
        )


class RevocationHistory:
    """Takes standing permissions away, and takes that back: the last first, in this session only. `by` says
    in the log at which console."""

    def __init__(
        self, standing: StandingPermissions, leases: LeaseStore, hands: Callable[[], bool], by: str
    ) -> None:
        self._standing = standing
        self._leases = leases
        self._by = by
        self.hands = hands
        """Whether a tool may be pressing keys: then nothing is done that lets more through."""
        self._done: list[HeldLease | RemoveResult | Block] = []

    def revoke(self, lease_id: str) -> bool:
        """See Approver."""
        held = self._leases.withdraw(lease_id, self._by)
        if held is not None:
            self._remember(held)
        return held is not None

    def remove_rule(self, where: str, shown: str) -> Outcome:
        """See Approver."""
        if self.hands():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        removed = remove_rule(self._standing.policy, where, shown)
        if removed.rule is None:
            return Outcome(accepted=False, why_not=removed.why_not)
        self._remember(removed)
        self._standing.record_rule(PermissionChange.REMOVED, where, removed.rule, self._by)
        return Outcome(accepted=True)

    def unblock(self, tool: str) -> bool:
        """See Approver."""
        block = None if self.hands() else self._standing.blocks.unblock(tool)
        if block is not None:
            self._remember(block)
            self._standing.record_block(tool, PermissionChange.UNBLOCKED, self._by)
        return block is not None

    def undo(self) -> Outcome:
        """See Approver. What cannot be taken back is forgotten, so that the one before it can be."""
        if self.hands():
            return Outcome(accepted=False, why_not=DESKTOP_CONTROLLED)
        if not self._done:
            return Outcome(accepted=False, why_not="nothing was revoked in this session")
        last = self._done.pop()
        why_not = self._take_back(last)
        return Outcome(accepted=not why_not, why_not=why_not)

    def _take_back(self, last: HeldLease | RemoveResult | Block) -> str:
        if isinstance(last, HeldLease):
            return self._leases.restore(last, self._by)
        if isinstance(last, RemoveResult):
            rule = last.rule or {}
            why_not = put_back(self._standing.policy, last)
            where = str(self._standing.policy)
            return why_not or self._standing.record_rule(PermissionChange.RESTORED, where, rule, self._by)
        why_not = self._standing.blocks.block(last.tool, last.since, last.reason)
        return why_not or self._standing.record_block(last.tool, PermissionChange.RESTORED, self._by)

    def _remember(self, done: HeldLease | RemoveResult | Block) -> None:
        self._done.append(done)
        del self._done[:-UNDO_KEPT]


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when the file does; None where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
