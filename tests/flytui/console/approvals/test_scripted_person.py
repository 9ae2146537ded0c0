"""A scripted person decides forty requests of all kinds at four sizes of a terminal, without Textual.

The person sees what the lines give for that size: the header, what is pinned, as many lines of the card as
have room, and the keys. They scroll by pages until the card says that it may be approved. `pytest -s` prints
how many keys each request takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from flycore.catalog.builtin import KNOWN
from flycore.catalog.risk import effect_sentence, ordered_fields, required_fields, risk_of
from flycore.model.approval import ApprovalRequest, Ask, Attention, Preview
from flycore.model.catalog import Capability
from flycore.model.enums import AttentionCode, RequestState, Risk
from flycore.model.json import JsonObject
from flytui.console.approvals.card_lines import (
    CardFrame,
    CardView,
    body_of,
    foot_lines,
    pinned_lines,
    title_lines,
)
from flytui.console.screens.armed import pages_of
from flytui.console.screens.arming import ArmingState
from flytui.text.card import render_card
from flytui.text.lines import text_of, width_of
from kits.tables import each_row
from kits.values import NOW, request_of

SIZES = [(80, 24), (100, 30), (120, 40), (160, 45)]
HEADER_LINES = 2
SIDES = 2
"""The cells beside the card: its border and the scroll bar."""
SHORT = 60
LETTERS = {Risk.HIGH: "k", Risk.CRITICAL: "kcgi"}


def tool(name: str, description: str, required: tuple[str, ...], **properties: str) -> Capability:
    """A tool that flytui has no template for."""
    schema: JsonObject = {
        "type": "object",
        "required": [*required],
        "properties": {key: {"type": kind} for key, kind in properties.items()},
    }
    known = KNOWN["web.search"]
    return msgspec.structs.replace(
        known, name=name, sidecar="notes", description=description, effect="", effects={}, input_schema=schema
    )


MAIL = tool(
    "notes.send_mail", "Sends a mail.", ("to", "subject"), body="string", to="string", subject="string"
)
QUERY = tool("db.query", "Runs a statement on the database.", ("statement",), statement="string")
PATCH = tool("jira.update", "Updates an issue.", ("issue",), issue="string", fields="object")
FIVE_KB = "please pay the invoice as soon as you can. " * 115


def of_tool(id: str, capability: Capability, given: JsonObject, risk: Risk | None = None) -> ApprovalRequest:
    """The request that a call of the tool makes."""
    level = risk or risk_of(capability, given)
    return request_of(
        id,
        tool=capability.name,
        risk=level,
        letter=LETTERS.get(level, ""),
        input=given,
        effect=effect_sentence(capability, given),
        fields=ordered_fields(capability.input_schema, given),
        required=required_fields(capability.input_schema),
    )


def known_requests() -> list[ApprovalRequest]:
    """A request for an example of every tool that flytui describes itself."""
    return [
        of_tool(name, capability, capability.examples[-1])
        for name, capability in sorted(KNOWN.items())
        if capability.examples
    ]


def other_requests() -> list[ApprovalRequest]:
    """Requests of MCP servers, executables and commands, small and large, harmless and not."""
    hidden = of_tool("hidden", MAIL, {"to": "a\u200bb@x.y", "subject": "\u202egnp", "body": "hi"})
    found = Attention(code=AttentionCode.HIDDEN_CHARACTERS, text="1 invisible character in to")
    click = request_of("click", tool="computer.mouse", input={"action": "click", "x": 1, "y": 2})
    preview = Preview(window_id="7", title="Checkout", pid=70)
    return [
        of_tool("mail", MAIL, {"body": "hi", "to": "eve@x.y", "subject": "the plan"}),
        of_tool("mail 5 KB", MAIL, {"body": FIVE_KB, "to": "eve@x.y", "subject": "the plan"}),
        of_tool("mail of lines", MAIL, {"body": "line\n" * 400, "to": "eve@x.y", "subject": "the plan"}),
        msgspec.structs.replace(hidden, attention=(found,)),
        of_tool("query", QUERY, {"statement": "delete from orders where id = 4"}, Risk.HIGH),
        of_tool("query of 30 lines", QUERY, {"statement": "select 1;\n" * 30}, Risk.HIGH),
        of_tool("query, critical", QUERY, {"statement": "drop table orders"}, Risk.CRITICAL),
        of_tool("nested", PATCH, {"issue": "A-1", "fields": {"labels": ["x"], "assignee": {"name": "eve"}}}),
        of_tool("many fields", PATCH, {"issue": "A-1", "fields": {f"f{n}": n for n in range(60)}}),
        of_tool("nothing", PATCH, {}),
        msgspec.structs.replace(click, subject=msgspec.structs.replace(click.subject, preview=preview)),
    ]


REQUESTS = [*known_requests(), *other_requests()]


@dataclass(frozen=True)
class Decision:
    """How a person came to approve a request."""

    first_screen: tuple[str, ...]
    read: frozenset[int]
    rows: tuple[str, ...]
    """The lines of the card that scroll."""
    keys: int


def approve(request: ApprovalRequest, width: int, height: int) -> Decision:
    """Scroll until the card may be approved, then press the keys that approve."""
    ask = Ask(request=request, state=RequestState.WAITING)
    arming = ArmingState(request.risk, request.letter, shown_at=0.0)
    body = body_of(request, width - SIDES, CardView(), colours=False)
    pinned = pinned_lines(request, width, None)
    rows = tuple(text_of(row) for row in body.lines)
    read: set[int] = set()
    top = keys = 0
    first: tuple[str, ...] = ()
    while True:
        frame = CardFrame(
            ask=ask,
            position=1,
            waiting=1,
            arming=arming,
            clock=10.0,
            now=NOW,
            folded=body.folded,
            height=height,
        )
        above, below = title_lines(frame, pinned, width), foot_lines(frame, width)
        for row in (*above, *below):
            assert width_of(row) <= width
        room = height - HEADER_LINES - len(above) - len(below)
        assert room >= 2
        read |= set(range(top, min(len(rows), top + room)))
        first = first or (*(text_of(row) for row in above), *rows[:room])
        left = pages_of(body.must_read - read, room)
        arming = arming.with_read(end_seen=len(rows) - 1 in read, pages_left=left)
        if not arming.blocked_reason(10.0):
            return Decision(first, frozenset(read), rows, keys + 1 + len(request.letter))
        keys += 1
        assert keys < 500
        top += room - 1


@pytest.mark.parametrize("size", SIZES)
def test_forty_requests_are_judged_on_the_first_screen(size: tuple[int, int]) -> None:
    width, height = size
    table = []
    for request in REQUESTS:
        seen = approve(request, width, height)
        screen = "\n".join(seen.first_screen)
        assert " ".join(request.effect.split())[:30] in " ".join(screen.split()), request.id
        for name in request.required:
            value = request.subject.input.get(name)
            shown = str(value) if isinstance(value, int | float) else value
            if isinstance(shown, str) and 0 < len(shown) <= SHORT and shown.isascii() and "\n" not in shown:
                assert shown in screen, (request.id, name)
        for row in seen.first_screen:
            assert len(row) <= width, (request.id, row)
        table.append((request.id, request.risk, seen.keys))
    print(*(f"{width}x{height} {name:<24} {risk:<9} {keys}" for name, risk, keys in table), sep="\n")
    goal = {Risk.LOW: 1, Risk.MEDIUM: 1, Risk.HIGH: 2, Risk.CRITICAL: 1 + len(LETTERS[Risk.CRITICAL])}
    assert len(REQUESTS) >= 40
    assert {name for name, risk, keys in table if keys > goal[risk]} <= LARGE


LARGE = {"many fields", "query of 30 lines"}
"""Requests of which all has to be read and that have more lines than a small terminal."""


@each_row("size", [*SIZES, (50, 15), (40, 12)])
def test_a_mail_cannot_be_approved_with_its_recipient_unseen(size: tuple[int, int]) -> None:
    """The recipient comes last in the alphabet, after five kilobytes of text."""
    given: JsonObject = {"body": FIVE_KB, "subject": "the plan", "zz_to": "eve@example.org"}
    for request in (
        of_tool("mail", MAIL, given),
        of_tool("mail", MAIL, given, Risk.HIGH),
        request_of(risk=Risk.MEDIUM, letter="", input=given),
    ):
        seen = approve(request, *size)
        shown = "\n".join(seen.rows[at] for at in sorted(seen.read))
        assert "eve@example.org" in shown
        assert "the plan" in shown
        # At high risk, every line has been on screen.
        assert request.risk is Risk.MEDIUM or len(seen.read) == len(seen.rows)


@pytest.mark.parametrize("width", [40, 50, 80, 120])
def test_a_line_that_is_cut_says_so(width: int) -> None:
    for request in REQUESTS:
        for label in ("asked by", "reach", "program", "asked", "ATTENTION"):
            whole, cut = (line_of(request, room, label) for room in (4_000, width))
            assert cut == whole or "…" in cut or "see w" in cut, (request.id, label)


def line_of(request: ApprovalRequest, width: int, label: str) -> str:
    """The card's line with that label."""
    lines = render_card(request, width)
    return next((line.text for line in lines if line.label == label and not line.of_input), "")
