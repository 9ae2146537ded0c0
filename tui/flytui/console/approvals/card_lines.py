"""The lines of a card: the title above, the kernel's lines with their pictures, and the keys below. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from flycore.approval.allowance_offer import AllowanceOffer
from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.enums import Choice, Code, RequestState, Risk
from flytui.console.screens.arming import ArmingState
from flytui.console.user_settings import KeyBindings
from flytui.text.card import LABEL_CELLS, CardStyle, KeyHint, card_keys, render_card
from flytui.text.half_blocks import picture_lines
from flytui.text.labels import duration, risk_title
from flytui.text.lines import (
    StyledLine,
    StyledText,
    Tone,
    keys_line,
    line,
    padded,
    span,
    truncated,
    width_of,
    wrap,
    wrapped,
)
from flytui.text.reach import whole_reach

LEAST_ROWS, MOST_ROWS = 5, 14
"""The least and the most lines of one picture, whatever room there is."""
TONES: dict[CardStyle, Tone] = {
    CardStyle.TITLE: Tone.PLAIN,
    CardStyle.EFFECT: Tone.STRONG,
    CardStyle.INPUT: Tone.QUOTE,
    CardStyle.REACH_OK: Tone.GOOD,
    CardStyle.REACH_OPEN: Tone.WARN,
    CardStyle.SEAL: Tone.PLAIN,
    CardStyle.WHY: Tone.PLAIN,
    CardStyle.CHECKS: Tone.DIM,
    CardStyle.SAID: Tone.DIM,
    CardStyle.PLAIN: Tone.PLAIN,
    CardStyle.CROP: Tone.PLAIN,
    CardStyle.CROP_TO: Tone.PLAIN,
    CardStyle.ADDED: Tone.GOOD,
    CardStyle.REMOVED: Tone.WARN,
}
END_LABELS: dict[RequestState, str] = {
    RequestState.APPROVED: "approved",
    RequestState.DENIED: "denied",
    RequestState.TIMED_OUT: "timed out",
    RequestState.WITHDRAWN: "withdrawn by the caller",
}
_READ_ONLY_KEYS = frozenset(("v", "w", "n/p", "Esc"))
"""The keys of a card that only show. They are all that a console has that cannot decide."""
_ANSWER_LABELS = {Choice.APPROVE_ONCE: "approved once", Choice.LEASE: "leased", Choice.BLOCK: "blocked"}


@dataclass(frozen=True, slots=True)
class CardFrame:
    """Everything that the title and the keys of a card are drawn from at one moment."""

    ask: Ask
    position: int
    """The request's place among those that wait, from 1; 0 when it no longer waits."""
    waiting: int
    arming: ArmingState
    clock: float
    """Now, in seconds on the arming's clock."""
    now: float
    """Now, in Unix seconds."""
    outcome: str = ""
    """The result of the answer; `""` before there is one."""
    succeeded: bool = True
    sending: bool = False
    block_pressed: bool = False
    """Whether `b` was pressed once and waits for the second press."""
    notice: str = ""
    """Why a key did nothing, or what it asks for; `""` for no notice."""
    keys: KeyBindings = field(default_factory=KeyBindings)
    offer: AllowanceOffer | None = None
    """The allowance that stands first among the keys; None where there is none."""


def title_lines(frame: CardFrame, width: int) -> list[StyledLine]:
    """A line of risk, tool, place in the queue and times; below it, who else waits for the answer."""
    return [
        *_title_line(frame, width),
        *(row for fact in _fact_lines(frame.ask) for row in wrap(fact, width, 1)),
    ]


def _fact_lines(ask: Ask) -> list[StyledLine]:
    """Lines about the waiting, which is not a part of the request itself."""
    if ask.state is not RequestState.WAITING:
        return []
    facts = []
    if ask.count > 1:
        facts.append(line(span(f" {ask.count} identical calls wait for this answer", Tone.WARN)))
    if ask.ticket:
        facts.append(line(span(" the caller comes back for the answer", Tone.DIM)))
    return facts


def _title_line(frame: CardFrame, width: int) -> list[StyledLine]:
    request = frame.ask.request
    place = (
        f"{frame.position} of {frame.waiting}"
        if frame.position
        else END_LABELS.get(frame.ask.state, "not waiting")
    )
    left = line(StyledText(" "), risk_title(request.risk), span(f"  {request.tool}", Tone.STRONG))
    times = ""
    if frame.ask.state is RequestState.WAITING:
        times = f" · waiting {duration(frame.now - request.asked_at)}"
        if frame.ask.held:
            times += " · held"
        elif width >= 72:
            times += f" · times out in {duration(request.expires_at - frame.now)}"
    right = line(span(f"{place}{times} ", Tone.DIM))
    return [
        (*padded(left, max(0, width - width_of(right))), *right)
        if width_of(right) < width
        else truncated(left, width)
    ]


