"""The lines of a card: the title above, the kernel's lines with their pictures, and the keys below. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import zip_longest

import msgspec

from flycore.approval.allowance_offer import AllowanceOffer
from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.enums import Choice, Code, RequestState, Risk
from flytui.console.screens.arming import APPROVE_KEY, ArmingState, pages_before
from flytui.console.user_settings import KeyBindings
from flytui.text.caller import caller_facts
from flytui.text.card import (
    APPROVE_WORDS,
    INPUT_BAR,
    LABEL_CELLS,
    CardLine,
    CardStyle,
    KeyHint,
    attention_text,
    card_keys,
    effect_text,
    render_card,
    seal_texts,
)
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

RULED_FROM = 20
"""The lines of a terminal that has room for a line below what is pinned."""
KEY_ROWS = 2
"""The lines of keys on a card; `?` shows the others."""
NARROW = 70
"""A terminal with fewer cells has one more line of keys."""
_LABEL_TONES = {CardStyle.ATTENTION: Tone.WARN, CardStyle.REACH_OPEN: Tone.WARN}
LEAST_ROWS, MOST_ROWS = 5, 14
"""The least and the most lines of one picture, whatever room there is."""
TONES: dict[CardStyle, Tone] = {
    CardStyle.TITLE: Tone.PLAIN,
    CardStyle.EFFECT: Tone.STRONG,
    CardStyle.INPUT: Tone.QUOTE,
    CardStyle.REACH_OK: Tone.PLAIN,
    CardStyle.REACH_OPEN: Tone.WARN,
    CardStyle.SEAL: Tone.PLAIN,
    CardStyle.WHY: Tone.PLAIN,
    CardStyle.ATTENTION: Tone.WARN,
    CardStyle.SIZE: Tone.DIM,
    CardStyle.RULE: Tone.DIM,
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
_READ_ONLY_KEYS = frozenset(("v", "f", "w", "x", "n/p", "Esc"))
"""The keys of a card that only show. They are all that a console has that cannot decide."""
_ANSWER_LABELS = {Choice.APPROVE_ONCE: "approved once", Choice.LEASE: "leased", Choice.BLOCK: "blocked"}


class CardFrame(msgspec.Struct, frozen=True):
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
    decided: StyledLine = ()
    """What became of the card before this one, while it is new."""
    folded: bool = False
    """Whether a value is folded, so that a key unfolds it."""
    height: int = 0
    """The lines of the terminal."""
    keys: KeyBindings = msgspec.field(default_factory=KeyBindings)
    offer: AllowanceOffer | None = None
    """The allowance that stands first among the keys; None where there is none."""


def pinned_lines(request: ApprovalRequest, width: int, root: StyledText | None) -> list[StyledLine]:
    """The lines of the card that do not scroll: what the call does, who asks, and what is unusual. `root` is
    the short name of the request's root; None if the console has no other root."""
    drawn = render_card(request, width - 2, root=root.text if root is not None else "")
    return [card_line(card, root) for card in drawn if card.pinned]


def title_lines(frame: CardFrame, pinned: Sequence[StyledLine], width: int) -> list[StyledLine]:
    """What does not scroll: a line of risk, tool, place in the queue and times, the pinned lines of the card,
    and who else waits for the answer."""
    return [
        *_title_line(frame, width),
        *pinned,
        *(row for fact in _fact_lines(frame.ask) for row in wrap(fact, width, 1)),
        *([line(span("─" * width, Tone.DIM))] if frame.height >= RULED_FROM else []),
    ]


def card_line(card: CardLine, root: StyledText | None = None) -> StyledLine:
    """A line of the card. The input has a bar before it, so that no line of it passes for one of flytui's.
    The line about who asks begins with the `root`, in its own tone."""
    bar = StyledText(INPUT_BAR if card.of_input else " ", Tone.DIM)
    tone = Tone.PLAIN if card.of_input else _LABEL_TONES.get(card.style, Tone.DIM)
    cells = padded((StyledText(card.label, tone),), card.cells) if card.cells else ()
    tone = TONES[card.style]
    if root is None or card.style is not CardStyle.TITLE:
        return (bar, *cells, StyledText(card.text, tone))
    size = len(root.text)
    return (bar, *cells, StyledText(card.text[:size], root.tone), StyledText(card.text[size:], tone))


