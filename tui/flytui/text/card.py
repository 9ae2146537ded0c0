"""The card of a request: everything that a person needs to judge one call, as plain lines.

The lines are made from the request alone. Text from outside is drawn through `strict_text`, and nothing is
cut, collapsed or left out, but for long lists of usual paths that are enforced, which are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from flycore.approval.requests import choices
from flycore.model.approval import ApprovalRequest, MatchedRule, Preview
from flycore.model.base import Value
from flycore.model.enums import Choice, Risk
from flycore.model.program import Seal
from flysafe.text import strict_text
from flytui.text.input_view import field_beginnings, input_lines, input_segments, input_size
from flytui.text.reach import short_reach
from flytui.text.wrap import wrap_exact, wrap_words

LABEL_CELLS = 9
"""The width of the label column, in cells. `render_card` leaves it free."""
MIN_TEXT_CELLS = 11
"""The least width of the text, in cells, however narrow the terminal is."""
DIGEST_SHOWN = 12
"""How many characters of a digest are shown."""
OFTEN = 3
"""After so many approvals of the same call today, the card offers the lease first."""
UNCHECKED = "not checked: on Wayland it acts on whatever window has the focus by then, the console's own, too"
EDITED = "edited by you: the caller sent another input; its result will say so"


class CardStyle(StrEnum):
    """What a line says, from which the screen takes its colour."""

    TITLE = "title"
    EFFECT = "effect"
    INPUT = "input"
    REACH_OK = "reach-ok"
    REACH_OPEN = "reach-open"
    SEAL = "seal"
    WHY = "why"
    CHECKS = "checks"
    SAID = "said"
    PLAIN = "plain"
    CROP = "crop"
    """The caption of the request's picture, which a console draws below the line."""
    CROP_TO = "crop-to"
    """The caption of the picture of where a drag ends."""
    ADDED = "added"
    REMOVED = "removed"


_OF_A_DIFF = {"+": CardStyle.ADDED, "-": CardStyle.REMOVED}


class CardLine(Value, frozen=True, kw_only=True):
    """One line of a card. A line that continues the one before has an empty label."""

    label: str
    text: str
    style: CardStyle
    must_read: bool = False
    """Whether the line has to have been on screen before an approval."""


class KeyHint(Value, frozen=True, kw_only=True):
    """A key of the card, and what it does."""

    key: str
    words: str


def render_card(
    request: ApprovalRequest, width: int, *, reveal: bool = False, whole_reach: bool = False
) -> tuple[CardLine, ...]:
    """The lines of the whole card for `width` cells, label column included. `reveal` shows masked fields.
    `whole_reach` names every path also where there are many, for a place that has no key to do it.

    The order is caller, effect, exact input, target, reach, seals, rules, checks and differences, and last
    the caller's own claims, which nobody has verified.
    """
    room = max(width - LABEL_CELLS, MIN_TEXT_CELLS)
    return (
        *_caller_lines(request, room),
        *_lines("EFFECT", strict_text(request.effect), CardStyle.EFFECT, room),
        *(
            one
            for text in request.notices
            for one in _lines("DOUBT", strict_text(text), CardStyle.REACH_OPEN, room)
        ),
        *_input(request, room, reveal=reveal),
        *_target(request, room),
        *_reach(request, room, whole=whole_reach),
        *_seals(request, room),
        *_why(request, room),
        *_checks(request, room),
        *_claims_lines(request, room),
    )


def card_keys(request: ApprovalRequest, *, held: bool = False) -> tuple[KeyHint, ...]:
    """The keys of the card, in the order in which they are drawn. The lease comes first where the same call
    was approved `OFTEN` times today."""
    offered = choices(request)
    first = [KeyHint(key="a", words=f"approve once{_confirmation(request)}")]
    if Choice.LEASE in offered:
        lease = KeyHint(key="l", words="lease…")
        first.insert(0 if request.checks.approved >= OFTEN else 1, lease)
    if Choice.RULE in offered:
        first.append(KeyHint(key="u", words="rule…"))
    refusing = [
        KeyHint(key="d", words="deny"),
        KeyHint(key="r", words="deny with reason"),
        KeyHint(key="t", words="deny for 10 min"),
    ]
    if Choice.BLOCK in offered:
        refusing.append(KeyHint(key="b", words="block…"))
    return (
        *first,
        *([] if request.masked else [KeyHint(key="e", words="edit")]),
        *refusing,
        *([KeyHint(key="v", words="reveal")] if request.masked else []),
        KeyHint(key="w", words="why"),
        KeyHint(key="h", words="release" if held else "hold"),
        KeyHint(key="n/p", words="next/previous"),
        KeyHint(key="Esc", words="leave waiting"),
    )


