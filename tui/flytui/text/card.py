"""The card of a request: everything that a person needs to judge one call, as plain lines.

The lines are made from the request alone. Text from outside is drawn through `strict_text`. What the call
does comes first and is pinned: it does not scroll. Then come who asks and what is unusual, the input field by
field, and one line each for what the call may reach, its program, and why it is asked. Nothing of the input
is left out but what is folded, which is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from flycore.approval.leases import lease_obstacle
from flycore.approval.requests import choices
from flycore.model.approval import ApprovalRequest, Attention, MatchedRule, Preview
from flycore.model.base import Value
from flycore.model.enums import AttentionCode, Choice, Risk, SealKind
from flycore.model.json import digest
from flycore.model.program import Seal
from flysafe.text import strict_text
from flytui.text.caller import caller_facts, caller_line
from flytui.text.input_view import field_beginnings, field_rows, input_lines, input_segments, input_size
from flytui.text.reach import one_line_reach, short_reach
from flytui.text.wrap import cell_width, cut_line, wrap_exact, wrap_words

LABEL_CELLS = 10
"""The width of the label column, in cells. `render_card` leaves it free."""
MIN_TEXT_CELLS = 11
"""The least width of the text, in cells, however narrow the terminal is."""
MOST_EFFECT_LINES = 3
"""The lines of the effect, which stands above everything. The fields below have the whole values."""
_UNWRAPPED = 1_000_000
"""A width at which no line is wrapped."""
DIGEST_SHOWN = 12
"""How many characters of a digest are shown."""
INPUT_BAR = "│"
"""Stands before every line of the input, so that no line of it can be taken for one of flytui's."""
APPROVE_WORDS = "approve once"
OFTEN = 3
"""After so many approvals of the same call today, the card offers to allow it for a while first."""
UNCHECKED = "not checked: on Wayland it acts on whatever window has the focus by then, the console's own, too"
EDITED = "edited by you: the caller sent another input; its result will say so"


class CardStyle(StrEnum):
    """What a line says, from which the screen takes its colour."""

    TITLE = "title"
    EFFECT = "effect"
    ATTENTION = "attention"
    INPUT = "input"
    SIZE = "size"
    """What flytui says about the input, such as how long a value is."""
    RULE = "rule"
    """A line between two parts of the card."""
    REACH_OK = "reach-ok"
    REACH_OPEN = "reach-open"
    SEAL = "seal"
    WHY = "why"
    SAID = "said"
    PLAIN = "plain"
    CROP = "crop"
    """The caption of the request's picture, which a console draws below the line."""
    CROP_TO = "crop-to"
    """The caption of the picture of where a drag ends."""
    ADDED = "added"
    REMOVED = "removed"


_OF_A_DIFF = {"+": CardStyle.ADDED, "-": CardStyle.REMOVED}
_WRITTEN_BY = {
    SealKind.BUNDLED: "flytui's own",
    SealKind.SYSTEM: "of this system",
    SealKind.NAME: "known by its name only",
    SealKind.PACKAGE: "a package of this project",
    SealKind.FILE: "a program of this project",
    SealKind.FOLDER: "a program of this project",
}


class CardLine(Value, frozen=True, kw_only=True):
    """One line of a card. A line that continues the one before has an empty label."""

    label: str
    text: str
    style: CardStyle
    must_read: bool = False
    """Whether the line has to have been on screen before an approval."""
    pinned: bool = False
    """Whether the line stands above those that scroll."""
    cells: int = LABEL_CELLS
    """The width of the label column of this line."""
    field: str = ""
    """For a line of the input: the JSON pointer of its field."""
    shown: int = 0
    """For a line of the input: how many characters of the field's value it has."""
    hidden: int = 0
    """How many characters of a folded value are not shown."""

    @property
    def of_input(self) -> bool:
        """Whether the line belongs to the input, or says something about a part of it."""
        return self.style in (CardStyle.INPUT, CardStyle.SIZE)