def _fact_lines(ask: Ask) -> list[StyledLine]:
    """Lines about the waiting, which is not a part of the request itself."""
    if ask.state is not RequestState.WAITING:
        return []
    facts = []
    if ask.count > 1:
        facts.append(line(span(f" {ask.count} identical calls wait for this answer", Tone.WARN)))
    if ask.ticket:
        who = "the caller comes back for the answer"
        also = ", also when it is started again" if ask.returns else "; if it exits, this is withdrawn"
        facts.append(line(span(f" {who}{also}", Tone.DIM)))
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
            times += f" · ends in {duration(request.expires_at - frame.now)}"
    right = line(span(f"{place}{times} ", Tone.DIM))
    return [
        (*padded(left, max(0, width - width_of(right))), *right)
        if width_of(right) < width
        else truncated(left, width)
    ]


class CardBody(msgspec.Struct, frozen=True):
    """The lines of a card below its title, and which of them have to be read before an approval."""

    lines: list[StyledLine]
    must_read: frozenset[int]
    """Indexes of lines."""
    values: dict[int, CardLine]
    """The lines that have a part of a value, or stand for one that is folded, by their index."""

    @property
    def folded(self) -> bool:
        """Whether a part of a value is not shown."""
        return any(card.hidden for card in self.values.values())

    def not_shown(self, read: Container[int]) -> dict[str, int]:
        """How many characters of each value were not on screen, where `read` has the lines that were; by the
        JSON pointer of the field."""
        missing: dict[str, int] = {}
        for index, card in self.values.items():
            count = card.hidden + (0 if index in read else card.shown)
            if count:
                missing[card.field] = missing.get(card.field, 0) + count
        return missing


class CardView(msgspec.Struct, frozen=True):
    """How a person looks at the card."""

    reveal: bool = False
    unfolded: bool = False
    canonical: bool = False


def body_of(
    request: ApprovalRequest, width: int, view: CardView, *, height: int = 0, colours: bool = True
) -> CardBody:
    """Every line of the card that scrolls. The pictures share what is left of `height` lines; each has at
    least `LEAST_ROWS`."""
    drawn = render_card(
        request, width - 2, reveal=view.reveal, fold=not view.unfolded, canonical=view.canonical
    )
    cards = [card for card in drawn if not card.pinned]
    rows = _crop_rows(request, height - len(cards))
    lines: list[StyledLine] = []
    must_read: set[int] = set()
    values: dict[int, CardLine] = {}
    for card, after in zip_longest(cards, cards[1:]):
        if card is None:
            continue
        if card.must_read:
            must_read.add(len(lines))
        if card.shown or card.hidden:
            values[len(lines)] = card
        lines.append(card_line(card))
        if after is not None and after.style is card.style:
            continue
        picture = crop_lines(request, card.style, width - 2 - LABEL_CELLS, rows, colours=colours)
        lines += [(StyledText(" " * (LABEL_CELLS + 1)), *row) for row in picture]
    return CardBody(lines, frozenset(must_read), values)


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
    notice_lines = wrap(line(span(f" {frame.notice}", Tone.WARN)), width, 1) if frame.notice else []
    decided = [truncated(frame.decided, width)] if frame.decided else []
    return [*decided, *notice_lines, *_key_rows(frame, width)]


def _key_rows(frame: CardFrame, width: int) -> list[StyledLine]:
    """The keys that fit into `KEY_ROWS` lines, the most important first, with the help at the end, and in
    the last line whether the approve key is armed."""
    arming = frame.arming
    hints = [
        hint
        for hint in _offered_first(
            card_keys(frame.ask.request, held=frame.ask.held, folded=frame.folded), frame.offer
        )
        if not arming.viewer_reason or hint.key in _READ_ONLY_KEYS
    ]
    state = _readiness(arming, frame.clock)
    pieces = [_key_piece(hint, frame) for hint in hints]
    last = (StyledText("  "), StyledText("?", Tone.KEY), StyledText(" all keys", Tone.DIM))
    for count in range(len(pieces), 0, -1):
        rows = _flowed([*pieces[:count], last], width)
        fits = width_of(rows[-1]) + width_of(state) + 2 <= width
        if len(rows) + (not fits) <= KEY_ROWS + (width < NARROW) or count == 1:
            break
    if not fits:
        return [*rows, _right_aligned(state, width)]
    gap = StyledText(" " * (width - width_of(rows[-1]) - width_of(state) - 1))
    return [*rows[:-1], (*rows[-1], gap, *state)]


