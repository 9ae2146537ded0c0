"""What holds where no rule matches: allow only what is harmless on everybody's word that counts."""

from __future__ import annotations

from flycore.model.approval import MatchedRule
from flycore.model.base import Value
from flycore.model.catalog import Capability
from flycore.model.enums import Decision, Level, Risk, Source
from flycore.model.sidecar import SidecarEntry

DEFAULT = "default"
"""What a verdict names as the place of the default."""


class CallFacts(Value, frozen=True, kw_only=True):
    """How a call stands before anybody is asked."""

    risk: Risk
    """Of this call: the table's, or the user's where `user_risk` is given, already chosen."""
    user_risk: Risk | None = None
    """What the user's own config says of the tool; a project file has no say here."""
    level: Level
    bundled_unmodified: bool


def default_rule(capability: Capability, entry: SidecarEntry, standing: CallFacts) -> MatchedRule:
    """Allow where nothing speaks against it, else ask, with all that does."""
    against = objections(capability, entry, standing)
    if against:
        sentence = f"no rule matches, and {', '.join(against)}"
        return MatchedRule(decision=Decision.ASK, because=sentence, where=DEFAULT)
    sentence = "no rule matches; read-only, low risk, no network, no write, no secret"
    return MatchedRule(decision=Decision.ALLOW, because=sentence, where=DEFAULT)


def objections(capability: Capability, entry: SidecarEntry, standing: CallFacts) -> tuple[str, ...]:
    """Why the call is not allowed by default; empty where it is.

    The kernel's table and the user's own files are believed. Whatever else describes a tool may make it
    look worse, never better.
    """
    permissions = entry.permissions
    believed = capability.known or entry.source is Source.USER
    rated = capability.known or standing.user_risk is not None
    trusted_program = standing.bundled_unmodified and not entry.delegates
    facts = (
        (capability.read_only and believed, "it is not known to be read-only"),
        (standing.risk is Risk.LOW and rated, "its risk is not known to be low"),
        (not permissions.network, "it may use the network"),
        (not permissions.write, "it may write files"),
        (not permissions.secrets, "it is given secrets"),
        (_plain_environment(entry), "its entry sets environment variables, which may change what runs"),
        (standing.level is Level.ENFORCED or trusted_program, _program_objection(standing)),
    )
    return tuple(sentence for holds, sentence in facts if not holds)


def _plain_environment(entry: SidecarEntry) -> bool:
    """Whether the entry adds nothing to the environment but the language: PYTHONPATH, LD_PRELOAD and their
    like would make an unmodified program run something else."""
    return all(name == "LANG" or name.startswith("LC_") for name in (*entry.env, *entry.pass_env))


def _program_objection(standing: CallFacts) -> str:
    if standing.bundled_unmodified:
        return "it may start a delegate outside a sandbox"
    return "its program is not part of flytui and runs outside a sandbox"