class KeyHint(Value, frozen=True, kw_only=True):
    """A key of the card, and what it does."""

    key: str
    words: str
    off: str = ""
    """Why the key cannot work for this request; empty where it can."""


def render_card(
    request: ApprovalRequest,
    width: int,
    *,
    reveal: bool = False,
    fold: bool = False,
    unfolded: bool = False,
    canonical: bool = False,
    root: str = "",
) -> tuple[CardLine, ...]:
    """The lines of the whole card for `width` cells, label column included.

    `reveal` shows masked fields. `fold` shows only the beginning of long texts below high risk. `unfolded`
    shows all of reach, program and reasons, for a place that has no key to do it. `canonical` shows the input
    as the JSON that is approved, with its digest. `root`, a safe text, is the first word about who asks.
    """
    room = max(width - LABEL_CELLS, MIN_TEXT_CELLS)
    whole = max(width, MIN_TEXT_CELLS)
    details = _whole_details if unfolded else _details
    return (
        *effect_lines(request, whole),
        *_who(request, room, root),
        *_attention(request, room),
        *_news(request, room),
        *(_json(request, whole - 1, reveal) if canonical else _fields(request, whole - 1, reveal, fold)),
        *_target(request, room),
        CardLine(label="", text="─" * whole, style=CardStyle.RULE, cells=0),
        *details(request, room),
        *_claims_lines(request, room),
    )


def effect_text(request: ApprovalRequest) -> str:
    """The sentence that says what the call does, as every list and every line has it."""
    return strict_text(request.effect)


def effect_lines(request: ApprovalRequest, width: int) -> Iterator[CardLine]:
    """The sentence that says what the call does, in at most `MOST_EFFECT_LINES` lines."""
    lines = wrap_words(effect_text(request), width)
    if len(lines) > MOST_EFFECT_LINES:
        last = cut_line(lines[MOST_EFFECT_LINES - 1] + lines[MOST_EFFECT_LINES], width)
        lines = [*lines[: MOST_EFFECT_LINES - 1], last]
    for line in lines:
        yield CardLine(label="", text=line, style=CardStyle.EFFECT, pinned=True, cells=0)


def card_text(line: CardLine) -> str:
    """A line of the card as plain text, for a place without colours."""
    bar = INPUT_BAR if line.of_input else ""
    return f"{bar}{line.label}{' ' * max(0, line.cells - cell_width(line.label))}{line.text}".rstrip()


def card_keys(request: ApprovalRequest, *, held: bool = False, folded: bool = False) -> tuple[KeyHint, ...]:
    """The keys of the card, the most important first; a key that cannot work says why. Allowing for a while
    comes first where the same call was approved `OFTEN` times today."""
    offered = choices(request)
    approve = KeyHint(key="a", words=f"{APPROVE_WORDS}{_confirmation(request)}")
    lease = KeyHint(key="l", words="allow for a while…", off=lease_obstacle(request))
    often = request.checks.approved >= OFTEN and not lease.off
    critical = "a call of critical risk is decided each time"
    masked = "an input with masked fields cannot be edited here" if request.masked else ""
    return (
        *([lease] if often else []),
        approve,
        KeyHint(key="d", words="deny"),
        KeyHint(key="r", words="deny with a reason"),
        *([KeyHint(key="h", words="release")] if held else []),
        *([] if often else [lease]),
        KeyHint(key="e", words="edit", off=masked),
        *([KeyHint(key="v", words="reveal")] if request.masked else []),
        *([KeyHint(key="f", words="unfold")] if folded else []),
        KeyHint(key="w", words="why"),
        KeyHint(key="x", words="JSON"),
        KeyHint(key="u", words="rule…", off="" if Choice.RULE in offered else critical),
        KeyHint(key="t", words="deny for 10 min"),
        KeyHint(key="b", words="block…"),
        *([] if held else [KeyHint(key="h", words="hold")]),
        KeyHint(key="n/p", words="next/previous"),
        KeyHint(key="Esc", words="leave waiting"),
    )


