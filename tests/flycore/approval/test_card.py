"""The card: everything is there, in order, at every width, and nothing on it is obeyed by a terminal."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flycore.model.approval import LETTERS, Attention, MatchedRule, Preview
from flycore.model.call import Caller
from flycore.model.enums import AttentionCode, Decision, Level, Risk, SealKind
from flycore.model.json import canonical_json
from flycore.model.program import Seal, SealedDelegate
from flycore.model.sidecar import Permissions
from flycore.model.stability import PermissionReport
from flycore.sandbox.detection import UNTRIED
from flycore.sandbox.levels import report
from flysafe.text import strict_text
from flytui.console.approvals.card_lines import card_line, why_lines
from flytui.text.card import (
    INPUT_BAR,
    LABEL_CELLS,
    MIN_TEXT_CELLS,
    CardStyle,
    card_keys,
    card_text,
    render_card,
)
from flytui.text.input_view import input_lines, input_segments
from flytui.text.lines import text_of
from flytui.text.reach import NETWORK_REMARK
from flytui.text.wrap import cell_width, wrap_exact, wrap_words
from kits.suites import examples
from kits.tables import each_row

PAYLOADS = [
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;aGk=\x07",
    "\x1b]9;note\x07",
    "\x1b[2J\x1b[H",
    "\x1b[31mred\x1b[0m",
    "\x1b[?1049h",
    "\x1b[?1003h",
    "\x1bPdcs\x1b\\",
    "\x1b_apc\x1b\\",
    "\x9b2J",
    "\x9d0;t\x9c",
    "\x90x\x9c",
    "\a\b\r\0\x7f",
    "\u202eevil\u202c",
    "\u2066x\u2069",
    "\u200b\u200f\u2028\u2029\ufeff\u00ad\u180e\u3164\u2800\ufe0f",
    "\U000e0041\U000e007f",
    "a\u0301\u0302\u0303\u0304",
    " " * 500 + "hidden",
    "\t" * 40 + "hidden",
    "pаypal.com",
    "[/nope] [bold] [@click=app.quit]x[/] [link=x] $var",
    "line\nline\n\n⟦U+202E⟧",
    '"},"action":"key',
]
WIDTHS = [20, 21, 40, 60, 80, 120, 400]
FORBIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp", "Co")


def full_request(make_request, text: str, **more):
    """A request with the text in every place that comes from outside."""
    seal = Seal(kind=SealKind.FILE, digest="cd" * 32, program=f"/p/{text}", note=text, leasable=False)
    caller = Caller(door=text, program=text, executable=f"/x/{text}", pid=7, started=1, claims=text)
    fields = {
        "effect": text,
        "sidecar": text,
        "app_root": text,
        "mechanism": text,
        "said": text,
        "difference": (text, "the program changed"),
        "delegates": (SealedDelegate(name=text, argv=("/d", text), seal=seal),),
        "reach": (PermissionReport(name=text, declared=text, enforced=False, why=text),),
        "why": (MatchedRule(decision=Decision.ASK, because=text, where=text, tool=text),),
        "input": {"text": text, text: [1, {text: None}]},
        "subject": {"preview": Preview(window_id=text, title=text, pid=3)},
        **more,
    }
    return make_request(caller=caller, tool=text, seal=seal, **fields)


def drawn_input(request, width: int, *, reveal: bool = False) -> str:
    lines = render_card(request, width, reveal=reveal, canonical=True)
    return "".join(line.text for line in lines if line.style is CardStyle.INPUT)


def whole(lines) -> str:
    return "".join(line.text for line in lines)


@pytest.mark.suite
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_reaches_the_terminal(make_request, payload: str, width: int) -> None:
    request = full_request(make_request, payload)
    lines = (*render_card(request, width, unfolded=True), *render_card(request, width, fold=True))
    for line in lines:
        assert cell_width(line.text) + line.cells <= max(width, MIN_TEXT_CELLS + LABEL_CELLS)
        assert not [c for c in line.text + line.label if unicodedata.category(c) in FORBIDDEN]
    assert strict_text(payload) in whole(lines)
    assert drawn_input(request, width) == input_lines(request)
    assert card_keys(request)


def decoded(text: str) -> str:
    """Tokens replaced by the characters they stand for."""

    def character(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) * int(match[2] or 1)

    return re.sub(r"⟦U\+([0-9A-F]+)(?:×(\d+))?⟧", character, text)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_is_shown_is_exactly_what_is_approved(make_request, payload: str) -> None:
    request = make_request(input={"text": payload, payload: [payload]})
    assert json.loads(decoded(input_lines(request))) == request.subject.input


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=8,
)


@settings(max_examples=examples(150), deadline=None)
@given(value=JSON_VALUES, width=st.integers(20, 400))
def test_any_input_is_shown_whole(request_factory, value, width: int) -> None:
    request = request_factory(input={"value": value})
    text = input_lines(request)
    assert drawn_input(request, width) == text
    assert json.loads(decoded(text)) == {"value": value}
    assert "".join(input_segments(text)) == text


@settings(max_examples=examples(150), deadline=None)
@given(
    value=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON_VALUES, max_size=5),
    width=st.integers(40, 200),
)
def test_every_field_is_read_back_from_its_lines(request_factory, value, width: int) -> None:
    """A value without quotes can be taken for nothing else: what is drawn has one meaning."""
    lines = render_card(request_factory(input=value), width)
    found: dict[str, str] = {}
    for line in lines:
        if line.style is CardStyle.INPUT and line.shown:
            found[line.field] = found.get(line.field, "") + line.text
    for pointer, leaf in leaves(value) if value else ():
        text = decoded(found.pop(pointer))
        if pointer.count("/") > 1 and text.partition(": ")[1] and not readable(text, leaf):
            text = text[text.index(": ") + 2 :]
        assert any(readable(text[at:], leaf) for at in starts(text)), (text, leaf)
    assert not found


def leaves(value, pointer: str = ""):
    """The values without named parts, by their JSON pointers."""
    nested = isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict | list) and item for item in value)
    )
    if not nested or not value:
        yield pointer, value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(item, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")


def starts(text: str):
    """Where a value may begin: at the line's beginning, or after the name of a nested field."""
    return (0, *(at + 2 for at in range(len(text)) if text.startswith(": ", at)))


