"""What policy says of each tool before there is a call, for the many tools of a catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping

from flycore.model.catalog import Capability
from flycore.model.enums import Decision, Level, Risk
from flycore.model.sidecar import SidecarEntry
from flycore.policy.conditions import PolicyCall
from flycore.policy.evaluate import Policy, evaluate_general, matching_rules

PolicySummary = tuple[Decision, str]
"""The decision, and the rules it rests on, each with its place."""


def policy_overview(
    policy: Policy,
    *,
    bundled: Collection[str],
    levels: Mapping[str, Level],
    risks: Mapping[str, Risk],
    now: float,
) -> Callable[[Capability, SidecarEntry], PolicySummary]:
    """Return the function that gives the policy's summary of a tool.

    `bundled` are the sidecars whose program is the unmodified one of this distribution, `levels` the sandbox
    levels by sidecar, `risks` the risks that the user's own settings give tools, and `now` is Unix time in
    seconds.
    """
    # Tools that no rule names, and that are alike in everything the default looks at, share one evaluation:
    # an MCP server may offer thousands. The entry's id is enough of a key: one catalog has one value of it.
    summaries: dict[Hashable, PolicySummary] = {}

    def evaluated(capability: Capability, entry: SidecarEntry) -> PolicySummary:
        verdict = evaluate_general(
            policy,
            capability,
            entry,
            level=levels.get(entry.id, Level.NONE),
            bundled_unmodified=entry.id in bundled,
            user_risk=risks.get(capability.name),
            now=now,
        )
        return verdict.decision, "; ".join(f"{rule.because} ({rule.where})" for rule in verdict.rules)

    def view(capability: Capability, entry: SidecarEntry) -> PolicySummary:
        name = capability.name
        if policy.rules and matching_rules(policy, PolicyCall(tool=name, input=None, caller=None, now=now)):
            return evaluated(capability, entry)
        kind = (capability.known, capability.read_only, capability.risk)
        key = (entry.id, *kind, risks.get(name), entry.takes_over(name))
        if key not in summaries:
            summaries[key] = evaluated(capability, entry)
        return summaries[key]

    return view
