"""The decision where no rule matches: allow what is known to be harmless, and ask for everything else."""

from __future__ import annotations

from flycore.model.approval import AgentAccess, MatchedRule
from flycore.model.base import Value
from flycore.model.catalog import Capability
from flycore.model.enums import Decision, Level, Risk, Source
from flycore.model.sidecar import SidecarEntry

DEFAULT = "default"
"""What a verdict names as the place of its rule where the default decided."""

READ_ONLY = "read-only"
"""The same where flytui's own layer allowed an agent's command or read, because it only reads."""
NOT_RULES = (DEFAULT, READ_ONLY)
"""Places that are no place of a rule in a file."""


class CallFacts(Value, frozen=True, kw_only=True):
    """The facts of a call that the default looks at."""

    risk: Risk
    """The risk of this call: `user_risk` where it is given, else that of the tool's table for the input."""
    user_risk: Risk | None = None
    """The risk that the user's own settings give the tool. A project's file cannot set it."""
    level: Level
    """The sandbox level that the call would run at."""
    bundled_unmodified: bool
    """Whether the program is one of this distribution, as it was installed."""
    unsealed: str = ""
    """Why the program may not be what it was when a person last decided; empty where it is."""
    access: AgentAccess | None = None
    """What is known of an agent's own command or read; None for every other call."""


def default_rule(capability: Capability, entry: SidecarEntry, facts: CallFacts) -> MatchedRule:
    """Return the default's decision: allow where there is no objection, else ask, naming all objections."""
    if facts.access is not None:
        return _agent_rule(facts.access, facts.risk)
    against = objections(capability, entry, facts)
    if against:
        sentence = f"no rule matches, and {', '.join(against)}"
        return MatchedRule(decision=Decision.ASK, because=sentence, where=DEFAULT)
    sentence = "no rule matches; read-only, low risk, no network, no write, no secret"
    return MatchedRule(decision=Decision.ALLOW, because=sentence, where=DEFAULT)


def _agent_rule(access: AgentAccess, risk: Risk) -> MatchedRule:
    """Return the decision about an agent's own command or read: allow where it only reads, and the person has
    not said that it is of more than low risk."""
    if access.reads_only and risk is Risk.LOW:
        return MatchedRule(decision=Decision.ALLOW, because=f"no rule matches; {access.why}", where=READ_ONLY)
    why = f"its risk is {risk.value} by your settings" if access.reads_only else access.why
    return MatchedRule(decision=Decision.ASK, because=f"no rule matches, and {why}", where=DEFAULT)


def objections(capability: Capability, entry: SidecarEntry, facts: CallFacts) -> tuple[str, ...]:
    """Return why the call is not allowed by default; empty where it is."""
    # Only the kernel's own table and the user's own files are believed. Anything else that describes a tool,
    # such as a cloned registry or an MCP server, may make it look worse, never better.
    permissions = entry.effective_permissions
    believed = capability.known or entry.source is Source.USER
    rated = capability.known or facts.user_risk is not None
    # A sandbox limits what a changed program reaches; that nobody has looked at the change remains.
    confined = facts.level is Level.ENFORCED and not facts.unsealed
    trusted_program = facts.bundled_unmodified and not entry.delegates
    conditions = (
        (capability.read_only and believed, "it is not known to be read-only"),
        (facts.risk is Risk.LOW and rated, "its risk is not known to be low"),
        (not permissions.network, "it may use the network"),
        (not permissions.write, "it may write files"),
        (not permissions.secrets, "it is given secrets"),
        (_plain_environment(entry), "its entry sets environment variables, which may change what runs"),
        (confined or trusted_program, _program_objection(facts)),
    )
    return tuple(sentence for holds, sentence in conditions if not holds)


def _plain_environment(entry: SidecarEntry) -> bool:
    """Return whether the entry adds nothing to the environment but the language."""
    # Variables such as PYTHONPATH and LD_PRELOAD make an unmodified program run other code.
    return all(name == "LANG" or name.startswith("LC_") for name in (*entry.env, *entry.pass_env))


def _program_objection(facts: CallFacts) -> str:
    if facts.bundled_unmodified:
        return "it may start a delegate outside a sandbox"
    if facts.level is Level.ENFORCED:
        return facts.unsealed
    return "its program is not part of flytui and runs outside a sandbox"
