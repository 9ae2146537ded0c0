"""The decision of policy on a call that is only described, by the files as they are now."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import msgspec

from flycore.approval.trust_store import TrustStore
from flycore.catalog.builtin import AGENT_ACTIONS, agent_actions, agent_entry
from flycore.catalog.builtin_tools import BUILTIN, FILES_FAMILY
from flycore.kernel.effective_entries import effective_files
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.root_state import state_in_force
from flycore.model.approval import MatchedRule
from flycore.model.call import Caller
from flycore.model.catalog import Capability
from flycore.model.enums import Decision, Level, Risk
from flycore.model.json import JsonObject
from flycore.model.sidecar import SidecarEntry
from flycore.pipeline.agent_access import look_at_agent_call
from flycore.pipeline.builtin_tools import entry_of
from flycore.pipeline.call import Rejection
from flycore.pipeline.context import Files, RootEnvironment, RootState
from flycore.pipeline.prepare import program_and_level, seal_resolved
from flycore.policy.conditions import PolicyCall
from flycore.policy.evaluate import (
    Policy,
    RuleMatch,
    call_risk,
    effective_rules,
    evaluate,
    matching_rules,
    strictest,
)
from flycore.registry.paths import RootPaths
from flycore.runners.workspace.project_files import project_of
from flycore.sandbox.levels import sandbox_level


class CallEvaluation(msgspec.Struct, frozen=True):
    """A decision with its reasons. `decision` is None if no sidecar offers the tool and no rule matches."""

    decision: Decision | None
    risk: Risk | None
    rules: tuple[MatchedRule, ...]
    """The rules that decided."""
    matches: tuple[RuleMatch, ...]
    """Every rule that matches the call, may match it, or matched it before it expired."""
    default: MatchedRule | None
    """The decision without any rule; None if no sidecar offers the tool."""


class OfflinePolicy(msgspec.Struct, frozen=True):
    """The files of a root and the state built from them, read once. Starts no tool and writes nothing."""

    environment: RootEnvironment
    files: Files
    root_state: RootState
    now: float

    def capability(self, tool: str) -> Capability | None:
        """Return the tool's descriptor, also if no sidecar offers it; None for an unknown tool."""
        view = self.root_state.index.get(tool)
        return agent_actions().get(tool) if view is None else view.capability

    def sidecar(self, tool: str) -> str | None:
        """Return the id of the entry that offers the tool; None if none does."""
        view = self.root_state.index.get(tool)
        return None if view is None else view.sidecar

    def entry(self, tool: str) -> SidecarEntry | None:
        """Return the entry that offers the tool, or what stands for one; None where nothing offers it."""
        if tool in AGENT_ACTIONS:
            return agent_entry()
        view = self.root_state.index.get(tool)
        if view is None:
            return None
        return entry_of(self.root_state, view) or self.root_state.entries.get(view.sidecar or "")

    def _unsealed(self, entry: SidecarEntry) -> str:
        """Return why no rule may allow the entry's programs; empty where one may."""
        if entry.url or not entry.command:
            return ""
        root, registry = self.environment, self.files.registry
        program, level = program_and_level(root, registry, entry, self.root_state.support)
        # Nothing is compared with what a person accepted: the command changes nothing.
        found = seal_resolved(root, registry, entry, program, level)
        # What cannot be started is not called, whatever policy says.
        return "" if isinstance(found, Rejection) else found.weakness

    def names(self) -> frozenset[str]:
        """Return the names of every known tool, and of the actions agents take with tools of their own."""
        return frozenset(self.root_state.index) | AGENT_ACTIONS

    def evaluate(
        self, policy: Policy, tool: str, input: JsonObject | None, caller: Caller | None
    ) -> CallEvaluation:
        """Evaluate `policy` on the call. `input` must be validated, with its defaults filled in."""
        user_risk = self.files.settings.risk.get(tool)
        capability = self.capability(tool)
        entry = self.entry(tool)
        if capability is None or entry is None or not entry.valid:
            matches = matching_rules(policy, PolicyCall(tool=tool, input=input, caller=caller, now=self.now))
            rules = effective_rules(matches)
            risk = None if capability is None else call_risk(capability, input, user_risk)
            return CallEvaluation(strictest(rules) if rules else None, risk, rules, matches, None)
        view = self.root_state.index.get(tool)
        builtin = view is not None and view.source == BUILTIN
        own = tool.startswith(f"{FILES_FAMILY}.") if builtin else False
        bundled = own or self.environment.bundled(self.files.programs.get(entry.id))
        level = sandbox_level(entry, self.root_state.support, bundled=bundled)
        found = evaluate(
            policy,
            capability,
            entry,
            input=input,
            level=Level.NONE if own else level,
            bundled_unmodified=bundled,
            # What a tool of the kernel starts is sealed only for a call.
            unsealed="" if builtin or tool in AGENT_ACTIONS else self._unsealed(entry),
            user_risk=user_risk,
            caller=caller,
            now=self.now,
            access=look_at_agent_call(
                tool, input, project_of(self.environment.places), switched_on=self.files.settings.agent_reads
            ),
        )
        return CallEvaluation(found.verdict.decision, found.risk, found.rules, found.matches, found.default)


def read_offline_policy(places: RootPaths, environ: Mapping[str, str] | None = None) -> OfflinePolicy:
    """Read registry, policy and settings as a kernel that starts now would.

    An entry that changed since it was trusted counts with its trusted value.
    """
    environment = find_environment(places, dict(os.environ if environ is None else environ))
    trust = TrustStore(places.trust_file)
    files = effective_files(environment, read_files(environment, None), trust)
    now = time.time()
    # Nothing is trusted or probed here: policy depends on the entries alone.
    untrusted = msgspec.structs.replace(files, trusted=frozenset())
    return OfflinePolicy(environment, files, state_in_force(environment, untrusted, {}, now), now)