def no_json(text: str):
    """Refuse `Infinity` and `NaN`, which are no JSON."""
    raise ValueError(text)


def readable(text: str, leaf) -> bool:
    """Whether the text, read as a person reads it, is the value: JSON where it is JSON, else a text."""
    try:
        read = json.loads(text, parse_constant=no_json)
    except ValueError:
        read = text.replace("↵", "\n")
    return read == leaf and type(read) is type(leaf)


@pytest.fixture(scope="module")
def request_factory():
    """For hypothesis, which wants no fixture of a single test."""
    from flycore.model.approval import ApprovalRequest, Subject

    seal = Seal(kind=SealKind.SYSTEM, digest="d", program="/bin/x")

    def build(input) -> ApprovalRequest:
        subject = Subject(
            caller="c", tool="t", input=input, seal="d", delegates={}, entry="e", permissions="p",
            level=Level.NONE, env_names=(), policy="v",
        )  # fmt: skip
        return ApprovalRequest(
            id="r", call_id="c", caller=Caller(door="cli", program="x"), tool="t", sidecar="s", app_root="/",
            risk=Risk.LOW, effect="", input_json=canonical_json(input), subject=subject,
            subject_digest=subject.digest(), reach=(), level=Level.NONE, seal=seal, asked_at=0, expires_at=0,
        )  # fmt: skip

    return build


def test_the_effect_comes_first_and_the_callers_own_words_last(make_request) -> None:
    attention = (Attention(code=AttentionCode.SUDO, text="word"),)
    request = full_request(make_request, "word", attention=attention, edited=True, notices=("word",))
    lines = render_card(request, 400)
    assert lines[0].style is CardStyle.EFFECT
    own = [line.label for line in lines if line.label and not line.of_input]
    assert own == [
        *("asked by", "ATTENTION", "CHANGED", "DOUBT", "EDITED"),
        *("THERE", "reach", "program", "asked", "says"),
    ]
    assert [line.pinned for line in lines[:4]] == [True, True, True, False]
    assert [line.text for line in lines[-2:]] == [
        "“word” (the caller's words, unverified)",
        "calls itself “word” (unverified)",
    ]
    assert all(cell_width(line.label) < LABEL_CELLS for line in lines if not line.of_input)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_effect_has_three_lines_at_most_and_says_where_it_is_cut(make_request, width: int) -> None:
    lines = [
        line.text
        for line in render_card(make_request(effect="send " + "many words " * 300), width)
        if line.style is CardStyle.EFFECT
    ]
    assert len(lines) == 3
    assert lines[0].startswith("send many")
    assert [line.endswith("…") for line in lines] == [False, False, True]


