"""The plans in the catalog. The state of a plan follows from the atomic tools that its actions use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from flycore.catalog import reasons
from flycore.catalog.builtin import KNOWN
from flycore.catalog.snapshot import effective
from flycore.model.catalog import Capability, CapabilityView
from flycore.model.enums import (
    Decision,
    Discovery,
    Effective,
    Layer,
    Manifest,
    ProbeState,
    SandboxState,
)
from flycore.model.stability import Reason, Stability

PLAN = "plan"
"""The `source` of a tool that the kernel carries out itself."""


def plan_names() -> frozenset[str]:
    """Return the names of the tools that the kernel carries out itself, step by step."""
    return frozenset(name for name, capability in KNOWN.items() if capability.layer is Layer.HIGH)


def plan_capability(
    capability: Capability, atomic: Mapping[str, CapabilityView], *, denied: str, blocked: bool
) -> CapabilityView:
    """Return a plan with the state that follows from its atomic tools. `denied` says by which rules the plan
    itself is denied; empty where it is not."""
    over = [atomic[name] for name in capability.over]
    found = _stability(capability.name, over, denied, blocked=blocked)
    asked = any(view.decision != Decision.ALLOW for view in over)
    decision = Decision.DENY if denied else Decision.ASK if asked else Decision.ALLOW
    listed = ", ".join(f"{view.capability.name} {view.decision}" for view in over if view.decision)
    return CapabilityView(
        capability=capability,
        sidecar=None,
        source=PLAN,
        stability=msgspec.structs.replace(found, effective=effective(found)),
        decision=decision.value if listed or denied else "",
        because=denied or (f"not asked itself; its steps are: {listed}" if listed else ""),
    )


def _stability(name: str, over: list[CapabilityView], denied: str, *, blocked: bool) -> Stability:
    missing = [view for view in over if not view.stability.effective.usable]
    if missing:
        # The ladder stops where that of the first missing tool stops, so that it shows what blocks the plan.
        first = missing[0].stability
        # A plan whose tool is switched off, or offered by nothing, is not switched off itself.
        own = first if first.discovery is Discovery.CONFIGURED else Stability(discovery=Discovery.MISSING)
        return msgspec.structs.replace(own, reasons=tuple(_needs(name, missing)))
    known = Stability(discovery=Discovery.CONFIGURED, manifest=Manifest.VALID)
    if denied or blocked:
        why = reasons.blocked(name) if blocked else reasons.policy_denied(name, denied)
        return msgspec.structs.replace(known, sandbox=SandboxState.DENIED, reasons=(why,))
    asks = any(view.decision == Decision.ASK for view in over)
    sandbox = SandboxState.APPROVAL_REQUIRED if asks else SandboxState.ALLOWED
    unwell = [view for view in over if view.stability.effective is Effective.DEGRADED]
    if not unwell:
        return msgspec.structs.replace(known, sandbox=sandbox)
    return msgspec.structs.replace(
        known, sandbox=sandbox, probe=ProbeState.DEGRADED, reasons=tuple(_needs(name, unwell))
    )


def _needs(name: str, views: list[CapabilityView]) -> Iterator[Reason]:
    """Yield the first reason of each tool, as a reason of the plan. Tools that share a reason share its
    line."""
    tools: dict[Reason, list[str]] = {}
    for view in views:
        for first in view.stability.reasons[:1]:
            tools.setdefault(first, []).append(view.capability.name)
    for first, names in tools.items():
        yield reasons.plan_needs(name, names, first)