@dataclass(frozen=True, slots=True)
class CardBody:
    """The lines of a card below its title, and which of them have to be read before an approval."""

    lines: list[StyledLine]
    must_read: frozenset[int]
    """Indexes of lines."""


def body_of(
    request: ApprovalRequest, width: int, *, reveal: bool, height: int = 0, colours: bool = True
) -> CardBody:
    """Every line of the kernel's card, with the labels in a column of their own. The pictures share what is
    left of `height` lines; each has at least `LEAST_ROWS`."""
    cards = render_card(request, width - 2, reveal=reveal)
    rows = _crop_rows(request, height - len(cards))
    lines: list[StyledLine] = []
    must_read: set[int] = set()
    for card, after in zip_longest(cards, cards[1:]):
        label = padded((StyledText(" "), StyledText(card.label, Tone.DIM)), LABEL_CELLS + 1)
        if card.must_read:
            must_read.add(len(lines))
        lines.append((*label, StyledText(card.text, TONES[card.style])))
        if after is not None and after.style is card.style:
            continue
        picture = crop_lines(request, card.style, width - 2 - LABEL_CELLS, rows, colours=colours)
        lines += [(StyledText(" " * (LABEL_CELLS + 1)), *row) for row in picture]
    return CardBody(lines, frozenset(must_read))