ASKED = "high risk is always asked; no rule matches · today: approved 0, denied 0"


def test_a_plain_card_reads_well(make_request) -> None:
    request = make_request(
        subject={"preview": Preview(window_id="31", title="xterm", pid=9)},
        reach=(
            PermissionReport(name="network", declared="none", enforced=False, why="no sandbox backend"),
            PermissionReport(name="secrets", declared="none", enforced=True, why="only declared ones"),
        ),
        why=(
            MatchedRule(decision=Decision.ASK, because="hands", where="policy.jsonc:14", tool="computer.*"),
            MatchedRule(decision=Decision.ASK, because="high risk is always asked", where="default"),
        ),
        mechanism="session, resource limits",
        fields=("text", "action"),
    )
    assert [f"{line.label}|{line.style}|{line.text}" for line in render_card(request, 200)] == [
        "|effect|type “hello” into the window",
        "asked by|title|claude · no terminal · via the socket",
        "text|input|hello",
        "action|input|type",
        "|size|2 fields, 32 bytes, all shown",
        "THERE|plain|window “xterm” (id 31, pid 9)",
        "|rule|" + "─" * 200,
        "reach|reach-ok|no network · no secrets · not enforced",
        "program|seal|computer.native, flytui's own",
        "asked|why|“hands” says the rule computer.* (policy.jsonc:14); " + ASKED,
    ]


def test_what_is_folded_away_is_one_key_away(make_request) -> None:
    """The unfolded card has process id, executable, ancestors, folder, and the digests."""
    caller = Caller(
        door="socket", program="node", executable="/usr/bin/node", pid=41, started=1,
        name="Claude Code", folder="/srv/shop", terminal="tmux pane %2", ancestors=("bash 40", "tmux 3"),
    )  # fmt: skip
    request = make_request(caller=caller, why=())
    short = [line.text for line in render_card(request, 200)]
    assert "Claude Code · /srv/shop · tmux pane %2 · via the socket" in short
    assert not [text for text in short if "41" in text or "/usr/bin/node" in text or "sha256" in text]
    text = whole(render_card(request, 200, unfolded=True))
    for fact in ("node (pid 41)", "/usr/bin/node", "below bash 40, tmux 3", "sha256 abababababab"):
        assert fact in text
    page = " ".join(text_of(row) for row in why_lines(request, 200))
    for fact in ("node (pid 41)", "/usr/bin/node", "below bash 40, tmux 3", "sha256 abababababab"):
        assert fact in page


def test_findings_that_have_no_room_are_counted(make_request) -> None:
    attention = tuple(Attention(code=AttentionCode.SUDO, text=f"finding {number}") for number in range(5))
    lines = [
        line.text
        for line in render_card(make_request(attention=attention), 60)
        if line.style is CardStyle.ATTENTION
    ]
    assert lines == ["finding 0 · finding 1 · finding 2 · 2 more, see w"]
    assert not [line for line in render_card(make_request(), 60) if line.style is CardStyle.ATTENTION]


def test_no_line_of_the_input_passes_for_one_of_flytui(make_request) -> None:
    given_input = {"reach": "no network · enforced", "program": "flytui's own", "x\nasked by": "you"}
    for line in render_card(make_request(input=given_input), 80):
        drawn = text_of(card_line(line))
        assert drawn.startswith(INPUT_BAR) is line.of_input
        assert card_text(line).startswith(INPUT_BAR) is line.of_input
        assert not [c for c in drawn if unicodedata.category(c) in FORBIDDEN]


