"""What a terminal sends, from plain keys to nonsense: suite S16 of the parser."""

from __future__ import annotations

import itertools
import os
import random
import string
from collections.abc import Sequence

import pytest
from textual import events, messages
from textual.message import Message

from flytui.console.terminal_graphics import ANSWER_S, Graphics, GraphicsProtocol
from flytui.console.terminal_input import (
    MAX_PASTE,
    PASTE_S,
    SEQUENCE_S,
    InputParser,
    drawable_size,
)
from kits.console import HandClock
from kits.tables import each_row

FULL = os.environ.get("FLYTUI_SUITES") == "full"
SENSELESS = ("", "-1", "0", "99999999999", "1:2", "97:65:97", ":", "9" * 400)


def parsed(data: bytes, *, late: float = 5.0) -> tuple[list[Message], InputParser]:
    """The messages of these bytes, after which nothing comes for a while."""
    clock = HandClock()
    parser = InputParser(clock=clock)
    found = list(parser.feed(data))
    clock.advance(late)
    return [*found, *parser.tick()], parser


def keys(data: bytes) -> list[str]:
    """The keys of these bytes."""
    return [message.key for message in parsed(data)[0] if isinstance(message, events.Key)]


def written(found: Sequence[Message]) -> str:
    """The text that a field receives from these messages."""
    return "".join(
        (message.character or "") if isinstance(message, events.Key) else message.text
        for message in found
        if isinstance(message, events.Key | events.Paste)
    )


@each_row(
    ("data", "expected"),
    [
        (b"ab", ["a", "b"]),
        (b"\r\t\x7f", ["enter", "tab", "backspace"]),
        (b"\x03", ["ctrl+c"]),
        (b"\x1b", ["escape"]),
        (b"\x1b\x1b", ["escape", "escape"]),
        (b"\x1bx", ["alt+x"]),
        (b"\x1b]", ["right_square_bracket"]),
        (b"\x1b[A\x1bOB", ["up", "down"]),
        (b"\x1b[1;5C\x1b[3~\x1b[15~", ["ctrl+right", "delete", "f5"]),
        (b"\x1b[[A\x1b[3$", ["f1", "shift+delete"]),
        (b"\x1b[1;2R", ["f15"]),
        (b"\x1b[97u\x1b[97;;97u\x1b[13u", ["a", "a", "enter"]),
        (b"\x1b[97;5u\x1b[27u", ["ctrl+a", "escape"]),
        (b"\x1b[97;1:1u\x1b[97;1:2u", ["a", "a"]),
        (b"\x1b[97:65;2;65u", ["A"]),
    ],
)
def test_keys_of_real_terminals_are_read(data: bytes, expected: list[str]) -> None:
    found = keys(data)
    # Names of shifted function keys differ between terminals; what matters is that it is one key.
    assert found == expected or (len(found) == len(expected) == 1 and data == b"\x1b[1;2R")


def test_a_byte_that_is_no_utf_8_does_not_end_the_reader() -> None:
    for byte in range(0x80, 0x100):
        found, _ = parsed(bytes([byte]) + b"xy")
        assert written(found) == "\ufffdxy", hex(byte)


def test_a_pasted_latin_1_file_arrives_with_its_letters_replaced() -> None:
    text = "Grüße aus Österreich, naïve café\n"
    found, _ = parsed(b"\x1b[200~" + text.encode("latin-1") + b"\x1b[201~ok")
    assert written(found) == "".join(c if ord(c) < 128 else "\ufffd" for c in text) + "ok"
    assert [type(message) for message in found] == [events.Paste, events.Key, events.Key]


def test_what_a_key_did_when_it_was_let_go_is_no_key() -> None:
    found, parser = parsed(b"\x1b[97;1:3u\x1b[1;1:3A")
    assert (found, parser.counts.dropped, parser.counts.faults) == ([], 0, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b[99999999u",
        b"\x1b[55296u",
        b"\x1b[0u",
        b"\x1b[97;0u",
        b"\x1b[97;;55296u",
        b"\x1b[48;99999;99999;1;1t",
        b"\x1b[48;40;120;800;1200t",
        b"\x1b[?2026;1$y",
        b"\x1b[?2048;2$y",
        b"\x1b[24;80R",
        b"\x1b]11;rgb:aaaa/aaaa/aaaa\x1b\\",
        b"\x1b]11;rgb:aaaa/aaaa/aaaa\x07",
        b"\x1bPaaaa\x1b\\",
        b"\x1b_aaaa\x1b\\",
        b"\x1b[?aaaa",
        b"\x1b[<0;99999;1M",
        b"\x1b[<0;-1;1M",
        b"\x1b[<0;0;0M",
        b"\x1b[M aa",
        b"\x1b[M\xff\xff\xff",
        b"\x1b[32;10;10M",
        pytest.param(b"\x1b[" + b"1;" * 5_000 + b"a", id="long"),
        b"\x1b[201~",
    ],
)
def test_a_report_that_nobody_asked_for_is_dropped_whole(data: bytes) -> None:
    found, parser = parsed(data)
    assert [message for message in found if not isinstance(message, events.Key)] == []
    assert "a" not in keys(data.replace(b"[?aaaa", b"[?a").replace(b"[M aa", b"[M  a"))
    assert parser.counts.dropped + parser.counts.faults > 0


