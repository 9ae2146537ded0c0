"""What policy says of a call that nobody makes: the files as they are, and a person's question."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flycore.approval.conditions import PolicyCall
from flycore.approval.default import Standing, default_rule
from flycore.approval.policy import Looked, Policy, counted, look, strictest
from flycore.approval.trust import TrustStore
from flycore.catalog.agent_actions import AGENT_ACTIONS, agent_actions, agent_entry
from flycore.catalog.effects import risk_of
from flycore.kernel.in_force import in_force
from flycore.kernel.world import Files, Ground, Observed, build_world, find_ground, read_files
from flycore.model.approval import MatchedRule
from flycore.sandbox.levels import report

if TYPE_CHECKING:
    from flycore.executive.world import World
    from flycore.model.call import Caller
    from flycore.model.canonical import JsonObject
    from flycore.model.capability import Capability
    from flycore.model.enums import Decision, Risk
    from flycore.model.sidecar import SidecarEntry
    from flycore.registry.places import Places


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision with everything it rests on. `default` is what holds without a rule, None where nothing
    offers the tool; `decision` is None where then no rule says anything either."""

    decision: Decision | None
    risk: Risk | None
    rules: tuple[MatchedRule, ...]
    """What the rules said that counted."""
    looked: tuple[Looked, ...]
    """Every rule that is about the call, could be, or was until it expired."""
    default: MatchedRule | None


@dataclass(frozen=True, slots=True)
class Bench:
    """The files of a root and what they make of it, read once. Spawns nothing, writes nothing."""

    ground: Ground
    files: Files
    world: World
    now: float

    def capability(self, tool: str) -> Capability | None:
        """The tool's descriptor, whether anything offers it or not."""
        view = self.world.index.get(tool)
        return agent_actions().get(tool) if view is None else view.capability

    def sidecar(self, tool: str) -> str | None:
        """Id of the entry that offers it; None where none does."""
        view = self.world.index.get(tool)
        return None if view is None else view.sidecar

    def judge(self, policy: Policy, tool: str, input: JsonObject | None, caller: Caller | None) -> Judgement:
        """What `policy` says of the call. The input is validated, its defaults filled in."""
        looked = look(policy, PolicyCall(tool=tool, input=input, caller=caller, now=self.now))
        rules = counted(looked)
        risk, default = self._default(tool, input)
        speaking = rules or ((default,) if default is not None else ())
        decision = strictest(speaking) if speaking else None
        return Judgement(decision, risk, rules, looked, default)

    def names(self) -> frozenset[str]:
        """Every tool there is or could be, and what agents do with tools of their own."""
        return frozenset(self.world.index) | AGENT_ACTIONS

    def _default(self, tool: str, input: JsonObject | None) -> tuple[Risk | None, MatchedRule | None]:
        capability = self.capability(tool)
        if capability is None:
            return None, None
        user_risk = self.files.settings.risk.get(tool)
        risk = user_risk or (capability.risk if input is None else risk_of(capability, input))
        entry = agent_entry() if tool in AGENT_ACTIONS else self.world.entries.get(self.sidecar(tool) or "")
        if entry is None or not entry.valid:
            return risk, None
        bundled = self.ground.bundled(self.files.programs.get(entry.id))
        return risk, default_rule(capability, entry, _standing(entry, risk, user_risk, bundled=bundled))


def read_bench(places: Places, environ: Mapping[str, str] | None = None) -> Bench:
    """Read registry, policy and settings as a kernel that starts now would; of an entry that changed since
    it was trusted, the trusted value."""
    ground = find_ground(places, dict(os.environ if environ is None else environ))
    trust = TrustStore.load(places.trust_file)
    files = in_force(ground, read_files(ground, None), trust).files
    now = time.time()
    seen = Observed(trusted=frozenset(), probes={}, runtime={})
    return Bench(ground, files, build_world(ground, files, seen, version=1, now=now), now)


def _standing(entry: SidecarEntry, risk: Risk, user_risk: Risk | None, *, bundled: bool) -> Standing:
    return Standing(
        risk=risk,
        user_risk=user_risk,
        level=report(entry.permissions, entry.limits, bundled=bundled).level,
        bundled_unmodified=bundled,
        has_delegate=bool(entry.delegates),
        permissions=entry.permissions,
    )