def _confirmation(request: ApprovalRequest) -> str:
    if request.risk is Risk.CRITICAL:
        return f", type ‹{request.letter}›"
    return f", then ‹{request.letter}›" if request.risk is Risk.HIGH else ""


def _lines(label: str, text: str, style: CardStyle, room: int) -> Iterator[CardLine]:
    for index, line in enumerate(wrap_words(text, room)):
        yield CardLine(label="" if index else label, text=line, style=style)


def _line(label: str, text: str, style: CardStyle, room: int, *, pinned: bool = False) -> Iterator[CardLine]:
    """One line, however long the text is. What is cut is on the page of `w`."""
    yield CardLine(label=label, text=cut_line(text, room), style=style, pinned=pinned)


def _who(request: ApprovalRequest, room: int, root: str) -> Iterator[CardLine]:
    who = caller_line(request.caller)
    text = f"{root} · {who}" if root else who
    yield from _line("asked by", text, CardStyle.TITLE, room, pinned=True)


def _attention(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    """One line of what is unusual. Findings that have no room are counted."""
    texts = [strict_text(one.text) for one in request.attention]
    if not texts:
        return
    for count in range(len(texts), 0, -1):
        left = len(texts) - count
        text = " · ".join([*texts[:count], *([f"{left} more, see w"] if left else [])])
        if cell_width(text) <= room or count == 1:
            break
    yield from _line("ATTENTION", text, CardStyle.ATTENTION, room, pinned=True)


def _news(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    """What makes this card another one than the person expects, all of it."""
    for index, change in enumerate(request.difference):
        yield from _lines("" if index else "CHANGED", strict_text(change), CardStyle.REACH_OPEN, room)
    for text in request.notices:
        yield from _lines("DOUBT", strict_text(text), CardStyle.REACH_OPEN, room)
    if request.edited:
        yield from _lines("EDITED", EDITED, CardStyle.REACH_OPEN, room)


def _fields(request: ApprovalRequest, room: int, reveal: bool, fold: bool) -> Iterator[CardLine]:
    """The input as fields, and a line of counts."""
    strict = request.risk.at_least(Risk.HIGH)
    rows = field_rows(request, room, reveal=reveal, fold=fold and not strict)
    for row in rows:
        yield CardLine(
            label=row.label,
            text=row.text,
            style=CardStyle.INPUT if row.value else CardStyle.SIZE,
            must_read=row.must_read or (strict and row.value),
            cells=row.cells,
            field=row.field,
            shown=row.shown,
            hidden=row.hidden,
        )
    size = input_size(request, folded=sum(row.hidden for row in rows))
    for line in wrap_words(size, room):
        yield CardLine(label="", text=line, style=CardStyle.SIZE, cells=0)


def _json(request: ApprovalRequest, room: int, reveal: bool) -> Iterator[CardLine]:
    """The digest, then the input as canonical JSON. The lines of style INPUT, joined, are exactly
    `input_lines`."""
    text = input_lines(request, reveal=reveal)
    drawn = [line for segment in input_segments(text) for line in wrap_exact(segment, room)]
    words = f"JSON, sha256 {digest(request.subject.input)}"
    for line in wrap_words(words, room):
        yield CardLine(label="", text=line, style=CardStyle.SIZE, cells=0)
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
        yield CardLine(
            label="", text=line, style=CardStyle.INPUT, must_read=must_read, cells=0, shown=len(line)
        )
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


def _details(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    """One line each for what the call may reach, for its program, and for why it is asked."""
    reach = one_line_reach(request)
    style = CardStyle.REACH_OPEN if reach.warns else CardStyle.REACH_OK
    yield from _line("reach", reach.text, style, room)
    yield from _line("program", _program(request), CardStyle.SEAL, room)
    # The counts are never cut: they are short, and they decide more than the reason.
    counts = _checks(request)
    reasons = cut_line(
        "; ".join(_reason(rule) for rule in request.why), max(1, room - cell_width(counts) - 3)
    )
    asked = f"{reasons} · {counts}" if request.why else counts
    yield from _line("asked", asked, CardStyle.WHY, room)
    if request.step is not None:
        yield from _line("plan", strict_text(str(request.step)), CardStyle.PLAIN, room)


def _whole_details(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    """The same, with everything that is known."""
    for index, one in enumerate(short_reach(request, whole=True)):
        style = CardStyle.REACH_OPEN if one.warns else CardStyle.REACH_OK
        yield from _lines("" if index else "reach", one.text, style, room)
    yield from _seals(request, room)
    for index, rule in enumerate(request.why):
        yield from _lines("" if index else "asked", rule_text(rule), CardStyle.WHY, room)
    yield from _lines("" if request.why else "asked", _checks(request), CardStyle.WHY, room)
    if request.step is not None:
        yield from _lines("plan", strict_text(str(request.step)), CardStyle.PLAIN, room)
    for index, fact in enumerate(caller_facts(request)):
        yield from _lines("" if index else "caller", fact, CardStyle.PLAIN, room)
    for index, found in enumerate(request.attention):
        yield from _lines("" if index else "unusual", attention_text(found), CardStyle.PLAIN, room)


def attention_text(found: Attention) -> str:
    """A finding with its code, which the documentation explains."""
    return f"{strict_text(found.text)} ({found.code.value})"


def _program(request: ApprovalRequest) -> str:
    """Who wrote the program, and how well it is kept from changing, in a few words."""
    seal = request.seal
    parts = [strict_text(request.sidecar), _WRITTEN_BY[seal.kind]]
    if any(one.code is AttentionCode.PROGRAM_CHANGED for one in request.attention):
        parts.append("changed since it was last approved")
    if request.delegates:
        names = dict.fromkeys(
            strict_text(one.argv[0].rpartition("/")[2]) for one in request.delegates if one.argv
        )
        parts.append(f"with {', '.join(names)}")
    if not all(seal.leasable for seal in request.seals):
        parts.append("asked each time")
    if seal.note:
        parts.append(strict_text(seal.note))
    if request.partial:
        parts.append(f"partial seal: {strict_text(request.partial)}")
    return ", ".join(parts)


def _reason(rule: MatchedRule) -> str:
    because = strict_text(rule.because)
    if rule.where == "default":
        return f"{because}; no rule matches" if "no rule" not in because else because
    return f"“{because}” says the rule {strict_text(rule.tool)} ({strict_text(rule.where)})"


def _checks(request: ApprovalRequest) -> str:
    return f"today: approved {request.checks.approved}, denied {request.checks.denied}"


def seal_texts(request: ApprovalRequest) -> tuple[str, ...]:
    """Everything that is known about the seals, one sentence each."""
    return tuple(line.text for line in _seals(request, _UNWRAPPED))


def _seals(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    yield from _lines("program", _seal(request.seal), CardStyle.SEAL, room)
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


def rule_text(rule: MatchedRule) -> str:
    """A rule with its place and its reason."""
    where, because = strict_text(rule.where), strict_text(rule.because)
    if rule.where == "default":
        return f"default → {rule.decision.value} · {because}"
    return f"rule {strict_text(rule.tool)} → {rule.decision.value} · {where} · “{because}”"


def _claims_lines(request: ApprovalRequest, room: int) -> Iterator[CardLine]:
    if request.said:
        text = f"“{strict_text(request.said)}” (the caller's words, unverified)"
        yield from _lines("says", text, CardStyle.SAID, room)
    if request.caller.claims:
        text = f"calls itself “{strict_text(request.caller.claims)}” (unverified)"
        yield from _lines("" if request.said else "says", text, CardStyle.SAID, room)
