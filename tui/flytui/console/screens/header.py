"""The header of every screen, which has two lines, and the alerts that say that a person is needed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from flycore.model.enums import Phase, QuestionKind
from flycore.model.question import ABOUT_PROGRAMS
from flycore.model.status import Status
from flytui.console.kernel_connection import (
    FailedConnection,
    LostConnection,
    OpeningConnection,
    grouped_code,
)
from flytui.console.state import DECIDED_S, ConsoleState
from flytui.text.caller import caller_name
from flytui.text.labels import duration, local_time, plural
from flytui.text.lines import StyledLine, StyledText, Tone, line, padded, span, truncated, width_of
from flytui.text.root_names import root_tone

SCREENS = (
    ("1", "Catalog"),
    ("2", "Approvals"),
    ("3", "Activity"),
    ("4", "Grants"),
    ("5", "Audit"),
    ("6", "Packages"),
    ("7", "Doctor"),
)
TAB_LETTERS = (20, 3, 2, 0)
"""How many letters of another screen's name are drawn: the first number with which everything fits."""
WHOLE_TABS_WIDTH = 80
"""From this width, in cells, the names of the screens stay whole, and facts give way instead."""
MIN_ROOT_CELLS = 12
"""Cells that the app root has at least, however many facts there are."""
MAX_ALERTS = 6
"""The most alerts that are drawn where the console has several roots; the others are counted."""
_DOT = StyledText(" · ", Tone.DIM)
_STOPPING = span("stopping everything…", Tone.ALARM)


def root_span(state: ConsoleState) -> StyledText | None:
    """The short name of the root in its own tone; None where the console has no other root."""
    return StyledText(state.name, root_tone(state.place)) if state.name else None


def root_spans(state: ConsoleState) -> StyledLine:
    """The short name of the root, before something that is the root's; empty where there is no other root."""
    name = root_span(state)
    return () if name is None else (name, _DOT)


class Brevity(IntEnum):
    """How short the facts of the header are."""

    LONG = 0
    SHORT = 1
    SHORTER = 2
    """Without a lease where there is none."""
    SHORTEST = 3
    """Without anything that is usual: no agent, a policy that loaded."""


def header_lines(state: ConsoleState, screen: str, width: int) -> list[StyledLine]:
    """Two lines: app root and facts; below them the screens with their badges, and the facts that found no
    room above. Where there is too little room, facts get shorter and then the usual ones go; below
    `WHOLE_TABS_WIDTH` the names of the other screens are shortened first."""
    left, above, below, tabs = _layout(state, screen, width)
    return [_spread(left, above, width), _spread(tabs, below, width)]


def _layout(
    state: ConsoleState, screen: str, width: int
) -> tuple[StyledLine, list[StyledText], list[StyledText], StyledLine]:
    """App root, the facts beside it, the facts in the second line, and the screens' names."""
    brevities = Brevity if width >= WHOLE_TABS_WIDTH else (Brevity.LONG, Brevity.SHORT)
    for brevity in brevities:
        left = _left(state, width, brevity is not Brevity.LONG)
        above, below = list(_facts(state, brevity)), list[StyledText]()
        # A blank stands before the first fact and one at the right edge.
        while above and _width(above) - 1 + width_of(left) > width:
            below.append(above.pop(0))
        tabs = _fitting_tabs(state, screen, width, _width(below))
        if _width(below) + width_of(tabs) <= width:
            break
    while below and _width(below) + width_of(tabs) > width:
        below.pop(0)
    return left, above, below, tabs


def _fitting_tabs(state: ConsoleState, screen: str, width: int, facts: int) -> StyledLine:
    """The names of the screens that fit beside facts of so many cells: shortened names in a narrow window,
    else whole ones, which the facts have to leave the room."""
    whole = [_tabs(state, screen, TAB_LETTERS[0], gap) for gap in (" ", "", None)]
    if width >= WHOLE_TABS_WIDTH:
        return next((row for row in whole if width_of(row) <= width), truncated(whole[-1], width))
    drawn = [*whole, *(_tabs(state, screen, letters) for letters in TAB_LETTERS[1:])]
    return next((row for row in drawn if facts + width_of(row) <= width), drawn[-1])


