"""Policy: the verdict for each call, from the rules of three files and, where none matches, the default.

The decisions are ordered `allow < ask < deny`, and the strictest matching rule wins. Whether a rule matches
can be unknown, because there is no input yet or the caller could not be identified. Then an allow does not
count, and a deny asks.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from flycore.catalog.builtin import KNOWN
from flycore.catalog.risk import risk_of
from flycore.catalog.schemas import needs_process
from flycore.model.approval import AgentAccess, MatchedRule, Verdict
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Decision, Level, Risk, Source
from flycore.model.json import JsonObject, digest
from flycore.model.sidecar import SidecarEntry
from flycore.policy.conditions import Match, PolicyCall, matches
from flycore.policy.default_decision import CallFacts, default_rule
from flycore.policy.files import (
    PolicyFile,
    SystemFile,
    load_bundles,
    load_files,
    load_system,
    with_last_good,
)
from flycore.policy.rules import Rule

if TYPE_CHECKING:
    from flycore.registry.paths import RootPaths

DEFAULTS_VERSION = 1
"""Grows when the built-in defaults change, so that a grant given under the old ones is void."""
TAKEN_OVER = "an entry of this project took the tool over from your own registry"
"""Why no rule allows such a tool: rules name tools, and this one runs another program now."""


class Policy(Value, frozen=True, kw_only=True, dict=True):
    """The policy that is in force at one moment."""

    layers: tuple[PolicyFile, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every file parsed; the console's header is red where not."""
        return all(layer.ok for layer in self.layers)

    @cached_property
    def version(self) -> str:
        """Digest over the content and the order of the rules. Comments and line numbers do not count."""
        rules = [[layer.source, [rule.digest_value() for rule in layer.rules]] for layer in self.layers]
        return digest([DEFAULTS_VERSION, rules])

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule in force: the system's, then the user's, the project's and those of bundles."""
        return tuple(rule for layer in self.layers for rule in layer.rules)

    @cached_property
    def expiry_times(self) -> tuple[float, ...]:
        """The Unix times at which a rule expires, in order."""
        return tuple(sorted({rule.expires for rule in self.rules if rule.expires is not None}))

    def version_at(self, now: float) -> str:
        """Return the version of the policy at the Unix time `now`."""
        # The number of expired rules is part of it: a rule that expires voids what was granted under it.
        over = sum(moment <= now for moment in self.expiry_times)
        return digest([self.version, over]) if over else self.version


class RuleMatch(NamedTuple):
    """A rule about the tool, and whether it applies to the call."""

    rule: Rule
    match: Match


def load_policy(
    paths: RootPaths,
    last_good: Policy | None,
    *,
    names: frozenset[str] = frozenset(),
    system: SystemFile | None = None,
) -> Policy:
    """Read the policy files. Never raises for their content.

    A file that does not parse keeps its rules from `last_good`. `names` are the known tools, for hints.
    `system` is the machine's own file; None leaves it out.
    """
    loaded = load_files(paths, names)
    read = (load_system(system, names), *loaded) if system is not None else loaded
    before = (
        {(layer.source, layer.file): layer for layer in last_good.layers} if last_good is not None else {}
    )
    bundles = load_bundles(paths.config_dir, names, last_good.layers if last_good is not None else ())
    read = (*read, *bundles)
    return Policy(
        layers=tuple(with_last_good(layer, before.get((layer.source, layer.file))) for layer, _ in read),
        diagnostics=tuple(item for _, found in read for item in found),
    )


MOST_COSTLY_CONDITIONS = 20
"""Conditions on one input that are checked in processes of their own, one after the other. Whether the input
meets the further ones is unknown."""


def matching_rules(policy: Policy, call: PolicyCall) -> tuple[RuleMatch, ...]:
    """Return every rule that applies to the call, may apply, or applied until it expired."""
    found: list[RuleMatch] = []
    costly = 0
    for rule in policy.rules:
        asked, when, given = call, rule.when, call.input
        applies = matches(rule.tool, call.tool)
        if applies and when is not None and given is not None and needs_process(when, given):
            costly += 1
            asked = call if costly <= MOST_COSTLY_CONDITIONS else msgspec.structs.replace(call, input=None)
        found.append(RuleMatch(rule, rule.match(asked)))
    return tuple(item for item in found if item.match is not Match.NO)


