"""Suite S5's property: nothing a terminal obeys, nothing invisible, and no two texts look the same."""

from __future__ import annotations

import os
import random
import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache

import pytest

from flysafe.text import PLAIN, indented_text, line_filter, safe_lines, safe_text, strict_text
from kits.tables import each_row

FULL = os.environ.get("FLYTUI_SUITES") == "full"
STRINGS = 200_000 if FULL else 20_000
FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
INVISIBLE = set("\u3164\u2800\u115f\u1160\uffa0\u00ad\u180e\u034f") | {
    chr(point)
    for span in ((0xFE00, 0xFE10), (0xE0000, 0xE0080), (0xE0100, 0xE01F0))
    for point in range(*span)
}
TRICKY = [
    *("a", "Z", "0", " ", "U", "+", "⟦", "⟧", "⟦U+", "202E⟧", "⟦U+202E⟧", "⟦U+27E6⟧", "×"),
    *(
        "\t",
        "\n",
        "\r",
        "\0",
        "\x1b",
        "\x7f",
        "\x9b",
        "\u00ad",
        "\u200b",
        "\u200d",
        "\u202e",
        "\u2066",
        "\u2028",
    ),
    *(
        "\u0301",
        "\u0301\u0301",
        "\u0327",
        "\u093f",
        "\u1161",
        "\ufe0f",
        "\ud800",
        "\ue000",
        "\U000e0041",
        "\u3164",
    ),
    *(
        "é",
        "я",
        "р",
        "а",
        "日",
        "かな",
        "😀",
        "𝐫",
        "\u00a0",
        "\u3000",
        "    ",
        "\t\t\t\t\t\t\t\t\t",
        " " * 9,
        ".",
    ),
]


SPARSE_PLANES = (*range(4, 14), 15, 16)
"""Planes in which all code points but the last two are of one kind: unassigned, or of private use."""


def everything() -> Iterator[str]:
    """All 1,114,112 code points, in strings of 4,096 with a letter between; at the quick size, of a sparse
    plane the first and the last 4,096."""
    for start in range(0, sys.maxunicode + 1, 4096):
        plane, place = divmod(start, 0x10000)
        if FULL or plane not in SPARSE_PLANES or place in (0, 0xF000):
            yield "x".join(map(chr, range(start, start + 4096)))


def untoken(shown: str) -> str:
    """The text a safe one was made from."""

    def character(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) * int(match[2] or 1)

    return re.sub(r"⟦U\+([0-9A-F]{4,6})(?:×([0-9]+))?⟧", character, shown)


@cache
def random_texts() -> tuple[str, ...]:
    """Short texts of tricky neighbours and of any code point at all."""
    chance = random.Random(5)
    return tuple(
        "".join(
            chance.choice(TRICKY) if chance.random() < 0.9 else chr(chance.randrange(sys.maxunicode + 1))
            for _ in range(chance.randrange(1, 9))
        )
        for _ in range(STRINGS)
    )


@pytest.mark.suite
@pytest.mark.long
def test_no_code_point_gets_through() -> None:
    left = set()
    for text in everything():
        left |= set(safe_text(text))
    assert {character for character in left if unicodedata.category(character) in FORBIDDEN} == set()
    assert left & INVISIBLE == set()


@pytest.mark.suite
def test_every_code_point_can_be_told_from_its_token() -> None:
    for text in everything():
        assert untoken(safe_text(text)) == text


@pytest.mark.suite
def test_safe_text_is_injective() -> None:
    seen: dict[str, str] = {}
    for text in random_texts():
        shown = safe_text(text)
        assert untoken(shown) == text
        assert seen.setdefault(shown, text) == text


@pytest.mark.suite
def test_strict_text_is_injective() -> None:
    seen: dict[str, str] = {}
    for text in random_texts():
        shown = strict_text(text)
        assert untoken(shown) == text
        assert seen.setdefault(shown, text) == text


@pytest.mark.suite
def test_indented_text_is_injective() -> None:
    seen: dict[str, str] = {}
    for at, text in enumerate(random_texts()):
        given = " " * (0, 3, 12, 40, 41)[at % 5] + text
        shown = indented_text(given)
        assert untoken(shown) == given
        assert seen.setdefault(shown, given) == given


def test_no_more_than_two_marks_stand_in_a_row() -> None:
    for text in random_texts():
        run = 0
        for character in safe_text(text):
            run = run + 1 if unicodedata.category(character).startswith("M") else 0
            assert run <= 2


def test_blocks_taken_for_harmless_are() -> None:
    is_plain = re.compile(PLAIN).fullmatch
    for point in range(sys.maxunicode + 1):
        if is_plain(chr(point)):
            category = unicodedata.category(chr(point))
            assert category not in FORBIDDEN, hex(point)
            assert not category.startswith("M"), hex(point)


