"""The card: everything is there, in order, at every width, and nothing on it is obeyed by a terminal."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flycore.model.approval import Checks, MatchedRule, Preview
from flycore.model.call import Caller
from flycore.model.enums import Decision, Level, Risk, SealKind
from flycore.model.json import canonical_json
from flycore.model.program import Seal, SealedDelegate
from flycore.model.sidecar import Permissions
from flycore.model.stability import PermissionReport
from flycore.sandbox.detection import UNTRIED
from flycore.sandbox.levels import report
from flysafe.text import strict_text
from flytui.text.card import LABEL_CELLS, MIN_TEXT_CELLS, CardStyle, card_keys, render_card
from flytui.text.input_view import input_lines, input_segments
from flytui.text.reach import NETWORK_REMARK
from flytui.text.wrap import cell_width, wrap_exact, wrap_words

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
    lines = render_card(request, width, reveal=reveal)
    return "".join(line.text for line in lines if line.style is CardStyle.INPUT)


def whole(lines) -> str:
    return "".join(line.text for line in lines)


@pytest.mark.suite
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_reaches_the_terminal(make_request, payload: str, width: int) -> None:
    request = full_request(make_request, payload)
    lines = render_card(request, width)
    for line in lines:
        assert cell_width(line.text) <= max(width - LABEL_CELLS, MIN_TEXT_CELLS)
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


@settings(max_examples=150, deadline=None)
@given(value=JSON_VALUES, width=st.integers(20, 400))
def test_any_input_is_shown_whole(request_factory, value, width: int) -> None:
    request = request_factory(input={"value": value})
    text = input_lines(request)
    assert drawn_input(request, width) == text
    assert json.loads(decoded(text)) == {"value": value}
    assert "".join(input_segments(text)) == text


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


def test_the_order_is_the_spec_s(make_request) -> None:
    request = full_request(make_request, "word", checks=Checks(approved=2, denied=1))
    labels = [line.label for line in render_card(request, 400) if line.label]
    expected = [
        "WHO",
        "ROOT",
        "TOOL",
        "EFFECT",
        "INPUT",
        "THERE",
        "REACH",
        "SEAL",
        "WHY",
        "CHECKS",
        "CHANGED",
    ]
    assert labels == expected
    lines = render_card(request, 400)
    assert lines[-1].style is CardStyle.SAID
    assert lines[-1].text == "caller says (unverified): “word”"
    assert lines[-2].text == "caller calls itself (unverified): “word”"
    assert all(cell_width(line.label) < LABEL_CELLS for line in lines)


def test_a_plain_card_reads_well(make_request) -> None:
    request = make_request(
        subject={"preview": Preview(window_id="31", title="xterm", pid=9)},
        reach=(
            PermissionReport(name="network", declared="yes", enforced=False, why="no sandbox backend"),
            PermissionReport(name="secrets", declared="none", enforced=True, why="only declared ones"),
        ),
        why=(
            MatchedRule(decision=Decision.ASK, because="hands", where="policy.jsonc:14", tool="computer.*"),
            MatchedRule(decision=Decision.ASK, because="no rule matches", where="default"),
        ),
        mechanism="session, resource limits",
    )
    assert [f"{line.label}|{line.style}|{line.text}" for line in render_card(request, 200)] == [
        "WHO|title|claude (pid 4121) via socket · /usr/bin/claude",
        "ROOT|title|/srv/shop",
        "TOOL|title|computer.keyboard · high risk · from computer.native",
        "EFFECT|effect|type “hello” into the window",
        "INPUT|plain|32 bytes in 1 line, all shown",
        '|input|{"action":"type","text":"hello"}',
        "THERE|plain|window “xterm” (id 31, pid 9)",
        "REACH|reach-open|level host-control · session, resource limits",
        "|reach-open|network: yes · not enforced here · no sandbox backend · " + NETWORK_REMARK,
        "|reach-ok|secrets: none · ✓ enforced · only declared ones",
        "SEAL|seal|bundled /usr/bin/flytui-sidecar · sha256 abababababab",
        "WHY|why|rule computer.* → ask · policy.jsonc:14 · “hands”",
        "|why|default → ask · no rule matches",
        "CHECKS|checks|same call approved 0×, denied 0× today",
    ]


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
    assert drawn[start + len(lines)].label == "REACH"


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
    text = [line.text for line in render_card(request, 400)]
    assert text[text.index("level host-control") + 1 : -1] == [
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
    request = make_request(input={"script": 'one\ntwo \\n "quoted"\n\nпривет, мир'})
    lines = [line.text for line in render_card(request, 80) if line.style is CardStyle.INPUT]
    assert lines == ['{"script":"one\\n', 'two \\\\n \\"quoted\\"\\n', "\\n", 'привет, мир"}']


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
    assert "v" in [hint.key for hint in card_keys(request)]


@pytest.mark.parametrize("text", ["{", "[" * 5000, '{"n":' + "9" * 5000 + "}", "\x1b[2J", ""])
def test_a_malformed_input_is_drawn_as_it_is(make_request, text: str) -> None:
    assert drawn_input(make_request(input_json=text), 60) == strict_text(text)


def test_a_large_single_line_is_reachable_whole(make_request) -> None:
    request = make_request(input={"text": "x" * 300_000 + "END", "wide": "漢" * 50_000})
    text = drawn_input(request, 80)
    assert text == input_lines(request)
    assert "END" in text
    assert re.search(r"^\d+ bytes in \d{4,} lines, all shown$", whole(render_card(request, 80)[4:5]))


@pytest.mark.parametrize(
    ("risk", "leasable", "letter", "expected"),
    [
        (Risk.LOW, True, "", "a approve once|l lease…|u rule…"),
        (Risk.MEDIUM, False, "", "a approve once|u rule…"),
        (Risk.HIGH, True, "k", "a approve once, confirm with ‹k›|l lease…|u rule…"),
        (Risk.CRITICAL, True, "kxqz", "a approve once, type ‹kxqz›"),
    ],
)
def test_the_keys_a_card_has(make_request, risk, leasable, letter, expected) -> None:
    seal = Seal(kind=SealKind.FILE, digest="d", program="/x", leasable=leasable)
    hints = card_keys(make_request(risk=risk, letter=letter, seal=seal))
    words = "|".join(f"{hint.key} {hint.words}" for hint in hints)
    refusing = "d deny|r deny with reason|t deny for 10 min|b block…"
    assert words == f"{expected}|e edit|{refusing}|w why|h hold|n/p next/previous|Esc leave waiting"


@pytest.mark.parametrize(
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


@settings(max_examples=200, deadline=None)
@given(text=st.text(), width=st.integers(12, 60))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    safe = strict_text(text)
    for lines in (wrap_exact(safe, width), wrap_words(safe, width)):
        assert "".join(lines) == safe
        assert all(cell_width(line) <= width for line in lines)


def test_a_doubt_about_the_tool_stands_below_the_effect(make_request) -> None:
    lines = render_card(make_request(notices=("it may ignore\x1b[2J some fields",)), 100)
    labels = [line.label for line in lines if line.label]
    assert labels[labels.index("EFFECT") + 1] == "DOUBT"
    (doubt,) = (line.text for line in lines if line.label == "DOUBT")
    assert doubt == "it may ignore⟦U+001B⟧[2J some fields"
