"""The messages of `flyflor.ws.v1` that only a console in another process sends: it attaches, it is paired,
and then it decides. All of them refuse unknown keys.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from flycore.model.approval import Answer
from flycore.model.base import Value
from flycore.model.enums import PackageAction, PackageScope
from flycore.model.json import JsonObject

MAX_WINDOWS_OR_PIDS = 1024
"""Windows, or processes, that one console may list as its own."""
Numbers = Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_WINDOWS_OR_PIDS)]


class Attach(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`console.attach`: show a one-time code in the consoles that already decide."""

    window_ids: Numbers = ()
    """Windows of the console. No tool may touch them once the console is paired."""
    pids: Numbers = ()
    """The process of the console and the processes that it runs in."""


class Pair(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`console.pair`: present the code that the person typed."""

    code: Annotated[str, msgspec.Meta(max_length=64)]


class AskDecide(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.decide`: answer an approval request."""

    id: str
    subject_digest: str
    """Digest of what the card showed. Where the request has another digest now, the answer has no effect."""
    answer: Answer


class AskEdit(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.edit`: replace the input of a waiting request."""

    id: str
    subject_digest: str
    input: JsonObject


class AskHold(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.hold`: stop the time limit of a waiting request, or let it run again."""

    id: str
    held: bool


class LeaseRevoke(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`lease.revoke`: end a lease."""

    id: str


class RuleRemove(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rule.remove`: remove a rule. Nothing is removed where another rule is at that place now."""

    where: str
    digest: str


class BlockRemove(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`block.remove`: allow calls of a blocked tool again."""

    tool: str


class QuestionAnswer(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`question.answer`: answer a question that is not about one call."""

    id: str
    option: str
    text: str = ""
    content: JsonObject | None = None
    """The values for the form of the question, for an option that brings some."""


class TrustAccept(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`trust.accept`: trust entries, each as its sidecar id and the digest that was shown."""

    accepted: tuple[tuple[str, str], ...]


class SidecarEnable(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sidecar.enable`: enable or disable an entry in its registry file."""

    sidecar: str
    enabled: bool
    reason: str = ""


class SidecarPermit(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sidecar.permit`: add the permissions that a call lacked to an entry.

    `digest` is that of the fix that was shown."""

    sidecar: str
    digest: str


class StarterPlanGet(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`starter.plan.get`: read the change that writes these entries of the starter registry."""

    sidecars: tuple[str, ...]


class StarterWrite(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`starter.write`: write these entries of the starter registry.

    `digest` is that of the change that was shown."""

    sidecars: tuple[str, ...]
    digest: str


class ServerImport(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`server.import`: import an MCP server from the file of another client.

    `path` and `name` are as the catalog shows them, `digest` is that of the entry that was shown."""

    path: str
    name: str
    digest: str


class PackageAsk(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`package.ask`: put a change of a package before a person."""

    action: PackageAction
    package: str
    scope: PackageScope


class PackageStage(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`package.stage`: stage the version in a folder or an archive of the kernel's machine."""

    source: str
    scope: PackageScope


class PackageChange(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`package.change`: apply, roll back or remove a package. `digest` is that of the review that was shown,
    and empty but for an apply. Only if a person `agreed` is the entry trusted."""

    action: PackageAction
    package: str
    scope: PackageScope
    digest: str
    agreed: bool = True


class PackageDiscard(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`package.discard`: discard the staged version of a package."""

    package: str
    scope: PackageScope


class RefusePairing(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`console.refuse`: make the pairing codes of this process invalid."""

    pid: int
