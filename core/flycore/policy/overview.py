"""What policy says of a tool before there is a call: the catalog's view, for many tools at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping

from flycore.model.catalog import Capability
from flycore.model.enums import Decision, Risk
from flycore.model.sidecar import SidecarEntry
from flycore.policy.conditions import PolicyCall
from flycore.policy.evaluate import Policy, evaluate_general, matching_rules

PolicySummary = tuple[Decision, str]
"""The decision, and the rules it rests on, each with its place."""


def policy_overview(
    policy: Policy, *, bundled: Collection[str], risks: Mapping[str, Risk], now: float
) -> Callable[[Capability, SidecarEntry], PolicySummary]:
    """Looks a tool up. `bundled` are sidecars whose program is the unmodified one of this distribution,
    `risks` what the user's own config says of tools. Tools of an entry that no rule is about and that are
    alike in all that the default looks at are judged once; an entry's id stands for its one value here."""
    alike: dict[Hashable, PolicySummary] = {}

    def judged(capability: Capability, entry: SidecarEntry) -> PolicySummary:
        verdict = evaluate_general(
            policy,
            capability,
            entry,
            bundled_unmodified=entry.id in bundled,
            user_risk=risks.get(capability.name),
            now=now,
        )
        return verdict.decision, "; ".join(f"{rule.because} ({rule.where})" for rule in verdict.rules)

    def view(capability: Capability, entry: SidecarEntry) -> PolicySummary:
        name = capability.name
        if policy.rules and matching_rules(policy, PolicyCall(tool=name, input=None, caller=None, now=now)):
            return judged(capability, entry)
        key = (entry.id, capability.known, capability.read_only, capability.risk, risks.get(name))
        if key not in alike:
            alike[key] = judged(capability, entry)
        return alike[key]

    return view