def effective_rules(matches: tuple[RuleMatch, ...]) -> tuple[MatchedRule, ...]:
    """Return the rules that count. An allow that only may apply does not count; a deny that only may apply
    asks."""
    return tuple(
        item.rule.matched() if item.match is Match.YES else _as_ask(item.rule)
        for item in matches
        if item.match is Match.YES
        or (item.match is Match.UNKNOWN and item.rule.decision is not Decision.ALLOW)
    )


def _without_vacuous_allow(item: RuleMatch) -> RuleMatch:
    conditional = item.rule.decision is Decision.ALLOW and item.rule.when is not None
    return item._replace(match=Match.UNKNOWN) if conditional and item.match is Match.YES else item


class Evaluation(Value, frozen=True, kw_only=True):
    """The policy's evaluation of one call, with everything that it rests on."""

    risk: Risk
    """The risk of this call: what the user's settings say of the tool, else its table for the input."""
    matches: tuple[RuleMatch, ...]
    """Every rule that applies to the call, may apply, or applied until it expired."""
    rules: tuple[MatchedRule, ...]
    """The rules that count; empty where the default decides."""
    default: MatchedRule
    """The default's decision, which holds where no rule counts."""

    @property
    def verdict(self) -> Verdict:
        """The strictest decision of the rules that count, else the default's."""
        matched = self.rules or (_mention_expired(self.default, self.matches),)
        return Verdict(decision=strictest(matched), rules=matched)


def evaluate(
    policy: Policy,
    capability: Capability,
    entry: SidecarEntry,
    *,
    input: JsonObject | None,
    level: Level,
    bundled_unmodified: bool,
    unsealed: str = "",
    user_risk: Risk | None = None,
    caller: Caller | None = None,
    now: float | None = None,
    access: AgentAccess | None = None,
) -> Evaluation:
    """Evaluate one call of a tool that `entry` offers.

    `input`, `caller` and `now` (Unix time in seconds) are None where they are not known; then an allow that
    depends on them does not count. `level` is the sandbox level, and `user_risk` the risk that the user's own
    settings give the tool. `access` is what is known of an agent's own command or read. `unsealed` says why
    the program may not be what it was when a person last decided; then no rule allows.
    """
    matches = matching_rules(policy, PolicyCall(tool=capability.name, input=input, caller=caller, now=now))
    if capability.name in KNOWN and not capability.known:
        # Its entry describes the tool: a condition on the kernel's fields may fit an input without them.
        matches = tuple(_without_vacuous_allow(item) for item in matches)
    risk = call_risk(capability, input, user_risk)
    if access is not None and user_risk is None:
        risk = access.risk
    if taken := entry.takes_over(capability.name):
        # What the user said of a tool was said of the program that the user's own registry names.
        risk = max(risk, call_risk(capability, input, None), key=lambda one: one.rank)
        user_risk = None
    facts = CallFacts(
        risk=risk,
        user_risk=user_risk,
        level=level,
        bundled_unmodified=bundled_unmodified and not unsealed,
        unsealed=unsealed,
        access=access,
    )
    # What was said of one entry's tool is not said of another one that takes its name.
    elsewhere = tuple(item for item in matches if not item.rule.is_for(entry.origin))
    default = _mention_other_entries(default_rule(capability, entry, facts), elsewhere, entry)
    rules = effective_rules(tuple(item for item in matches if item not in elsewhere))
    if unsealed:
        rules = tuple(_ask_for_allow(rule, unsealed) for rule in rules)
    if taken:
        rules = tuple(_ask_for_allow(rule, TAKEN_OVER) for rule in rules)
    if capability.asks_because:
        rules = (*rules, _required_approval(capability, entry))
    return Evaluation(risk=risk, matches=matches, rules=rules, default=default)


def _required_approval(capability: Capability, entry: SidecarEntry) -> MatchedRule:
    """Return the rule that a tool makes for itself by its `approval`. It asks, and so only narrows."""
    because = f"the tool says that each call needs an approval: {capability.asks_because}"
    where = f"{entry.position.file}:{entry.position.line}"
    return MatchedRule(decision=Decision.ASK, because=because, where=where, tool=capability.name)


MOST_CONDITIONS = 100
"""Conditions on one input that are checked on the event loop; each takes some microseconds."""


def conditions_are_costly(policy: Policy, capability: Capability, input: JsonObject) -> bool:
    """Return whether `evaluate` may take so long that it must not run on an event loop."""
    conditions = [rule.when for rule in policy.rules if rule.when is not None]
    conditions += [rule.when for rule in capability.risk_when]
    return len(conditions) > MOST_CONDITIONS or any(needs_process(when, input) for when in conditions)


