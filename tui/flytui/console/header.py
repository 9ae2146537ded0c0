"""The two lines on top of every screen, and the bar that says a person is needed."""

from __future__ import annotations

from collections.abc import Sequence

from flycore.model.enums import Phase, QuestionKind
from flytui.console.desk import Desk
from flytui.console.joined import shown_code
from flytui.console.paint import Line, Span, Tone, column, fit, line, span, width_of
from flytui.console.words import clock, clock_of, plural

SCREENS = (
    ("1", "Catalog"),
    ("2", "Approvals"),
    ("3", "Activity"),
    ("4", "Grants"),
    ("5", "Audit"),
    ("7", "Doctor"),
)
LETTERS = (20, 3, 2, 0)
"""Letters of another screen's name, the fewer the scarcer the room is."""
MIN_ROOT_CELLS = 12
"""Cells the app root keeps however many facts there are."""
_DOT = Span(" · ", Tone.DIM)
_STOPPING = span("stopping everything…", Tone.ALARM)


def header_lines(desk: Desk, screen: str, width: int) -> list[Line]:
    """App root and facts; below it the screens with their badges, and the facts that found no room. Where
    there is too little of it, the other screens' names are cut first."""
    left, above, below, tabs = _layout(desk, screen, width)
    return [_spread(left, above, width), _spread(tabs, below, width)]


def _layout(desk: Desk, screen: str, width: int) -> tuple[Line, list[Span], list[Span], Line]:
    """Root, the facts beside it, the facts below, and the screens' names."""
    for short in (False, True):
        left = _left(desk, width, short)
        above, below = list(_facts(desk, short)), list[Span]()
        while above and _width(above) + width_of(left) > width:
            below.append(above.pop(0))
        drawn = [_tabs(desk, screen, letters) for letters in LETTERS]
        tabs = next((row for row in drawn if _width(below) + width_of(row) <= width), drawn[-1])
        if _width(below) + width_of(tabs) <= width:
            break
    while below and _width(below) + width_of(tabs) > width:
        below.pop(0)
    return left, above, below, tabs