def test_a_report_is_believed_once_after_it_was_asked_for() -> None:
    parser = InputParser()
    parser.expect_mode(2026)
    first, second = list(parser.feed(b"\x1b[?2026;2$y")), list(parser.feed(b"\x1b[?2026;2$y"))
    assert [type(message) for message in first] == [messages.TerminalSupportsSynchronizedOutput]
    assert second == []


def test_an_answer_is_counted_and_is_no_key() -> None:
    found, parser = parsed(b"\x1b[0n\x1b[0n")
    assert (found, parser.take_answers(), parser.take_answers()) == ([], 2, 0)


def test_a_mouse_report_is_a_mouse_event() -> None:
    found, _ = parsed(b"\x1b[<0;10;5M\x1b[<0;10;5m\x1b[<64;10;5M")
    assert [type(message) for message in found] == [
        events.MouseDown,
        events.MouseUp,
        events.MouseScrollUp,
    ]


def test_what_a_cut_sequence_leaves_behind_is_no_key_and_the_next_key_counts() -> None:
    clock = HandClock()
    parser = InputParser(clock=clock)
    assert list(parser.feed(b"\x1b[97;")) == []
    clock.advance(SEQUENCE_S)
    assert list(parser.tick()) == []
    assert [message.key for message in parser.feed(b"x") if isinstance(message, events.Key)] == ["x"]
    assert parser.counts.dropped == 1


def test_a_paste_without_its_end_is_taken_and_the_rest_of_it_counts_as_pasted() -> None:
    clock = HandClock()
    parser = InputParser(clock=clock)
    assert list(parser.feed(b"\x1b[200~left \x1b[A")) == []
    clock.advance(PASTE_S)
    [paste] = parser.tick()
    assert isinstance(paste, events.Paste)
    assert paste.text == "left \x1b[A"
    first, key = parser.feed(b"a")
    assert (type(first), type(key)) == (events.Paste, events.Key)


def test_a_paste_is_bounded_and_its_content_is_never_a_sequence() -> None:
    inner = b"\x1b[48;10000;10000;1;1t\x1b[200~\x1b[20\x1b\x1b[A"
    [paste], _ = parsed(b"\x1b[200~" + inner + b"x" * (MAX_PASTE + 10) + b"\x1b[201~")
    assert isinstance(paste, events.Paste)
    assert paste.text.startswith(inner.decode())
    assert len(paste.text) <= MAX_PASTE


@each_row(
    ("size", "drawable"),
    [
        ((1, 1), True),
        ((120, 40), True),
        ((10_000, 100), True),
        ((0, 24), False),
        ((10_001, 1), False),
        ((10_000, 10_000), False),
        ((65_535, 65_535), False),
    ],
)
def test_a_size_that_no_terminal_has_is_not_drawn(size: tuple[int, int], drawable: bool) -> None:
    assert drawable_size(*size) is drawable


def families() -> list[bytes]:
    """Every sequence of the families with each parameter missing, empty, negative, huge or with colons."""
    made: list[str] = []
    counts, sizes = (4, SENSELESS) if FULL else (3, SENSELESS[:4])
    for count, final in itertools.product(range(counts), "u~ABCDEFHPQRSMmtncyXZIO"):
        for lead in ("", "<", "?", ">", "=") if FULL or count < 2 else ("", "<"):
            dollar = "$" if final == "y" else ""
            made += [
                f"\x1b[{lead}{';'.join(values)}{dollar}{final}"
                for values in itertools.product(SENSELESS, repeat=count)
            ]
    made += [f"\x1b[48;{';'.join(values)}t" for values in itertools.product(sizes, repeat=4)]
    made += [f"\x1b[20{n}~{text}" for n in "01" for text in ("", "\x1b[201", "\x1b")]
    made += [
        f"\x1b{opening}{value};{value}{closing}"
        for opening, value, closing in itertools.product("P]^_X", SENSELESS, ("\x07", "\x1b\\", "", "\x1b[A"))
    ]
    return [sequence.encode() for sequence in made]


@pytest.mark.suite
def test_no_family_of_sequences_ends_the_reader_or_types_a_letter() -> None:
    clock = HandClock()
    parser = InputParser(clock=clock)
    for sequence in families():
        found = list(parser.feed(sequence))
        clock.advance(PASTE_S)
        found += parser.tick()
        typed = [
            message.character for message in found if isinstance(message, events.Key) and message.is_printable
        ]
        # A kitty report may type the letter that it names; nothing else may.
        assert not typed or sequence.endswith(b"u"), sequence
        found = list(parser.feed(b"\x1b[201~\x1b\\q"))
        assert written(found)[-1:] == "q", sequence