def _confirmation(request: ApprovalRequest) -> str:
    if request.risk is Risk.CRITICAL:
        return f", type ‹{request.letter}›"
    return f", confirm with ‹{request.letter}›" if request.risk is Risk.HIGH else ""


def _lines(label: str, text: str, style: CardStyle, room: int) -> Iterator[CardLine]:
    for index, line in enumerate(wrap_words(text, room)):
        yield CardLine(label="" if index else label, text=line, style=style)


def _caller_lines(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    caller = request.caller
    # The call that a sidecar makes this one in is part of the text.
    who = strict_text(str(caller))
    if caller.executable:
        who += f" · {strict_text(caller.executable)}"
    tool = f"{strict_text(request.tool)} · {request.risk.value} risk · from {strict_text(request.sidecar)}"
    yield from _lines("WHO", who, CardStyle.TITLE, room)
    yield from _lines("ROOT", strict_text(request.app_root), CardStyle.TITLE, room)
    yield from _lines("TOOL", tool, CardStyle.TITLE, room)
    if request.step is not None:
        yield from _lines("PLAN", strict_text(str(request.step)), CardStyle.TITLE, room)


def _input(request: ApprovalRequest, room: int, *, reveal: bool) -> Iterator[CardLine]:
    """A line of counts, then the input. The lines of style INPUT, joined, are exactly `input_lines`."""
    text = input_lines(request, reveal=reveal)
    drawn = [line for segment in input_segments(text) for line in wrap_exact(segment, room)]
    yield from _lines("INPUT", input_size(request, len(drawn)), CardStyle.PLAIN, room)
    if request.edited:
        yield from _lines("", EDITED, CardStyle.REACH_OPEN, room)
    whole = request.risk.at_least(Risk.HIGH)
    parts = iter(field_beginnings(text))
    part, start = next(parts, None), 0
    for line in drawn:
        end = start + len(line)
        must_read = whole
        # One line may hold the beginnings of several fields, and one beginning may go over several lines.
        while part is not None and part[0] < end:
            must_read = True
            if part[1] > end:
                break
            part = next(parts, None)
        yield CardLine(label="", text=line, style=CardStyle.INPUT, must_read=must_read)
        start = end


def _target(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    preview = request.subject.preview
    if preview is not None and preview.file:
        yield from _file(request, preview, room)
    elif preview is not None and preview.unchecked:
        yield from _lines("THERE", UNCHECKED, CardStyle.REACH_OPEN, room)
    elif preview is not None and preview.of_page:
        yield from _page(preview, request.page_title, room)
    elif preview is not None:
        text = (
            f"window “{strict_text(preview.title)}” (id {strict_text(preview.window_id)}, pid {preview.pid})"
        )
        yield from _lines("THERE", text, CardStyle.PLAIN, room)
        if preview.over_id:
            other = (
                f"“{strict_text(preview.over)}” lies over that point now; the window meant is raised first"
            )
            yield from _lines("", other, CardStyle.REACH_OPEN, room)
    if request.no_crop:
        text = f"no picture of the screen: {strict_text(request.no_crop)}"
        yield from _lines("", text, CardStyle.REACH_OPEN, room)
    if request.crop is not None:
        meant = "round the point, at the cross" if request.cross else "the window"
        yield from _lines("", f"{meant}, as flytui saw it:", CardStyle.CROP, room)
    if request.crop_to is not None:
        yield from _lines("", "where the drag ends:", CardStyle.CROP_TO, room)


def _file(request: ApprovalRequest, preview: Preview, room: int) -> Iterator[CardLine]:
    """The lines that show the change to the file, every line of it."""
    for index, (path, found) in enumerate({preview.file: preview.file_digest, **preview.more_files}.items()):
        new = " (there is none yet)" if found == "new" else ""
        label = "" if index else "THERE"
        yield from _lines(label, f"the file {strict_text(path)}{new}", CardStyle.PLAIN, room)
    if preview.unread:
        text = f"no difference can be shown: {strict_text(preview.unread)}"
        yield from _lines("", text, CardStyle.REACH_OPEN, room)
    elif not request.diff:
        yield from _lines("", "the change leaves it as it is", CardStyle.PLAIN, room)
    for line in request.diff:
        style = _OF_A_DIFF.get(line[:1], CardStyle.PLAIN)
        for index, part in enumerate(wrap_exact(strict_text(line), room)):
            yield CardLine(
                label="" if index or line is not request.diff[0] else "DIFF", text=part, style=style
            )


def _page(preview: Preview, title: str, room: int) -> Iterator[CardLine]:
    """The lines that name the element and the page that a browser tool acts on. Title and names come from the
    page itself."""
    if preview.unseen:
        text = f"what it would act on is not known: {strict_text(preview.unseen)}"
        yield from _lines("THERE", text, CardStyle.REACH_OPEN, room)
        return
    page = f"page “{strict_text(title)}” at {strict_text(preview.url)} (tab {strict_text(preview.tab)})"
    if preview.ref:
        name = f"“{strict_text(preview.name)}”" if preview.name else "without a name"
        text = f"{strict_text(preview.role)} {name} (element {strict_text(preview.ref)})"
        yield from _lines("THERE", text, CardStyle.PLAIN, room)
    yield from _lines("" if preview.ref else "THERE", page, CardStyle.PLAIN, room)


def _reach(request: ApprovalRequest, room: int, *, whole: bool) -> Iterator[CardLine]:
    for index, one in enumerate(short_reach(request, whole=whole)):
        style = CardStyle.REACH_OPEN if one.warns else CardStyle.REACH_OK
        yield from _lines("" if index else "REACH", one.text, style, room)


def _seals(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    yield from _lines("SEAL", _seal(request.seal), CardStyle.SEAL, room)
    yield from _parts(request.seal, room)
    by_program: dict[tuple[tuple[str, ...], Seal], list[str]] = {}
    for delegate in request.delegates:
        by_program.setdefault((delegate.argv, delegate.seal), []).append(strict_text(delegate.name))
    for (argv, seal), names in by_program.items():
        words = " ".join(strict_text(part) for part in argv)
        sealed = "sealed with the program above" if seal == request.seal else _seal(seal)
        plural = "s" if len(names) > 1 else ""
        yield from _lines(
            "", f"delegate{plural} {', '.join(names)}: {words} · {sealed}", CardStyle.SEAL, room
        )
        if seal != request.seal:
            yield from _parts(seal, room)


def _parts(seal: Seal, room: int) -> Iterator[CardLine]:
    """The lines that name what else is sealed, and why a seal is partial."""
    for part in seal.parts:
        sha = strict_text(part.digest[:DIGEST_SHOWN])
        text = f"and {strict_text(part.why)} {strict_text(part.path)} · sha256 {sha}"
        yield from _lines("", text, CardStyle.SEAL, room)
    for reason in seal.partial:
        yield from _lines("", f"PARTIAL: {strict_text(reason)}", CardStyle.REACH_OPEN, room)


def _seal(seal: Seal) -> str:
    parts = [f"{seal.kind.value} {strict_text(seal.program)}"]
    if seal.digest:
        parts.append(f"sha256 {strict_text(seal.digest[:DIGEST_SHOWN])}")
    if seal.editable and not seal.note.startswith("editable"):
        parts.append("editable")
    if seal.copy:
        parts.append("runs as a private copy")
    if seal.partial:
        parts.append("partial")
    if not seal.leasable:
        parts.append("asked each time")
    if seal.note:
        parts.append(strict_text(seal.note))
    return " · ".join(parts)


def _why(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    for index, rule in enumerate(request.why):
        yield from _lines("" if index else "WHY", _rule(rule), CardStyle.WHY, room)


def _rule(rule: MatchedRule) -> str:
    where, because = strict_text(rule.where), strict_text(rule.because)
    if rule.where == "default":
        return f"default → {rule.decision.value} · {because}"
    return f"rule {strict_text(rule.tool)} → {rule.decision.value} · {where} · “{because}”"


def _checks(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    checks = request.checks
    text = f"same call approved {checks.approved}×, denied {checks.denied}× today"
    yield from _lines("CHECKS", text, CardStyle.CHECKS, room)
    for index, change in enumerate(request.difference):
        label = "" if index else "CHANGED"
        yield from _lines(label, strict_text(change), CardStyle.REACH_OPEN, room)


def _claims_lines(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    if request.caller.claims:
        text = f"caller calls itself (unverified): “{strict_text(request.caller.claims)}”"
        yield from _lines("", text, CardStyle.SAID, room)
    if request.said:
        text = f"caller says (unverified): “{strict_text(request.said)}”"
        yield from _lines("", text, CardStyle.SAID, room)
