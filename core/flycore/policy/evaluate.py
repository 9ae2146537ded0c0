"""Policy: a verdict for each call, from the rules of three files and, where none matches, the default.

Allow < ask < deny; the strictest rule that matches wins. What a rule says of a call can be unknown: of the
input before there is a call, of the caller where it could not be told. Then an allow does not count, and a
deny asks.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from flycore.catalog.risk import risk_of
from flycore.model.approval import MatchedRule, Verdict
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Decision, Level, Risk
from flycore.model.json import JsonObject, digest
from flycore.model.sidecar import SidecarEntry
from flycore.policy.conditions import Match, PolicyCall
from flycore.policy.default_decision import CallFacts, default_rule
from flycore.policy.files import PolicyFile, SystemFile, load_files, load_system, with_last_good
from flycore.policy.rules import Rule

if TYPE_CHECKING:
    from flycore.registry.paths import RootPaths

DEFAULTS_VERSION = 1
"""Grows when the built-in defaults change, so that a grant given under the old ones is void."""


class Policy(Value, frozen=True, kw_only=True, dict=True):
    """All that is in force at one moment."""

    layers: tuple[PolicyFile, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every file parsed; the console's header is red where not."""
        return all(layer.ok for layer in self.layers)

    @cached_property
    def version(self) -> str:
        """Digest over what the rules say and their order; comments and places do not count."""
        said = [[layer.source, [rule.digest_value() for rule in layer.rules]] for layer in self.layers]
        return digest([DEFAULTS_VERSION, said])

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule in force: the system's, the user's, the project's."""
        return tuple(rule for layer in self.layers for rule in layer.rules)

    @cached_property
    def moments(self) -> tuple[float, ...]:
        """Unix times at which a rule ends, in order."""
        return tuple(sorted({rule.expires for rule in self.rules if rule.expires is not None}))

    def version_at(self, now: float) -> str:
        """The version with what has expired by then: a rule that ends voids what was granted under it."""
        over = sum(moment <= now for moment in self.moments)
        return digest([self.version, over]) if over else self.version


class RuleMatch(NamedTuple):
    """A rule about the tool, and whether it is about the call."""

    rule: Rule
    match: Match


def load_policy(
    places: RootPaths,
    last_good: Policy | None,
    *,
    names: frozenset[str] = frozenset(),
    system: SystemFile | None = None,
) -> Policy:
    """Read the files. Never raises for what is in them; `names` are the tools there are, for hints."""
    loaded = load_files(places, names)
    read = (load_system(system, names), *loaded) if system is not None else loaded
    before = {layer.source: layer for layer in last_good.layers} if last_good is not None else {}
    return Policy(
        layers=tuple(with_last_good(layer, before.get(layer.source)) for layer, _ in read),
        diagnostics=tuple(item for _, found in read for item in found),
    )


def matching_rules(policy: Policy, call: PolicyCall) -> tuple[RuleMatch, ...]:
    """Every rule that is about the call, could be, or was until it expired."""
    looked = (RuleMatch(rule, rule.match(call)) for rule in policy.rules)
    return tuple(item for item in looked if item.match is not Match.NO)


def effective_rules(looked: tuple[RuleMatch, ...]) -> tuple[MatchedRule, ...]:
    """What these rules say together. One that only may be about the call is no allow, and no deny yet."""
    return tuple(
        item.rule.matched() if item.match is Match.YES else _as_ask(item.rule)
        for item in looked
        if item.match is Match.YES
        or (item.match is Match.UNKNOWN and item.rule.decision is not Decision.ALLOW)
    )