def _key_piece(hint: KeyHint, frame: CardFrame) -> StyledLine:
    """A key with what it does. One that cannot work is dim; where `a` stands, what is missing is said."""
    key = frame.keys.label_of_default("card", hint.key)
    if hint.key == APPROVE_KEY and frame.arming.pages_left and not frame.arming.viewer_reason:
        tone = Tone.WARN if frame.arming.strict else Tone.STRONG
        then = hint.words.removeprefix(APPROVE_WORDS)
        return (StyledText("  "), span(f"{pages_before(frame.arming.pages_left, key)}{then} ↓", tone))
    return (
        StyledText("  "),
        span(key, Tone.DIM if hint.off else Tone.KEY),
        span(f" {hint.words}", Tone.DIM),
    )


def _flowed(pieces: Sequence[StyledLine], width: int) -> list[StyledLine]:
    """The pieces on as many lines as they need. None is parted."""
    rows: list[StyledLine] = []
    current: StyledLine = ()
    for piece in pieces:
        if current and width_of(current) + width_of(piece) > width:
            rows.append(current)
            current = ()
        current = (*current, *(piece if current else (StyledText(" "), *piece[1:])))
    return [truncated(row, width) for row in [*rows, current]]


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
    if request.attention:
        rows += [(), line(span("What is unusual", Tone.STRONG)), ()]
        rows += [line(StyledText(attention_text(one), Tone.WARN)) for one in request.attention]
    rows += [(), line(span("What the call could reach", Tone.STRONG)), ()]
    rows += [line(span(one.text, Tone.WARN if one.warns else Tone.PLAIN)) for one in whole_reach(request)]
    rows += [(), line(span("The program", Tone.STRONG)), ()]
    rows += [line(StyledText(text)) for text in seal_texts(request)]
    rows += [(), line(span("Who asks", Tone.STRONG)), ()]
    rows += [line(StyledText(text)) for text in caller_facts(request)]
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
    urgent = _turned_off(arming) or arming.strict or unread
    return span(f"{space}{blocked} ○", Tone.WARN if urgent else Tone.DIM)


def _turned_off(arming: ArmingState) -> bool:
    """Whether the approve key is off, however much has been read and however long it is waited."""
    return bool(arming.viewer_reason) or arming.desktop_controlled or arming.keyboard_elsewhere


def _readiness(arming: ArmingState, now: float) -> StyledLine:
    """Whether the approve key is armed; nothing where the place of that key says so itself."""
    if arming.pages_left and not _turned_off(arming):
        return ()
    below = span("more below ↓  ", Tone.DIM)
    unread = not arming.blocked_reason(now) and not arming.end_seen
    return line(*([below] if unread else []), readiness(arming, now))


def _confirm_lines(request: ApprovalRequest, arming: ArmingState, width: int) -> list[StyledLine]:
    effect = StyledText(effect_text(request))
    if request.risk is Risk.CRITICAL:
        typed = arming.typed + "·" * (len(request.letter) - len(arming.typed))
        words = line(
            span(" type ", Tone.STRONG),
            span(f" {request.letter} ", Tone.ALARM),
            span(f" {typed} to ", Tone.STRONG),
            effect,
        )
    else:
        words = line(
            span(" press ", Tone.STRONG), span(f" {request.letter} ", Tone.ALARM), span(" to "), effect
        )
    rows = wrap(words, width, 1)
    shown = [*rows[:2], truncated((*rows[2], StyledText(" " * width)), width)] if len(rows) > 3 else rows
    return [*shown, *wrap(keys_line([("any other key", "does not approve")]), width)]


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
