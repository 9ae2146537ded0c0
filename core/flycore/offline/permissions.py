"""The rules and blocks that a person has made: read and removed while no kernel runs."""

from __future__ import annotations

import msgspec

from flycore.approval.tool_blocks import ToolBlockStore
from flycore.audit.events import BLOCK_CHANGED, RULE_CHANGED, block_changed, rule_changed
from flycore.kernel.accepted_policy import forget_rule
from flycore.model.approval import Outcome, StandingRule
from flycore.model.diagnostics import Diagnostic
from flycore.model.json import JsonObject
from flycore.model.question import Block
from flycore.offline.root import HeldRoot
from flycore.policy.looser_rules import written_rule_key
from flycore.policy.rule_file import RemoveResult, read_rules
from flycore.policy.rule_file import remove_rule as remove_from_file
from flycore.registry.paths import RootPaths

BY = "flytui grants"
GONE = "the tool was no longer blocked, or the list could not be written"


class KeptPermissions(msgspec.Struct, frozen=True):
    """The permissions in the files of a root. Leases exist only in a running kernel."""

    rules: tuple[StandingRule, ...]
    blocks: tuple[Block, ...]
    diagnostics: tuple[Diagnostic, ...]
    """Why the list of blocked tools cannot be trusted."""


def read_permissions(places: RootPaths) -> KeptPermissions:
    """Read the person's own rules and the blocked tools."""
    blocks = ToolBlockStore(places.blocks_file)
    rules = read_rules(places.policy_file)
    return KeptPermissions(rules, blocks.all(), blocks.diagnostics)


def remove_rule_unlogged(places: RootPaths, rule: StandingRule) -> Outcome:
    """Remove the rule from the person's policy file, without a line in the log: a running kernel notices the
    edit and logs it."""
    return _outcome(_remove(places, rule))


def remove_rule(root: HeldRoot, rule: StandingRule) -> Outcome:
    """Remove the rule from the person's policy file. Raises AuditUnwritable; then the rule stays."""
    fields: JsonObject = {"tool": rule.tool, "decision": rule.decision, "because": rule.because}
    root.record(RULE_CHANGED, rule_changed(rule.where, fields, "removed", by=BY))
    removed = _remove(root.places, rule)
    if removed.rule is not None:
        forget_rule(root.places.policy_rules_file, written_rule_key(removed.rule))
    return _outcome(removed)


def _remove(places: RootPaths, rule: StandingRule) -> RemoveResult:
    return remove_from_file(places.policy_file, rule.where, rule.digest)


def _outcome(removed: RemoveResult) -> Outcome:
    return Outcome(accepted=removed.rule is not None, why_not=removed.why_not)


def unblock_tool(root: HeldRoot, tool: str) -> Outcome:
    """Let the tool be called again. Raises AuditUnwritable; then it stays blocked."""
    blocks = ToolBlockStore(root.places.blocks_file)
    root.record(BLOCK_CHANGED, block_changed(tool, "unblocked", by=BY))
    accepted = blocks.unblock(tool) is not None
    return Outcome(accepted=accepted, why_not="" if accepted else GONE)