def _left(state: ConsoleState, width: int, short: bool) -> StyledLine:
    """The name flytui and the app root; only the app root where `short`."""
    which: StyledLine = ()
    if state.shared.several:
        which = line(span(f" {state.place + 1} of {len(state.shared.roots)}", Tone.DIM))
    if short:
        return (*_named_root(state, MIN_ROOT_CELLS), *which)
    root = _named_root(state, max(MIN_ROOT_CELLS, width // 3))
    return (span(" flytui ", Tone.HEAD), StyledText(" "), *root, *which)


def _named_root(state: ConsoleState, room: int) -> StyledLine:
    """The app root; its short name where there is no room for the whole path and the console has others."""
    name = root_span(state)
    if name is None:
        return (_root(state.title, room),)
    whole = span(state.title, Tone.STRONG)
    return (name,) if width_of((whole,)) > room else (StyledText(whole.text, name.tone),)


def _root(title: str, room: int) -> StyledText:
    """The app root in at most `room` cells. A long one is cut at its beginning, because its end tells
    projects apart."""
    name = span(title, Tone.STRONG)
    while width_of((name,)) > room:
        name = StyledText("…" + name.text[1 + name.text.startswith("…") :], Tone.STRONG)
    return name


def _width(facts: Sequence[StyledText]) -> int:
    return sum(width_of((fact,)) + 3 for fact in facts)


def _spread(left: StyledLine, facts: Sequence[StyledText], width: int) -> StyledLine:
    """`left`, then the facts at the right edge."""
    right: StyledLine = tuple(part for fact in facts for part in (_DOT, fact))[1:]
    return truncated((*padded(left, max(MIN_ROOT_CELLS, width - width_of(right) - 1)), *right), width)


_POLICY_OK = span("policy ok", Tone.DIM)


def _policy_fact(status: Status) -> StyledText:
    if not status.policy_ok:
        return span("policy FAILED to load", Tone.ALARM)
    if status.waiting_rules:
        return span(f"policy: {plural(status.waiting_rules, 'change waits', 'changes wait')}", Tone.WARN)
    return _POLICY_OK


def _sandbox_fact(status: Status, brevity: Brevity) -> StyledText:
    if brevity >= Brevity.SHORTER:
        return span(f"box {status.sandbox.replace(' for ', ' ').replace(' of ', '/')}", Tone.DIM)
    return span(f"{'box' if brevity is Brevity.SHORT else 'sandbox'} {status.sandbox}", Tone.DIM)


def _facts(state: ConsoleState, brevity: Brevity) -> list[StyledText]:
    """The facts of the header, least important first. Those that do not fit beside the root go into the
    second line, from the front of the list."""
    status = state.status
    if state.lost is not None:
        return [
            *_queue_facts(state),
            span(f"kernel gone {state.lost.seconds_since(state.clock())} s", Tone.ALARM),
        ]
    if isinstance(state.connection, FailedConnection):
        return [*_queue_facts(state), span("not opened", Tone.ALARM)]
    if status is None:
        return [*_queue_facts(state), _STOPPING if state.panic_requested else span("starting…", Tone.DIM)]
    waiting = len(state.shared.waiting)
    policy = _policy_fact(status)
    usual = brevity is not Brevity.SHORTEST
    return [
        _sandbox_fact(status, brevity),
        *(
            [span(plural(status.leases, "lease"), Tone.ACCENT if status.leases else Tone.DIM)]
            if brevity < Brevity.SHORTER or status.leases
            else []
        ),
        *([span(f"{status.consoles} consoles", Tone.DIM)] if status.consoles > 1 else []),
        *([span(plural(status.agents, "agent"), Tone.DIM)] if usual or status.agents else []),
        *([policy] if policy == _POLICY_OK and usual else []),
        span(f"{waiting} waiting", _waiting_tone(state)),
        *_attachment_facts(state),
        *_desktop_facts(state),
        *_key_risk_facts(state, brevity is not Brevity.LONG),
        *([span("log without anchors", Tone.WARN)] if status.anchor_problem else []),
        *([] if policy == _POLICY_OK else [policy]),
        *(
            [span(f"everything STOPPED · {state.keys.label('app.card')} releases", Tone.ALARM)]
            if state.panic_active
            else []
        ),
        *([_STOPPING] if state.panic_requested and not state.panic_active else []),
    ]


def _queue_facts(state: ConsoleState) -> list[StyledText]:
    """How many requests of all roots wait, where this root itself has nothing to tell."""
    if not state.shared.several:
        return []
    return [span(f"{len(state.shared.waiting)} waiting", _waiting_tone(state))]


def _key_risk_facts(state: ConsoleState, short: bool) -> list[StyledText]:
    """That programs could type into this terminal; in one word where there is little room, because the other
    facts change and this one does not."""
    label = state.shared.key_risk.label
    return [span(label.partition(",")[0] if short else label, Tone.WARN)] if label else []


def _attachment_facts(state: ConsoleState) -> list[StyledText]:
    """Whether this console is attached and may decide, and how many consoles ask to pair with its kernel."""
    facts = []
    if state.attachment is not None:
        if state.attachment.paired:
            facts.append(span(f"at pid {state.attachment.pid}", Tone.ACCENT))
        else:
            facts.append(span("viewer · cannot decide", Tone.WARN))
    if state.open_pairing_requests:
        facts.append(
            span(f"{plural(len(state.open_pairing_requests), 'console asks', 'consoles ask')}", Tone.WARN)
        )
    return facts


def _desktop_facts(state: ConsoleState) -> list[StyledText]:
    """Whether a tool controls the desktop, and the time and the actions that a lease of it has left."""
    leases = [it for it in state.leases if it.tool.startswith("computer.") and it.expires_at > state.now()]
    if leases:
        last = max(leases, key=lambda lease: lease.expires_at)
        left = f"{duration(last.expires_at - state.now())}, {sum(lease.calls_left for lease in leases)} left"
        return [span(f"hands {'on the machine' if state.desktop_controlled else 'leased'} {left}", Tone.WARN)]
    return [span("hands on the machine", Tone.WARN)] if state.desktop_controlled else []


def _waiting_tone(state: ConsoleState) -> Tone:
    if state.shared.high_waiting:
        return Tone.ALARM
    return Tone.WARN if state.shared.waiting else Tone.DIM


def _tabs(state: ConsoleState, screen: str, letters: int, gap: str | None = " ") -> StyledLine:
    """The screens with their badges, with `letters` letters of the names of all but the present one. `gap`
    stands between two screens; where it is None, one blank does in all."""
    running = sum(call.phase is Phase.RUNNING for call in state.activity)
    badges = {"Approvals": len(state.shared.waiting) + len(state.shared.questions), "Activity": running}
    spans: list[StyledText] = [StyledText(" ")]
    for key, name in SCREENS:
        here = name == screen
        badge = f" ●{badges[name]}" if badges.get(name) else ""
        shown = f" {name}" if here else f" {name[:letters]}".rstrip()
        end = "" if gap is None and not here else " "
        spans.append(span(f" {key}{shown}{badge}{end}", Tone.HEAD if here else Tone.DIM))
        spans += [StyledText(gap)] if letters and gap else []
    if screen not in {name for _, name in SCREENS}:
        spans.append(span(f" {screen} ", Tone.HEAD))
    return tuple(spans)


def tab_at(state: ConsoleState, screen: str, x: int, width: int) -> str | None:
    """The screen whose name is drawn at cell `x` of the header's second line; None where there is none."""
    end = 0
    for part in _layout(state, screen, width)[-1]:
        end += width_of((part,))
        if x < end:
            return next((name for key, name in SCREENS if part.text.startswith(f" {key} ")), None)
    return None


def _question_lines(state: ConsoleState) -> list[StyledLine]:
    """The alert for the emergency stop, or for what programs caused. Trust has a line of its own."""
    if state.panic_active:
        note = line(span(" ■ everything is stopped ", Tone.ALARM), span(" no call is taken.  "))
        release = line(span(state.keys.label("app.card"), Tone.KEY), span(" releases", Tone.DIM))
        return [(*note[:1], *_of_root(state), *note[1:], *release)]
    loops = [question for question in state.questions if question.kind in ABOUT_PROGRAMS]
    if not loops:
        return []
    glyph = "↻" if loops[0].kind is QuestionKind.LOOP else "▲"
    what = plural(len(loops), "question waits", "questions wait")
    note = line(
        span(f" {glyph} {what} ", Tone.WARN),
        StyledText(" "),
        span(state.keys.label("app.card"), Tone.KEY),
        span(" opens  ", Tone.DIM),
    )
    return [(*note, *root_spans(state), span(loops[0].title))]


def _kernel_lines(state: ConsoleState) -> list[StyledLine]:
    """The alert that the kernel is gone, or that another process still holds the root."""
    match state.connection:
        case LostConnection(restarts=True, reason=reason):
            words = f" {reason}; the next one is being started  "
            unknown = span("how calls that had started ended is not known", Tone.DIM)
            return [line(span(" ! ", Tone.ALARM), *_of_root(state), span(words), unknown)]
        case LostConnection() as lost:
            left = lost.seconds_left(state.clock())
            take = span(state.keys.label("app.take"), Tone.KEY)
            looks = f"  looking for it {left} s more" if left else "  none came back"
            note = line(span(" ! ", Tone.ALARM), *_of_root(state), span(" the kernel is gone  "))
            return [(*note, take, span(" opens one here", Tone.DIM), span(looks))]
        case OpeningConnection(waiting_for=holder) if holder:
            note = line(span(" … ", Tone.WARN), *_of_root(state), span(f"waiting for {holder}"))
            take = span(f"  {state.keys.label('app.take')}", Tone.KEY)
            return [(*note, take, span(" ends what it runs", Tone.DIM))]
        case FailedConnection(reason=reason):
            take = span(state.keys.label("app.take"), Tone.KEY)
            note = line(span(" ! ", Tone.ALARM), *_of_root(state), span(" not opened  "))
            return [(*note, take, span(" tries again  ", Tone.DIM), span(reason))]
        case _:
            return []


def _pairing_lines(state: ConsoleState) -> list[StyledLine]:
    """The alert that this console is only a viewer, or the codes of the consoles that ask to pair."""
    pair = span(state.keys.label("app.pair"), Tone.KEY)
    if state.attachment is not None and not state.attachment.paired and state.lost is None:
        whom = f"{state.attachment.holder}, since {local_time(state.attachment.since)}"
        note = line(span(" ⇄ viewer only  ", Tone.WARN), *root_spans(state), pair, span(" pairs  ", Tone.DIM))
        return [(*note, span(f"attached to {whom}"))]
    return [
        line(
            span(" ⇄ code ", Tone.WARN),
            *_of_root(state),
            span(f" {grouped_code(asking.code)} ", Tone.HEAD),
            span(f" {duration(asking.expires_at - state.now())}  "),
            pair,
            span(" refuses  ", Tone.DIM),
            span(f"{asking.who} asks to decide here, too"),
        )
        for asking in state.open_pairing_requests
    ]


def decided_line(state: ConsoleState) -> StyledLine:
    """The line about the latest decision, while it is new; empty afterwards."""
    decided = state.shared.decided
    if decided is None or state.clock() - decided.at >= DECIDED_S:
        return ()
    mark = span(" ✓ ", Tone.GOOD) if decided.allows else span(" ✗ ", Tone.WARN)
    shows = f" · {state.keys.label('main.activity')} shows it" if decided.allows else ""
    words = span(f"{decided.words}{shows}  ", Tone.STRONG)
    return line(mark, words, StyledText(decided.effect, Tone.DIM))


def _of_root(state: ConsoleState) -> StyledLine:
    """The short name of the root after the sign of an alert; empty where there is no other root."""
    name = root_span(state)
    return () if name is None else (StyledText(" "), name, StyledText(" "))


def _trust_lines(state: ConsoleState) -> list[StyledLine]:
    """The alert that entries of the root wait for trust."""
    if not state.trust:
        return []
    what = plural(len(state.trust), "entry waits", "entries wait")
    changed = all(item.difference for item in state.trust)
    meanwhile = "what was trusted runs on" if changed else "what is new does not run"
    key = span(state.keys.label("app.trust"), Tone.KEY)
    return [
        line(
            span(" ± ", Tone.WARN),
            *root_spans(state),
            span(f"{what} for trust; {meanwhile}.  "),
            key,
            span(" shows what they would run", Tone.DIM),
        )
    ]


def _request_lines(state: ConsoleState) -> list[StyledLine]:
    """The alert that requests of any root wait, with the first one."""
    waiting = state.shared.waiting
    if not waiting:
        return []
    root, first = waiting[0].root, waiting[0].ask.request
    mark = Tone.ALARM if state.shared.high_waiting else Tone.WARN
    what = plural(len(waiting), "request waits", "requests wait")
    note = line(
        span(f" ▲ {what} ", mark),
        StyledText(" "),
        span(state.keys.label("app.card"), Tone.KEY),
        span(" opens  ", Tone.DIM),
    )
    away = sum(one.status.turned_away for one in state.shared.roots if one.status is not None)
    full = span(f"queue full: {away} turned away  ", Tone.WARN) if away else StyledText("")
    first_one = StyledText(f"{waiting[0].effect} · {caller_name(first.caller)}")
    return [(*note, full, *root_spans(root), first_one)]


def alert_lines(state: ConsoleState, width: int) -> list[StyledLine]:
    """The alerts, one line each: what needs the person now, at the bottom of every screen but the card's. The
    root of the screen comes first, then the others."""
    roots = [state, *(root for root in state.shared.roots if root is not state)]
    lines = [row for root in roots for row in (*_kernel_lines(root), *_pairing_lines(root))]
    lines += [row for root in roots for row in _trust_lines(root)]
    lines += _request_lines(state)
    lines += [row for root in roots for row in _question_lines(root)]
    if state.shared.several and len(lines) > MAX_ALERTS:
        # What waits is never among those that are only counted.
        lines = [*_request_lines(state), *(row for row in lines if row not in _request_lines(state))]
        more = plural(len(lines) - MAX_ALERTS + 1, "alert", "alerts")
        lines = [*lines[: MAX_ALERTS - 1], line(span(f" … {more} more", Tone.WARN))]
    if decided := decided_line(state):
        lines.append(decided)
    if state.shared.notice:
        lines.append(line(span(" "), span(state.shared.notice, Tone.ACCENT)))
    return [truncated(row, width) for row in lines]