def _left(desk: Desk, width: int, short: bool) -> Line:
    """Our name and the root's; where there is little room only the root's."""
    if short:
        return line(_root(desk.title, MIN_ROOT_CELLS))
    return line(span(" flytui ", Tone.HEAD), Span(" "), _root(desk.title, max(MIN_ROOT_CELLS, width // 3)))


def _root(title: str, room: int) -> Span:
    """The root's name; of a long one its end, which tells projects apart."""
    name = span(title, Tone.STRONG)
    while width_of((name,)) > room:
        name = Span("…" + name.text[1 + name.text.startswith("…") :], Tone.STRONG)
    return name


def _width(facts: Sequence[Span]) -> int:
    return sum(width_of((fact,)) + 3 for fact in facts)


def _spread(left: Line, facts: Sequence[Span], width: int) -> Line:
    """`left`, then the facts at the right edge."""
    right: Line = tuple(part for fact in facts for part in (_DOT, fact))[1:]
    return fit((*column(left, max(MIN_ROOT_CELLS, width - width_of(right) - 1)), *right), width)


def _facts(desk: Desk, short: bool) -> list[Span]:
    """Least needed first: what does not fit beside the root goes below, from the front."""
    status = desk.status
    if desk.gone is not None:
        return [span(f"kernel gone {desk.gone.seconds(desk.clock())} s", Tone.ALARM)]
    if desk.lost:
        return [span("kernel gone", Tone.ALARM)]
    if status is None:
        return [_STOPPING] if desk.stopping else [span("starting…", Tone.DIM)]
    waiting = len(desk.waiting)
    policy = span("policy ok", Tone.DIM) if status.policy_ok else span("policy FAILED to load", Tone.ALARM)
    return [
        span(f"{'box' if short else 'sandbox'} {status.sandbox}", Tone.DIM),
        span(plural(status.leases, "lease"), Tone.ACCENT if status.leases else Tone.DIM),
        *([span(f"{status.consoles} consoles", Tone.DIM)] if status.consoles > 1 else []),
        span(plural(status.agents, "agent"), Tone.DIM),
        *([policy] if status.policy_ok else []),
        span(f"{waiting} waiting", _waiting_tone(desk)),
        *_attachment_facts(desk),
        *_desktop_facts(desk),
        *([span("log without anchors", Tone.WARN)] if status.anchor_problem else []),
        *([] if status.policy_ok else [policy]),
        *(
            [span(f"everything STOPPED · {desk.keys.shown('app.card')} releases", Tone.ALARM)]
            if desk.stopped
            else []
        ),
        *([_STOPPING] if desk.stopping and not desk.stopped else []),
    ]


def _attachment_facts(desk: Desk) -> list[Span]:
    """Whose kernel it is, and whether that lets us decide; and consoles that ask the same of ours."""
    facts = []
    if desk.joined is not None:
        if desk.joined.paired:
            facts.append(span(f"at pid {desk.joined.pid}", Tone.ACCENT))
        else:
            facts.append(span("viewer · cannot decide", Tone.WARN))
    if desk.open_pairing_requests:
        facts.append(
            span(f"{plural(len(desk.open_pairing_requests), 'console asks', 'consoles ask')}", Tone.WARN)
        )
    return facts


def _desktop_facts(desk: Desk) -> list[Span]:
    """A tool at keyboard and mouse, and how long a lease of them lasts and for how many actions."""
    leases = [it for it in desk.leases if it.tool.startswith("computer.") and it.expires_at > desk.now()]
    if leases:
        last = max(leases, key=lambda lease: lease.expires_at)
        left = f"{clock(last.expires_at - desk.now())}, {sum(lease.calls_left for lease in leases)} left"
        return [span(f"hands {'on the machine' if desk.hands_on else 'leased'} {left}", Tone.WARN)]
    return [span("hands on the machine", Tone.WARN)] if desk.hands_on else []


def _waiting_tone(desk: Desk) -> Tone:
    if desk.high_waiting:
        return Tone.ALARM
    return Tone.WARN if desk.waiting else Tone.DIM


def _tabs(desk: Desk, screen: str, letters: int) -> Line:
    """The screens with their badges, of the other ones' names so many letters."""
    running = sum(call.phase is Phase.RUNNING for call in desk.activity)
    badges = {"Approvals": len(desk.waiting) + len(desk.questions), "Activity": running}
    spans: list[Span] = [Span(" ")]
    for key, name in SCREENS:
        here = name == screen
        badge = f" ●{badges[name]}" if badges.get(name) else ""
        shown = f" {name}" if here else f" {name[:letters]}".rstrip()
        spans.append(span(f" {key}{shown}{badge} ", Tone.HEAD if here else Tone.DIM))
        spans += [Span(" ")] if letters else []
    if screen not in {name for _, name in SCREENS}:
        spans.append(span(f" {screen} ", Tone.HEAD))
    return tuple(spans)


def tab_at(desk: Desk, screen: str, x: int, width: int) -> str | None:
    """The screen whose name is drawn at cell `x` of the second of the header's lines of that width."""
    end = 0
    for part in _layout(desk, screen, width)[-1]:
        end += width_of((part,))
        if x < end:
            return next((name for key, name in SCREENS if part.text.startswith(f" {key} ")), None)
    return None


def _question_lines(desk: Desk) -> list[Line]:
    """A stop and callers that loop; what waits for trust has a line of its own."""
    if desk.stopped:
        note = line(span(" ■ everything is stopped ", Tone.ALARM), span(" no call is taken.  "))
        return [(*note, span(desk.keys.shown("app.card"), Tone.KEY), span(" releases", Tone.DIM))]
    loops = [question for question in desk.questions if question.kind is QuestionKind.LOOP]
    if not loops:
        return []
    what = plural(len(loops), "question waits", "questions wait")
    note = line(
        span(f" ↻ {what} ", Tone.WARN),
        Span(" "),
        span(desk.keys.shown("app.card"), Tone.KEY),
        span(" opens  ", Tone.DIM),
    )
    return [(*note, span(loops[0].title))]


def _kernel_lines(desk: Desk) -> list[Line]:
    """The kernel is gone, or not there yet."""
    if desk.gone is not None:
        left = desk.gone.left(desk.clock())
        take = span(desk.keys.shown("app.take"), Tone.KEY)
        looks = f"  looking for it {left} s more" if left else "  none came back"
        note = line(span(" ! ", Tone.ALARM), span(" the kernel is gone  "))
        return [(*note, take, span(" opens one here", Tone.DIM), span(looks))]
    if desk.lost:
        words = f" {desk.lost}. Press {desk.keys.shown('app.leave')} and start again."
        return [line(span(" ! ", Tone.ALARM), span(words))]
    if desk.awaited:
        note = line(span(" … ", Tone.WARN), span(f"waiting for {desk.awaited}"))
        return [(*note, span("  its end opens this root", Tone.DIM))]
    return []


def _pairing_lines(desk: Desk) -> list[Line]:
    """Whose kernel this is, where that does not let us decide; the codes of consoles that ask."""
    pair = span(desk.keys.shown("app.pair"), Tone.KEY)
    if desk.joined is not None and not desk.joined.paired and desk.gone is None:
        whom = f"{desk.joined.whom}, since {clock_of(desk.joined.since)}"
        note = line(span(" ⇄ only looking on  ", Tone.WARN), pair, span(" pairs  ", Tone.DIM))
        return [(*note, span(f"attached to {whom}"))]
    return [
        line(
            span(" ⇄ code ", Tone.WARN),
            span(f" {shown_code(asking.code)} ", Tone.HEAD),
            span(f" {clock(asking.expires_at - desk.now())}  "),
            pair,
            span(" refuses  ", Tone.DIM),
            span(f"{asking.who} asks to decide here, too"),
        )
        for asking in desk.open_pairing_requests
    ]


def alert_lines(desk: Desk, width: int) -> list[Line]:
    """What needs the person now, at the bottom of every screen but the card."""
    lines = [*_kernel_lines(desk), *_pairing_lines(desk)]
    if desk.trust:
        what = plural(len(desk.trust), "entry waits", "entries wait")
        changed = all(item.difference for item in desk.trust)
        meanwhile = "what was trusted runs on" if changed else "what is new does not run"
        note = line(span(" ± ", Tone.WARN), span(f"{what} for trust; {meanwhile}.  "))
        lines.append(
            (
                *note,
                span(desk.keys.shown("app.trust"), Tone.KEY),
                span(" shows what they would run", Tone.DIM),
            )
        )
    if desk.waiting:
        first = desk.waiting[0].request
        mark = Tone.ALARM if desk.high_waiting else Tone.WARN
        what = plural(len(desk.waiting), "request waits", "requests wait")
        note = line(
            span(f" ▲ {what} ", mark),
            Span(" "),
            span(desk.keys.shown("app.card"), Tone.KEY),
            span(" opens  ", Tone.DIM),
        )
        lines.append((*note, span(f"{first.tool} · {first.caller}")))
    lines += _question_lines(desk)
    if desk.notice:
        lines.append(line(span(" "), span(desk.notice, Tone.ACCENT)))
    return [fit(row, width) for row in lines]