def call_risk(capability: Capability, input: JsonObject | None, user_risk: Risk | None) -> Risk:
    """Return the risk of a call: what the user's settings say of the tool, else its table for the input."""
    return user_risk or (capability.risk if input is None else risk_of(capability, input))


def evaluate_general(
    policy: Policy,
    capability: Capability,
    entry: SidecarEntry,
    *,
    level: Level = Level.NONE,
    bundled_unmodified: bool = False,
    user_risk: Risk | None = None,
    now: float | None = None,
) -> Verdict:
    """Return the verdict that the catalog shows, before the caller and the input are known."""
    return evaluate(
        policy,
        capability,
        entry,
        input=None,
        level=level,
        bundled_unmodified=bundled_unmodified,
        user_risk=user_risk,
        now=now,
    ).verdict


def denying_rules(policy: Policy, call: PolicyCall) -> tuple[MatchedRule, ...]:
    """Return the denies that apply to a plan's own call, about which nobody is asked."""
    # No card is shown for a plan itself, so a deny that only may apply cannot ask: it denies. Before there is
    # an input, in the catalog, a condition on it must not make the plan look denied for every input.
    counting = (Match.YES,) if call.input is None else (Match.YES, Match.UNKNOWN)
    return tuple(
        item.rule.matched()
        for item in matching_rules(policy, call)
        if item.rule.decision is Decision.DENY and item.match in counting
    )


def strictest(rules: tuple[MatchedRule, ...]) -> Decision:
    """Return the strictest decision of the rules. Raises ValueError for none."""
    return max((rule.decision for rule in rules), key=lambda decision: decision.rank)


def expired_rules(policy: Policy, now: float) -> tuple[Diagnostic, ...]:
    """Return a warning for each rule that has expired by `now` (Unix time in seconds)."""
    return tuple(
        Diagnostic(
            severity=Severity.WARNING,
            rule="policy-expired",
            message=f"this {rule.decision.value} for {rule.tool!r} has expired and has no effect any more",
            remedy="remove the rule, or give it a later `expires`",
            position=Position(file=rule.file, line=rule.line, column=rule.column),
        )
        for rule in policy.rules
        if rule.expires is not None and now >= rule.expires
    )


def _mention_other_entries(
    default: MatchedRule, elsewhere: tuple[RuleMatch, ...], entry: SidecarEntry
) -> MatchedRule:
    """Return the default with the rules named that would have decided, but were made for other entries."""
    owner = "your own registry" if entry.source is Source.USER else "the project's registry"
    elsewhere_declared = entry.source.discovered or entry.source is Source.BUNDLE
    owner = f"the file {json.dumps(entry.position.file)}" if elsewhere_declared else owner
    reasons = [
        f"the allow at {item.rule.place} was made for another entry {json.dumps(item.rule.entry_id)}, and the"
        f" tool comes from {json.dumps(entry.id)} of {owner} now"
        for item in elsewhere
    ]
    return msgspec.structs.replace(default, because="; ".join((default.because, *reasons)))


def _as_ask(rule: Rule) -> MatchedRule:
    """Return a rule that may apply to the call as one that asks."""
    conditions = (("caller", rule.caller), ("input", rule.when), ("time", rule.expires))
    named = " and ".join(name for name, value in conditions if value not in ("", None))
    because = f"{rule.because} ({rule.decision.value}, depending on {named})"
    return msgspec.structs.replace(rule.matched(), decision=Decision.ASK, because=because)


def _ask_for_allow(rule: MatchedRule, why: str) -> MatchedRule:
    """Return an allow as one that asks, with the reason; any other rule as it is."""
    if rule.decision is not Decision.ALLOW:
        return rule
    because = f"{rule.because} (allow, but {why})"
    return msgspec.structs.replace(rule, decision=Decision.ASK, because=because)


def _mention_expired(default: MatchedRule, matches: tuple[RuleMatch, ...]) -> MatchedRule:
    """Return the default with the expired rules named, which would otherwise have decided."""
    expired = [
        f"the {item.rule.decision.value} at {item.rule.place} has expired"
        for item in matches
        if item.match is Match.EXPIRED
    ]
    return msgspec.structs.replace(default, because="; ".join((default.because, *expired)))