@each_row(
    ("text", "shown"),
    [
        ("", ""),
        ("plain [/nope] $var `x`", "plain [/nope] $var `x`"),
        ("a\nb\tc\rd", "a⟦U+000A⟧b⟦U+0009⟧c⟦U+000D⟧d"),
        ("\x1b]0;owned\x07", "⟦U+001B⟧]0;owned⟦U+0007⟧"),
        ("\x9b2J", "⟦U+009B⟧2J"),
        ("\u202egnp.exe", "⟦U+202E⟧gnp.exe"),
        ("⟦U+202E⟧", "⟦U+27E6⟧U+202E⟧"),
        ("e\u0301", "e\u0301"),
        ("e\u0301\u0301\u0301\u0301", "e\u0301\u0301⟦U+0301⟧⟦U+0301⟧"),
        ("가\u1161\u1161\u1161", "가\u1161\u1161⟦U+1161⟧"),
        ("❤\ufe0f", "❤⟦U+FE0F⟧"),
        ("\U000e0041", "⟦U+E0041⟧"),
        ("\ud83d", "⟦U+D83D⟧"),
        ("Привет, 世界, naïve, नमस्ते, שלום, ไทย", "Привет, 世界, naïve, नमस्ते, שלום, ไทย"),
        ("┌─ ● ⊘ ± ◐ ▀▄ “…” €", "┌─ ● ⊘ ± ◐ ▀▄ “…” €"),
    ],
)
def test_what_safe_text_draws(text: str, shown: str) -> None:
    assert safe_text(text) == shown


def test_lines_are_split_at_newlines_alone() -> None:
    assert safe_lines("a\nb\x0bc\u2028d\r\n") == ["a", "b⟦U+000B⟧c⟦U+2028⟧d⟦U+000D⟧", ""]
    assert safe_lines("") == [""]


@each_row(
    "text",
    [
        "Привет, мир",
        "Удалить файл с диска, а также папку",
        "и о погоде",
        "Ελληνικό κείμενο και άλλα για όλους",
        "中文，测试（全角）：很好。",
        "Tシャツを AI模型 で",
        "한국어 텍스트",
        "naïve café Łódź İstanbul straße",
        "5 µm, H₂O, x², 25 €",
        "“quoted” — dash … it's",
        "USB-кабель",
        " " * 8 + "indented",
    ],
)
def test_ordinary_text_stays_readable(text: str) -> None:
    assert strict_text(text) == text


@each_row(
    ("text", "shown"),
    [
        ("раypal.com", "⟦U+0440⟧⟦U+0430⟧ypal.com"),
        ("gооgle", "g⟦U+043E⟧⟦U+043E⟧gle"),
        ("аррӏе", "⟦U+0430⟧⟦U+0440⟧⟦U+0440⟧⟦U+04CF⟧⟦U+0435⟧"),
        ("rm -rf сору", "rm -rf ⟦U+0441⟧⟦U+043E⟧⟦U+0440⟧⟦U+0443⟧"),
        ("Удалить сору", "Удалить ⟦U+0441⟧⟦U+043E⟧⟦U+0440⟧⟦U+0443⟧"),
        ("ls а", "ls ⟦U+0430⟧"),
        ("/файл/а", "/файл/⟦U+0430⟧"),
        ("νοοr", "⟦U+03BD⟧⟦U+03BF⟧⟦U+03BF⟧r"),
        ("ԁосs", "⟦U+0501⟧⟦U+043E⟧⟦U+0441⟧s"),
        ("ꓑꓬꓔ", "⟦U+A4D1⟧⟦U+A4EC⟧⟦U+A4D4⟧"),
        ("𝐫𝐦 x", "⟦U+1D42B⟧⟦U+1D426⟧ x"),
        ("ｒｍ", "⟦U+FF52⟧⟦U+FF4D⟧"),
        ("etc∕passwd", "etc⟦U+2215⟧passwd"),
        ("a\u00a0b\u3000c", "a⟦U+00A0⟧b⟦U+3000⟧c"),
        ("a" + " " * 9 + "b", "a⟦U+0020×9⟧b"),
        ("a" + " " * 500 + "rm", "a⟦U+0020×500⟧rm"),
        ("\t" * 12 + " x", "⟦U+0009×12⟧⟦U+0020×1⟧x"),
        ("a\tb", "a⟦U+0009⟧b"),
        ("pay\u200bраl", "pay⟦U+200B⟧⟦U+0440⟧⟦U+0430⟧l"),
        ("⟦U+0020×9⟧", "⟦U+27E6⟧U+0020×9⟧"),
    ],
)
def test_what_misleads_is_a_token(text: str, shown: str) -> None:
    assert strict_text(text) == shown


@each_row(
    ("text", "shown"),
    [
        (" " * 12 + "steps:", " " * 12 + "steps:"),
        (" " * 40 + "a" + " " * 9 + "b", " " * 40 + "a⟦U+0020×9⟧b"),
        (" " * 41 + "a", "⟦U+0020×41⟧a"),
        (" " * 12, "⟦U+0020×12⟧"),
        (" " * 12 + "\u200b", " " * 12 + "⟦U+200B⟧"),
        (" " * 12 + "\u00a0", " " * 12 + "⟦U+00A0⟧"),
        ("\t" * 12 + "x", "⟦U+0009×12⟧x"),
        ("p\u0430y", "p⟦U+0430⟧y"),
    ],
)
def test_the_indent_of_a_line_stays_where_it_hides_nothing(text: str, shown: str) -> None:
    assert indented_text(text) == shown


def test_the_line_filter_keeps_widths_and_lets_no_control_through() -> None:
    for text in everything():
        filtered = line_filter(text)
        assert len(filtered) == len(text)
        categories = {unicodedata.category(character) for character in set(filtered)}
        assert categories & {"Cc", "Cf", "Cs", "Zl", "Zp"} == set()


def test_the_line_filter_leaves_safe_text_as_it_is() -> None:
    for text in random_texts():
        shown = safe_text(text)
        assert line_filter(shown) == shown
    assert line_filter("a\x1b[2Jb\n") == "a·[2Jb·"