class Evaluation(Value, frozen=True, kw_only=True):
    """What policy says of one call, with everything it rests on."""

    risk: Risk
    """Of this call: the user's word for the tool, else that of the tool's table for this input."""
    matches: tuple[RuleMatch, ...]
    """Every rule that is about the call, could be, or was until it expired."""
    rules: tuple[MatchedRule, ...]
    """What the rules that count say; empty where the default decides."""
    default: MatchedRule
    """What holds where no rule counts."""

    @property
    def verdict(self) -> Verdict:
        """The decision of the rules together; of the default where there are none."""
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
    user_risk: Risk | None = None,
    caller: Caller | None = None,
    now: float | None = None,
) -> Evaluation:
    """Judge one call of a tool that `entry` offers. `input`, `caller` and `now` (Unix time) are None where
    they are not known; then no allow that asks for them counts. `level` is the sandbox's, `user_risk` what
    the user's own config says of the tool."""
    looked = matching_rules(policy, PolicyCall(tool=capability.name, input=input, caller=caller, now=now))
    risk = call_risk(capability, input, user_risk)
    standing = CallFacts(
        risk=risk,
        user_risk=user_risk,
        level=level,
        bundled_unmodified=bundled_unmodified,
    )
    default = default_rule(capability, entry, standing)
    return Evaluation(risk=risk, matches=looked, rules=effective_rules(looked), default=default)


def call_risk(capability: Capability, input: JsonObject | None, user_risk: Risk | None) -> Risk:
    """The risk of a call: the user's word for the tool, else what its table says of the input."""
    return user_risk or (capability.risk if input is None else risk_of(capability, input))


def evaluate_general(
    policy: Policy,
    capability: Capability,
    entry: SidecarEntry,
    *,
    bundled_unmodified: bool = False,
    user_risk: Risk | None = None,
    now: float | None = None,
) -> Verdict:
    """The verdict the catalog shows, before caller and input are known."""
    return evaluate(
        policy,
        capability,
        entry,
        input=None,
        level=Level.NONE,
        bundled_unmodified=bundled_unmodified,
        user_risk=user_risk,
        now=now,
    ).verdict


def denying_rules(policy: Policy, call: PolicyCall) -> tuple[MatchedRule, ...]:
    """The denies about a call that nobody can be asked about: a plan's own. One of which it is not known
    whether it is about the call counts, once there is a call."""
    fits = (Match.YES,) if call.input is None else (Match.YES, Match.UNKNOWN)
    return tuple(
        item.rule.matched()
        for item in matching_rules(policy, call)
        if item.rule.decision is Decision.DENY and item.match in fits
    )


def strictest(rules: tuple[MatchedRule, ...]) -> Decision:
    """What several rules decide together; ValueError for none."""
    return max((rule.decision for rule in rules), key=lambda decision: decision.rank)


def expired_rules(policy: Policy, now: float) -> tuple[Diagnostic, ...]:
    """A warning for each rule whose time is over."""
    return tuple(
        Diagnostic(
            severity=Severity.WARNING,
            rule="policy-expired",
            message=f"this {rule.decision.value} for {rule.tool!r} has expired and decides nothing any more",
            remedy="remove the rule, or give it a later `expires`",
            position=Position(file=rule.file, line=rule.line, column=rule.column),
        )
        for rule in policy.rules
        if rule.expires is not None and now >= rule.expires
    )


def _as_ask(rule: Rule) -> MatchedRule:
    """A deny or ask of which it is not known yet whether it is about the call."""
    conditions = (("caller", rule.caller), ("input", rule.when), ("time", rule.expires))
    named = " and ".join(name for name, given in conditions if given not in ("", None))
    because = f"{rule.because} ({rule.decision.value}, depending on {named})"
    return msgspec.structs.replace(rule.matched(), decision=Decision.ASK, because=because)


def _mention_expired(default: MatchedRule, looked: tuple[RuleMatch, ...]) -> MatchedRule:
    """The default's sentence, with the rules that would have decided, had they not expired."""
    over = [
        f"the {item.rule.decision.value} at {item.rule.place} has expired"
        for item in looked
        if item.match is Match.EXPIRED
    ]
    return msgspec.structs.replace(default, because="; ".join((default.because, *over)))