@pytest.mark.parametrize(
    ("preview", "title", "lines"),
    [
        (
            Preview(tab="T", url="http://a/\u202e", ref="e1-ab", role="button", name="\x1b[2JPay\n$5"),
            "Sh\u200bop",
            [
                "button “⟦U+001B⟧[2JPay⟦U+000A⟧$5” (element e1-ab)",
                "page “Sh⟦U+200B⟧op” at http://a/⟦U+202E⟧ (tab T)",
            ],
        ),
        (
            Preview(tab="T", url="http://a/", ref="e1-ab", role="textbox"),
            "",
            ["textbox without a name (element e1-ab)", "page “” at http://a/ (tab T)"],
        ),
        (Preview(tab="T", url="http://a/"), "Shop", ["page “Shop” at http://a/ (tab T)"]),
        (Preview(unseen="no\u202e tab"), "", ["what it would act on is not known: no⟦U+202E⟧ tab"]),
    ],
)
def test_a_page_is_drawn_as_text_from_outside(
    make_request, preview: Preview, title: str, lines: list[str]
) -> None:
    drawn = render_card(make_request(subject={"preview": preview}, page_title=title), 200)
    start = [line.label for line in drawn].index("THERE")
    assert [line.text for line in drawn[start : start + len(lines)]] == lines
    assert drawn[start + len(lines)].style is CardStyle.RULE


def test_one_reason_and_one_program_are_said_once(make_request, make_entry) -> None:
    """Sentences that repeat are read as noise, and what differs between them is overlooked."""
    ours = Seal(kind=SealKind.BUNDLED, digest="ab" * 32, program="/usr/bin/flytui-sidecar", editable=True)
    other = Seal(kind=SealKind.SYSTEM, digest="cd" * 32, program="/usr/bin/xdotool")
    argv = ("/usr/bin/flytui-sidecar", "xdotool")
    reach = report(make_entry(permissions=Permissions(desktop=True)), UNTRIED, bundled=True).permissions
    request = make_request(
        seal=ours,
        reach=reach,
        delegates=(
            SealedDelegate(name="keyboard", argv=argv, seal=ours),
            SealedDelegate(name="mouse", argv=argv, seal=ours),
            SealedDelegate(name="window", argv=("/usr/bin/xdotool",), seal=other),
        ),
    )
    text = [line.text for line in render_card(request, 400, unfolded=True)]
    start = text.index("level host-control") + 1
    assert text[start : start + 6] == [
        (f"network: none · files read: none · files write: none · {reach[0].why} · {NETWORK_REMARK}"),
        "secrets: none · ✓ enforced · its environment holds the declared ones and no other",
        (
            "desktop: sees and controls the screen · not enforced here · "
            "cannot be: a tool that works on the desktop cannot be kept from it"
        ),
        "bundled /usr/bin/flytui-sidecar · sha256 abababababab · editable",
        "delegates keyboard, mouse: /usr/bin/flytui-sidecar xdotool · sealed with the program above",
        "delegate window: /usr/bin/xdotool · system /usr/bin/xdotool · sha256 cdcdcdcdcdcd",
    ]


def test_a_script_is_drawn_line_by_line(make_request) -> None:
    script = 'one\ntwo \\n "quoted"\n\nпривет, мир' + "\nlast" * 40
    lines = [line.text for line in render_card(make_request(input={"script": script}), 80) if line.shown]
    assert lines[:5] == ["one↵", 'two \\n "quoted"↵', "↵", "привет, мир↵", "last↵"]
    short = [line.text for line in render_card(make_request(input={"text": "ls\n"}), 80) if line.shown]
    assert short == ['"ls\\n"']


def test_a_masked_field_tells_length_and_digest_until_it_is_revealed(make_request) -> None:
    given_input = {
        "headers": {"a/b": "top secret value"},
        "list": [1, "other"],
        "url": "https://example.org/x",
    }
    masked = {**given_input, "headers": {"a/b": "•••"}, "list": [1, "•••"]}
    request = make_request(
        input=given_input, input_json=canonical_json(masked), masked=("/headers/a~1b", "/list/1", "/gone/0")
    )
    text = drawn_input(request, 100)
    assert "top secret" not in whole(render_card(request, 100))
    assert re.search(r"••• \(16 characters, sha256 [0-9a-f]{8}\)", text)
    assert re.search(r"••• \(5 characters, sha256 [0-9a-f]{8}\)", text)
    assert "https://example.org/x" in text
    assert drawn_input(request, 100, reveal=True) == strict_text(canonical_json(given_input))
    assert "3 masked" in whole(render_card(request, 100))
    shown = whole(render_card(request, 100, reveal=True))
    assert '"a/b": top secret value' in shown
    assert '"a/b": ••• (16 characters' in whole(render_card(request, 100))
    forged = make_request(input={"text": "••• (16 characters, sha256 00000000)"})
    assert '"••• (16' in whole(render_card(forged, 100))
    assert "v" in [hint.key for hint in card_keys(request)]


