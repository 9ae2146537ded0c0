"""The keys, screen by screen, and what the words mean."""

from __future__ import annotations

from flytui.console.desk import Desk
from flytui.console.pages import PageScreen
from flytui.console.paint import Line, Span, Tone, column, line, span, wrap

_SECTIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Everywhere",
        (
            ("1 2 3 4 5", "Catalog, Approvals, Activity, Grants, Audit"),
            ("ctrl+o", "open the request that waits longest; where none does, the first question"),
            ("ctrl+x ctrl+x", "stop everything, within a second; in text fields too. ctrl+o releases it"),
            ("T", "entries of the registry that wait for trust"),
            ("ctrl+p", "command palette"),
            ("?", "this page"),
            ("q ctrl+q", "quit; asks first while requests wait"),
        ),
    ),
    (
        "Catalog",
        (
            ("/", "filter: words, state: risk: sidecar: policy: source:, !opposite; Esc clears"),
            (":", "jump to a tool: some letters of its name, Enter"),
            ("g", "by family, or by sidecar"),
            ("w", "why it is so, and what a call would meet, with the rule and its place"),
            ("D", "what changed since it was trusted and approved"),
            ("Enter", "details: stability, permissions, schemas, examples, stderr"),
            ("s", "show or hide the stability ladder beside the list"),
            ("R", "probe the sidecar again"),
            ("t", "test call: write an input in a form made from the tool's schema, and call it"),
            ("p", "problems found in registry and policy files"),
            ("y", "copy the tool as JSON"),
        ),
    ),
    (
        "Approvals",
        (
            ("Enter", "open the card, or what became of it"),
            ("B", "batch: approve once each what waits below high risk, read as one table"),
            ("!", "how to see an approval without risk"),
        ),
    ),
    (
        "The card",
        (
            ("a", "approve this one call; for high risk then the letter the card shows"),
            ("l", "lease: such calls by this caller, for a time and a number; ends on a summary"),
            ("u", "rule for your policy file, with its end in plain words; ends on a summary"),
            ("e", "edit the input; F2 checks it and shows it as a new card"),
            ("d", "deny, at once"),
            ("r", "deny with a reason that the caller is told"),
            ("t", "deny, and refuse the same for 10 minutes without asking"),
            ("b", "block the tool for every caller; b again confirms"),
            ("h", "hold: its time stands still; h again lets it run on"),
            ("v", "reveal masked fields"),
            ("w", "which rule asked, and where it stands"),
            ("n p", "next and previous request"),
            ("Esc", "leave it waiting"),
        ),
    ),
    (
        "A question",
        (
            ("a letter", "the option beside it, armed like a card; never Enter"),
            ("w", "write words to the caller, that go with the answer"),
            ("n p", "next and previous question"),
            ("Esc", "leave it waiting"),
        ),
    ),
    (
        "Test call",
        (
            ("F5 ctrl+s", "call the tool, through policy like any caller; Enter never does"),
            ("F6", "call it though the input does not fit; the kernel says what it thinks of that"),
            ("F2", "the input as JSON, exactly what is sent; F2 again: its fields"),
            ("F3", "the tool's next example, then an empty form"),
            ("← → Enter", "turn a choice; the list of all its options"),
            ("Backspace", "leave a choice out"),
            ("+ -", "on an array: one item more, the last one out"),
            ("F7 F8", "in an array: an item after this one, or without this one"),
            ("Esc", "back; what was written is there again the next time"),
        ),
    ),
    (
        "Activity",
        (
            ("Enter", "input, output, error, stderr, sandbox, timing"),
            ("k", "cancel the call; k again confirms"),
        ),
    ),
    (
        "Grants",
        (
            ("d", "revoke the lease, take out the rule, unblock the tool"),
            ("z", "take that back; asks again where more is let through"),
            ("Enter", "scope, condition, use, and where it came from"),
        ),
    ),
    (
        "Audit",
        (
            ("Enter", "every field of the line"),
            ("/", "filter: every word must occur, !word must not; Esc clears"),
            ("f", "how much you are asked, and whether you still read"),
            ("v", "check again whether the log is as it was written"),
            ("y", "copy the line as JSON"),
        ),
    ),
)
_STATES = (
    ("● available", Tone.GOOD, "works, as far as the last probe and calls show"),
    ("◐ degraded", Tone.WARN, "works with a limit that the ladder names"),
    ("○ unavailable", Tone.BAD, "does not work; reason and remedy stand beside it"),
    ("⊘ disabled", Tone.DIM, "switched off in the registry"),
    ("± changed", Tone.WARN, "its entry changed: the trusted value runs on, the new one waits (T)"),
)
_ARMING = (
    "A card opens by itself only when no key came for two seconds and no input holds text. Its approve keys"
    " arm 0.8 s after it was drawn and 0.5 s after the last key; earlier keys and pasted text are dropped."
    " Enter and the mouse never approve. High risk has to be read to its last line first. While a tool has"
    " its hands on keyboard and mouse, approving is off."
)


def help_screen(desk: Desk) -> PageScreen:
    """The page `?` opens."""
    return PageScreen(desk, "Help", help_lines)


def help_lines(width: int) -> list[Line]:
    """All sections for that width."""
    rows: list[Line] = []
    for title, pairs in _SECTIONS:
        rows += [(), line(Span(" "), span(title, Tone.STRONG))]
        for key, what in pairs:
            rows += wrap((*column((Span("   "), span(key, Tone.KEY)), 14), span(what)), width, 14)
    rows += [(), line(span(" States", Tone.STRONG))]
    for word, tone, what in _STATES:
        rows += wrap((*column((Span("   "), span(word, tone)), 18), span(what)), width, 18)
    rows += [(), line(span(" When keys approve", Tone.STRONG))]
    rows += wrap(line(Span("   "), span(_ARMING)), width, 3)
    return rows[1:]