@pytest.mark.suite
def test_no_random_bytes_end_the_reader() -> None:
    chance = random.Random(16)
    pieces = [b"\x1b[", b"\x1b", b"\x1b]", b"\x1b[200~", b"\x1b[201~", b"\x1b[M", b"\x1b[<", b"\x9b", b"\xff"]
    pieces += [text.encode() for text in (*string.digits, *";:?$", *"uAMmtnRy~", "\x07", "\x1b\\")]
    clock = HandClock()
    parser = InputParser(clock=clock)
    for _ in range(200_000 if FULL else 5_000):
        if chance.random() < 0.5:
            data = chance.randbytes(chance.randrange(1, 24))
        else:
            data = b"".join(chance.choice(pieces) for _ in range(chance.randrange(1, 12)))
        for _message in parser.feed(data):
            pass
        if chance.random() < 0.2:
            clock.advance(PASTE_S)
            for _message in parser.tick():
                pass
    clock.advance(PASTE_S)
    list(parser.tick())
    clock.advance(PASTE_S)
    assert written(list(parser.feed(b"\x1b[201~ok")))[-2:] == "ok"
    assert parser.counts.dropped > 0


KITTY_OK, ATTRIBUTES, SIXEL_ATTRIBUTES = b"\x1b_Gi=31;OK\x1b\\", b"\x1b[?62;22c", b"\x1b[?63;1;2;4;6c"


@each_row(
    ("answer", "graphics"),
    [
        (KITTY_OK + ATTRIBUTES, Graphics(GraphicsProtocol.KITTY)),
        (KITTY_OK + b"\x1b[?1;0;16S" + SIXEL_ATTRIBUTES, Graphics(GraphicsProtocol.KITTY, 16)),
        (b"\x1b[?1;0;1024S" + SIXEL_ATTRIBUTES, Graphics(GraphicsProtocol.SIXEL, 256)),
        (SIXEL_ATTRIBUTES, Graphics(GraphicsProtocol.SIXEL)),
        (ATTRIBUTES, Graphics()),
        (b"\x1b[?62;c", Graphics()),
        (KITTY_OK + b"\x1b[?62;c", Graphics(GraphicsProtocol.KITTY)),
        (b"\x1b_Gi=31;ENODATA:no\x1b\\" + ATTRIBUTES, Graphics()),
        (b"\x1b_Gi=32;OK\x1b\\" + ATTRIBUTES, Graphics()),
        (b"\x1b]Gi=31;OK\x07" + ATTRIBUTES, Graphics()),
        (b"\x1b[?4c", Graphics()),
    ],
)
def test_an_answer_about_pictures_is_taken_once_and_types_nothing(answer: bytes, graphics: Graphics) -> None:
    for size in (len(answer), 1):
        parser = InputParser(clock=HandClock())
        parser.graphics.ask()
        parts = [answer[at : at + size] for at in range(0, len(answer), size)]
        assert [message for part in parts for message in parser.feed(part)] == []
        assert parser.graphics.take_result() == graphics
        assert parser.graphics.take_result() is None
        # The same once more was not asked for.
        before = parser.counts.dropped
        assert list(parser.feed(answer)) == []
        assert parser.counts.dropped > before
        assert parser.graphics.take_result() is None


def test_an_answer_about_pictures_that_nobody_asked_for_or_that_is_late_is_dropped() -> None:
    clock = HandClock()
    parser = InputParser(clock=clock)
    assert list(parser.feed(KITTY_OK + SIXEL_ATTRIBUTES)) == []
    parser.graphics.ask()
    assert list(parser.feed(KITTY_OK)) == []
    clock.advance(ANSWER_S)
    assert list(parser.feed(b"\x1b[?1;0;16S" + SIXEL_ATTRIBUTES)) == []
    assert parser.graphics.take_result() is None
    assert parser.counts.dropped == 4


def test_keys_among_the_answers_stay_keys() -> None:
    parser = InputParser(clock=HandClock())
    parser.graphics.ask()
    found = list(parser.feed(b"a" + KITTY_OK + b"b\x1b[A" + ATTRIBUTES + b"\r"))
    assert [message.key for message in found if isinstance(message, events.Key)] == ["a", "b", "up", "enter"]
    assert parser.graphics.take_result() == Graphics(GraphicsProtocol.KITTY)


@each_row(
    "senseless",
    [
        b"\x1b_G" + b"i" * 5_000 + b"\x1b\\",
        b"\x1b_Gi=31;OK\x1b[A",
        b"\x1b[?" + b"4;" * 100 + b"4c",
        b"\x1b[?1;0;999999999S",
        b"\x1b[?1;3;16S",
        b"\x1b[>41;354;0c",
    ],
)
def test_what_is_no_answer_about_pictures_changes_nothing(senseless: bytes) -> None:
    parser = InputParser(clock=HandClock())
    parser.graphics.ask()
    found = [message for message in parser.feed(senseless) if isinstance(message, events.Key)]
    assert [message.key for message in found] in ([], ["up"])
    assert parser.graphics.take_result() is None
    list(parser.feed(SIXEL_ATTRIBUTES))
    assert parser.graphics.take_result() == Graphics(GraphicsProtocol.SIXEL)