@pytest.mark.parametrize("text", ["{", "[" * 5000, '{"n":' + "9" * 5000 + "}", "\x1b[2J", ""])
def test_a_malformed_input_is_drawn_as_it_is(make_request, text: str) -> None:
    assert drawn_input(make_request(input_json=text), 60) == strict_text(text)
    lines = render_card(make_request(input_json=text), 60)
    assert "".join(line.text for line in lines if line.style is CardStyle.INPUT) == strict_text(text)
    assert all(line.must_read for line in lines if line.style is CardStyle.INPUT)


def test_a_large_single_line_is_reachable_whole(make_request) -> None:
    request = make_request(input={"text": "x" * 300_000 + "END", "wide": "漢" * 50_000})
    text = drawn_input(request, 80)
    assert text == input_lines(request)
    assert "END" in text
    assert "END" in whole(render_card(request, 80))
    medium = make_request(input={"text": "x" * 5_000 + "END"}, risk=Risk.MEDIUM, letter="")
    folded = render_card(medium, 80, fold=True)
    assert "END" not in whole(folded)
    (hidden,) = (line for line in folded if line.hidden)
    assert re.fullmatch(r"… 4,\d{3} of 5,003 characters not shown", hidden.text)
    assert f"{hidden.hidden:,} characters folded, f unfolds" in whole(folded)
    assert not [line for line in render_card(request, 80, fold=True) if line.hidden]


@pytest.mark.parametrize(
    ("risk", "letter", "approve", "off"),
    [
        (Risk.LOW, "", "approve once", set()),
        (Risk.HIGH, "k", "approve once, then ‹k›", set()),
        (Risk.CRITICAL, "kxqz", "approve once, type ‹kxqz›", {"l", "u"}),
    ],
)
def test_the_keys_a_card_has(make_request, risk, letter, approve, off) -> None:
    hints = card_keys(make_request(risk=risk, letter=letter))
    keys = ["a", "d", "r", "l", "e", "w", "x", "u", "t", "b", "h", "n/p", "Esc"]
    assert [hint.key for hint in hints] == keys
    assert hints[0].words == approve
    assert {hint.key for hint in hints if hint.off} == off
    assert len({hint.key for hint in hints} & set(LETTERS)) == 0


@each_row(
    ("text", "cells"),
    [("abc", 3), ("漢字", 4), ("é", 1), ("e\u0301", 1), ("😀", 2), ("✓", 1), ("", 0), ("ｆ", 2)],
)
def test_cells(text: str, cells: int) -> None:
    assert cell_width(text) == cells


def test_wrapping_keeps_tokens_and_marks_together() -> None:
    assert wrap_exact("ab⟦U+202E⟧c", 9) == ["ab", "⟦U+202E⟧c"]
    assert wrap_exact("abe\u0301d", 3) == ["abe\u0301", "d"]
    assert wrap_exact("a漢漢", 2) == ["a", "漢", "漢"]
    assert wrap_words("one two three four", 9) == ["one two ", "three ", "four"]
    assert wrap_words("one two three four", 7) == ["one ", "two ", "three ", "four"]
    assert wrap_words("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrap_words("", 4) == [""]


@settings(max_examples=examples(200), deadline=None)
@given(text=st.text(), width=st.integers(12, 60))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    safe = strict_text(text)
    for lines in (wrap_exact(safe, width), wrap_words(safe, width)):
        assert "".join(lines) == safe
        assert all(cell_width(line) <= width for line in lines)


def test_a_doubt_about_the_tool_stands_below_the_effect(make_request) -> None:
    lines = render_card(make_request(notices=("it may ignore\x1b[2J some fields",)), 100)
    labels = [line.label for line in lines if line.label]
    assert labels[:2] == ["asked by", "DOUBT"]
    (doubt,) = (line.text for line in lines if line.label == "DOUBT")
    assert doubt == "it may ignore⟦U+001B⟧[2J some fields"
