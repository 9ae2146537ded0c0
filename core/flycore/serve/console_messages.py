"""What a console of another process says: to come in, and, once it is paired, to decide."""

from __future__ import annotations

from typing import Annotated

import msgspec

from flycore.model.approval import Answer
from flycore.model.base import Value
from flycore.model.json import JsonObject
from flycore.serve.messages import Nothing

MOST_OF_A_SEAT = 1024
"""Windows, or processes, that one console may name as its own."""
Numbers = Annotated[tuple[int, ...], msgspec.Meta(max_length=MOST_OF_A_SEAT)]


class Attach(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`console.attach`: have a one-time code shown where a person sits already."""

    window_ids: Numbers = ()
    """Windows of the console, which no tool may touch once it is paired."""
    pids: Numbers = ()
    """Its process and those it sits in."""


class Pair(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`console.pair`: the code, as the person typed it."""

    code: Annotated[str, msgspec.Meta(max_length=64)]


class AskDecide(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.decide`."""

    id: str
    subject_digest: str
    """Of what the card showed: if it is another by now, nothing counts."""
    answer: Answer


class AskEdit(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.edit`: another input in the place of the one that waits."""

    id: str
    subject_digest: str
    input: JsonObject


class AskHold(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ask.hold`: stop a request's time, or let it run on."""

    id: str
    held: bool


class LeaseRevoke(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`lease.revoke`."""

    id: str


class RuleRemove(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rule.remove`: the rule that was shown there, and no other."""

    where: str
    digest: str


class BlockRemove(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`block.remove`."""

    tool: str


class QuestionAnswer(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`question.answer`."""

    id: str
    option: str
    text: str = ""


class TrustAccept(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`trust.accept`: entries as (sidecar id, digest shown)."""

    accepted: tuple[tuple[str, str], ...]


class SidecarEnable(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sidecar.enable`: switch an entry on or off in its file."""

    sidecar: str
    enabled: bool
    reason: str = ""


class ServerImport(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`server.import`: a server of another client's file, by that file and its name as the catalog shows
    them, and the digest of what was shown that would be written."""

    path: str
    name: str
    digest: str


class RefusePairing(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`console.refuse`: the codes that this process asked for count no more."""

    pid: int


CONSOLE_PAYLOADS: dict[str, type[msgspec.Struct]] = {
    "console.attach": Attach,
    "console.pair": Pair,
    "ask.decide": AskDecide,
    "ask.edit": AskEdit,
    "ask.hold": AskHold,
    "lease.revoke": LeaseRevoke,
    "rule.remove": RuleRemove,
    "block.remove": BlockRemove,
    "approver.undo": Nothing,
    "question.answer": QuestionAnswer,
    "trust.accept": TrustAccept,
    "sidecar.enable": SidecarEnable,
    "starter.write": Nothing,
    "server.import": ServerImport,
    "console.refuse": RefusePairing,
}
"""By the type of the message."""