def _crop_rows(request: ApprovalRequest, free: int) -> int:
    """The number of lines for each of the request's pictures, where `free` lines are left on the card."""
    count = sum(picture is not None for picture in (request.crop, request.crop_to))
    return min(MOST_ROWS, max(LEAST_ROWS, free // max(1, count)))


def crop_lines(
    request: ApprovalRequest, style: CardStyle, width: int, rows: int, *, colours: bool
) -> list[StyledLine]:
    """The picture that a line of that style announces, with its cross; no lines for any other style."""
    shown = {
        CardStyle.CROP: (request.crop, request.cross),
        CardStyle.CROP_TO: (request.crop_to, request.cross_to),
    }
    picture, cross = shown.get(style, (None, None))
    return [] if picture is None else picture_lines(picture, width, rows, cross, colours=colours)


def foot_lines(frame: CardFrame, width: int) -> list[StyledLine]:
    """The keys, what each does now, and whether the approve key is armed. Long lines are wrapped, never
    cut."""
    if frame.outcome or frame.ask.state is not RequestState.WAITING:
        return _ended_lines(frame, width)
    request, arming = frame.ask.request, frame.arming
    if frame.sending:
        return [line(span(" sending the answer…", Tone.ACCENT))]
    if arming.confirm_open(frame.clock):
        return _confirm_lines(request, arming, width)
    if frame.block_pressed:
        return _block_lines(frame, width)
    pairs = [
        (frame.keys.label_of_default("card", hint.key), hint.words)
        for hint in _offered_first(card_keys(request, held=frame.ask.held), frame.offer)
        if not arming.viewer_reason or hint.key in _READ_ONLY_KEYS
    ]
    notice_lines = wrap(line(span(f" {frame.notice}", Tone.WARN)), width, 1) if frame.notice else []
    return [*notice_lines, *_readiness_lines(arming, frame.clock, width), *_wrapped_keys(pairs, width)]


def _offered_first(hints: Sequence[KeyHint], offer: AllowanceOffer | None) -> list[KeyHint]:
    """The keys with the offered allowance first, and how many approvals it would have covered."""
    if offer is None:
        return list(hints)
    terms = offer.terms
    words = (
        f"allow {terms.calls} such calls for {terms.minutes} min… (covers {len(offer.covered)} you approved)"
    )
    return [KeyHint(key="l", words=words), *(hint for hint in hints if hint.key != "l")]


def _block_lines(frame: CardFrame, width: int) -> list[StyledLine]:
    words = f" block {frame.ask.request.tool} for every caller, until you unblock it?"
    keys = keys_line(
        [(f"{frame.keys.label('card.block')} again", "blocks the tool"), ("any other key", "does not")]
    )
    return [*wrap(line(span(words, Tone.STRONG)), width, 1), *wrap(keys, width)]


def why_lines(request: ApprovalRequest, width: int) -> list[StyledLine]:
    """The page that names each rule that matched, its file and line, and its reason; then what the call could
    reach, each permission and limit for itself."""
    rows: list[StyledLine] = [line(span("Why this is asked", Tone.STRONG)), ()]
    for rule in request.why:
        rows.append(
            line(
                span(rule.decision.value, Tone.STRONG),
                span(f"  {rule.tool}  "),
                span(rule.where, Tone.ACCENT),
            )
        )
        rows.append(line(span(f"    {rule.because}")))
    if not request.why:
        rows.append(line(span("No rule matched: the default asks.")))
    rows += [(), line(span("The strictest matching rule decides. Agents never see this page.", Tone.DIM))]
    rows += [(), line(span("What the call could reach", Tone.STRONG)), ()]
    rows += [line(span(one.text, Tone.WARN if one.warns else Tone.PLAIN)) for one in whole_reach(request)]
    return wrapped(rows, width, indent=4)


def outcome_of(ask: Ask) -> tuple[str, bool]:
    """What to say about a request that ended without an answer from this console, naming who answered it;
    and whether it was approved."""
    good = ask.state is RequestState.APPROVED
    word = END_LABELS.get(ask.state, "no longer waiting")
    if ask.code is Code.PANIC:
        word = "refused: everything was stopped"
    if ask.answer is not None:
        word = _ANSWER_LABELS.get(ask.answer.choice, word)
    return (f"answered by {ask.decided_by}: {word}" if ask.decided_by else word), good


def readiness(arming: ArmingState, now: float, *, margin: int = 0) -> StyledText:
    """Text that says whether the approve key is armed or why it is not, after `margin` spaces. It is dim only
    where the key will be armed by waiting."""
    space, blocked = " " * margin, arming.blocked_reason(now)
    if not blocked:
        return span(f"{space}keys ready ●", Tone.GOOD)
    unread = arming.read_whole and not arming.end_seen
    urgent = arming.viewer_reason or arming.desktop_controlled or arming.strict or unread
    return span(f"{space}{blocked} ○", Tone.WARN if urgent else Tone.DIM)


def _readiness_lines(arming: ArmingState, now: float, width: int) -> list[StyledLine]:
    below = span("more below ↓  ", Tone.WARN)
    unread = not arming.blocked_reason(now) and not arming.end_seen
    return [_right_aligned(line(*([below] if unread else []), readiness(arming, now)), width)]


def _confirm_lines(request: ApprovalRequest, arming: ArmingState, width: int) -> list[StyledLine]:
    if request.risk is Risk.CRITICAL:
        typed = arming.typed + "·" * (len(request.letter) - len(arming.typed))
        words = line(
            span(" type the code ", Tone.STRONG), span(f" {request.letter} ", Tone.ALARM), span(f"  {typed}")
        )
    else:
        words = line(span(" confirm with ", Tone.STRONG), span(f" {request.letter} ", Tone.ALARM))
    return [*wrap(words, width), *wrap(keys_line([("any other key", "does not approve")]), width)]


def _ended_lines(frame: CardFrame, width: int) -> list[StyledLine]:
    text, good = (frame.outcome, frame.succeeded) if frame.outcome else outcome_of(frame.ask)
    if frame.outcome and not frame.succeeded and frame.ask.decided_by:
        text = f"{outcome_of(frame.ask)[0]}; your answer did not count"
    mark = span(" ✓ " if good else " ✗ ", Tone.GOOD if good else Tone.WARN)
    pairs = [(frame.keys.label("card.next"), "next")] if frame.waiting else []
    return [
        *wrap(line(mark, span(text, Tone.STRONG)), width, 3),
        truncated(keys_line([*pairs, ("Esc", "back")]), width),
    ]


def _right_aligned(row: StyledLine, width: int) -> StyledLine:
    return (StyledText(" " * max(0, width - width_of(row) - 1)), *truncated(row, width))


def _wrapped_keys(pairs: Sequence[tuple[str, str]], width: int) -> list[StyledLine]:
    """Keys with what they do, on as many lines as they need. A key is never parted from its words."""
    lines: list[StyledLine] = []
    current: StyledLine = ()
    for pair in pairs:
        piece = keys_line([pair])
        if current and width_of(current) + width_of(piece) + 1 > width:
            lines.append(current)
            current = ()
        current = (*current, *((StyledText(" "),) if current else ()), *piece)
    return [truncated(row, width) for row in [*lines, current]]
