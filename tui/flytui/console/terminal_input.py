"""The bytes that a terminal sends, as messages for the application. No input ends the reader.

Textual's parser raises on some sequences, types the characters of a sequence that it does not know as keys,
and believes every report. So this module finds out where each sequence ends, after ECMA-48, and gives Textual
only whole sequences with sane values. A sequence that is unknown, cut, or has values that no terminal sends
is counted and dropped as a whole; none of its characters becomes a key.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from time import monotonic

import msgspec
from textual import constants, events, messages
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._keyboard_protocol import FUNCTIONAL_KEYS
from textual._xterm_parser import XTermParser
from textual.message import Message

from flytui.console.terminal_graphics import MAX_ANSWER, GraphicsQuestion

ESC = "\x1b"
STRING_END = "\x07"
PASTE_START, PASTE_END = "\x1b[200~", "\x1b[201~"
FOCUS_IN, FOCUS_OUT = "\x1b[I", "\x1b[O"
ANSWER = "\x1b[0n"
"""The answer of a terminal to the question `ESC [ 5 n`: it has read everything before the question."""
MAX_SIDE = 10_000
"""The most columns or rows of a report that is believed."""
MAX_CELLS = 1_000_000
"""The most cells of a terminal that is drawn: more of them take hundreds of megabytes."""
MAX_SEQUENCE = 64
"""The most characters of a sequence; a longer one is read to its end and dropped."""
MAX_PASTE = 1_000_000
"""The most characters of one paste; the rest of it is dropped."""
SEQUENCE_S = 0.5
"""Seconds after which a sequence of three or more characters without its last one is dropped."""
PASTE_S = 2.0
"""Seconds without input after which a paste without its end is taken as it is."""
SYNCHRONIZED_OUTPUT = 2026
_STRINGS = frozenset("PX]^_")
"""The characters that begin, after ESC, a string of DCS, SOS, OSC, PM or APC."""
_MODE = re.compile(r"\x1b\[\?(\d{1,5});([0-4])\$y")
_MOUSE = re.compile(r"\x1b\[<(\d{1,3});(\d{1,5});(\d{1,5})[Mm]")
_KITTY = re.compile(
    r"\x1b\[(?P<code>\d{1,7})(?::\d{0,7}){0,2}"
    r"(?:;(?P<modifiers>\d{0,3})(?::(?P<event>\d?))?(?:;(?P<text>\d{0,7}(?::\d{1,7}){0,15}))?)?"
    r"(?P<end>[u~ABCDEFHPQRS])"
)
_RELEASED = "3"
"""The event type of a key that was let go."""


class InputCounts(msgspec.Struct):
    """What was dropped since the console started."""

    faults: int = 0
    """Sequences on which Textual's parser raised."""
    dropped: int = 0
    """Sequences that are unknown, cut, too long, not asked for, or without sense."""


class InputParser:
    """Turns the bytes of a terminal into messages. It never raises and never keeps more than one paste."""

    def __init__(self, counts: InputCounts | None = None, clock: Callable[[], float] = monotonic) -> None:
        self.counts = counts or InputCounts()
        self._answers = 0
        self._asked: set[int] = set()
        self.graphics = GraphicsQuestion(clock)
        """The question how the terminal draws pictures, and its answers."""
        self._clock = clock
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._meaning = XTermParser()
        self._sequence = ""
        self._in_string = False
        self._content = ""
        """What the present string holds, as long as it may be an answer."""
        self._paste: list[str] | None = None
        self._cut = False
        """Whether the last paste was taken without its end, so that the rest of it may still come."""
        self._at = 0.0
        """When the present sequence began or went on, or when the present paste went on."""

    def expect_mode(self, mode: int) -> None:
        """Believe the next report about that mode, because it is being asked for now."""
        self._asked.add(mode)

    def take_answers(self) -> int:
        """How often the terminal has answered since the last call that it read everything."""
        answers, self._answers = self._answers, 0
        return answers

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that the bytes complete."""
        if self._cut and data:
            # What comes may be the rest of the paste. As a paste it begins the quiet time before an approval.
            self._cut = False
            yield events.Paste("")
        for character in self._decoder.decode(data):
            if self._paste is not None:
                yield from self._pasted(character)
            elif self._sequence:
                yield from self._extended(character)
            elif character == ESC:
                self._begin()
            else:
                yield from self._keys(character)

    def tick(self) -> Iterator[Message]:
        """The messages of what is complete because nothing followed it for a while."""
        waited = self._clock() - self._at
        if self._paste is not None:
            if waited >= PASTE_S:
                self._paste.append(self._sequence)
                self._sequence, self._cut = "", True
                yield self._pasted_text()
        elif self._sequence and waited >= (
            constants.ESCAPE_DELAY if len(self._sequence) <= 2 and not self._in_string else SEQUENCE_S
        ):
            yield from self._abandoned()

    def _begin(self) -> None:
        self._sequence, self._in_string, self._at = ESC, False, self._clock()
        self._content = ""

    def _take(self) -> str:
        """The present sequence, which is over."""
        sequence, self._sequence, self._in_string = self._sequence, "", False
        return sequence

    def _abandoned(self) -> Iterator[Message]:
        """The keys of a sequence that does not go on: Escape, or a letter with Alt."""
        sequence, was_string = self._take(), self._in_string
        if sequence == ESC:
            yield events.Key("escape", ESC)
        elif len(sequence) == 2 and not was_string:
            yield from self._keys(sequence[1], alt=True)
        else:
            self.counts.dropped += 1

    def _extended(self, character: str) -> Iterator[Message]:
        if self._in_string:
            yield from self._string(character)
            return
        if character == ESC:
            yield from self._abandoned()
            self._begin()
            return
        if len(self._sequence) > 1 and not " " <= character <= "~" and not self._mouse_bytes:
            # No sequence has such a character: this one was cut, and the character is a key of its own.
            self._take()
            self.counts.dropped += 1
            yield from self._keys(character)
            return
        self._sequence += character if len(self._sequence) <= MAX_SEQUENCE else ""
        if len(self._sequence) <= 2:
            self._at = self._clock()
        if self._sequence[1] in _STRINGS:
            # The letter with Alt is told from a string by the pause after it.
            self._in_string = len(self._sequence) > 2
            if self._in_string:
                yield from self._string(character)
        elif self._whole(character):
            yield from self._meant(self._take())

    def _string(self, character: str) -> Iterator[Message]:
        """Read on in a string until its end. Its content is dropped, unless it answers a question."""
        if character == STRING_END or (self._sequence.endswith(ESC) and character == "\\"):
            is_apc = self._take()[1] == "_"
            if not (is_apc and self.graphics.take_string(self._content)):
                self.counts.dropped += 1
        elif self._sequence.endswith(ESC):
            # Any other character after ESC begins a new sequence, and the string is over.
            self._take()
            self.counts.dropped += 1
            self._begin()
            yield from self._extended(character)
        elif character == ESC:
            self._sequence = self._sequence[:3] + ESC
        elif len(self._content) <= MAX_ANSWER:
            self._content += character

    @property
    def _mouse_bytes(self) -> bool:
        """Whether the next characters are the three of an old mouse report."""
        return self._sequence.startswith("\x1b[M")

    def _whole(self, character: str) -> bool:
        """Whether the present sequence ends with this character."""
        sequence = self._sequence
        if sequence[1] not in "[O":
            return True
        if sequence in ANSI_SEQUENCES_KEYS:
            return True
        if len(sequence) == 2:
            return False
        if sequence[1] == "O":
            return not character.isdecimal()
        if self._mouse_bytes:
            return len(sequence) >= 6
        if sequence.startswith("\x1b[["):
            return len(sequence) >= 4
        return "@" <= character <= "~"

    def _meant(self, sequence: str) -> Iterator[Message]:
        """The messages of a whole sequence."""
        if sequence[1] not in "[O":
            yield from (
                self._keys(sequence) if sequence in ANSI_SEQUENCES_KEYS else self._keys(sequence[1], alt=True)
            )
        elif sequence == PASTE_START:
            self._paste, self._at = [], self._clock()
        elif sequence in (FOCUS_IN, FOCUS_OUT):
            yield events.AppFocus() if sequence == FOCUS_IN else events.AppBlur()
        elif sequence == ANSWER:
            self._answers += 1
        elif mode := _MODE.fullmatch(sequence):
            yield from self._mode(int(mode[1]), int(mode[2]))
        elif mouse := _MOUSE.fullmatch(sequence):
            yield from self._mouse(sequence, int(mouse[2]), int(mouse[3]))
        elif sequence in ANSI_SEQUENCES_KEYS:
            yield from self._keys(sequence)
        elif kitty := _KITTY.fullmatch(sequence):
            yield from self._kitty(kitty)
        elif not self.graphics.take_sequence(sequence):
            self.counts.dropped += 1

    def _mode(self, mode: int, value: int) -> Iterator[Message]:
        if mode not in self._asked:
            self.counts.dropped += 1
            return
        self._asked.discard(mode)
        if mode == SYNCHRONIZED_OUTPUT and value > 0:
            yield messages.TerminalSupportsSynchronizedOutput()

    def _mouse(self, sequence: str, column: int, row: int) -> Iterator[Message]:
        message = None
        if 1 <= column <= MAX_SIDE and 1 <= row <= MAX_SIDE:
            try:
                message = self._meaning.parse_mouse_code(sequence)
            except Exception:  # noqa: BLE001 - whatever Textual raises on a report must not end the reader
                self.counts.faults += 1
                return
        if message is None:
            self.counts.dropped += 1
        else:
            yield message

    def _kitty(self, found: re.Match[str]) -> Iterator[Message]:
        """A key in the form of the kitty protocol, with what Textual does not know taken out."""
        modifiers, text = found["modifiers"] or "", found["text"] or ""
        codes = [found["code"], *text.split(":")] if text else [found["code"]]
        sane = all(_is_character(int(code or "0")) for code in codes)
        # Before any other end than `u` the number is not that of a character, but of a key on a list, and
        # such a key types no text.
        listed = not text and f"{int(found['code'])}{found['end']}" in FUNCTIONAL_KEYS
        sane = sane and (found["end"] == "u" or listed)
        if not sane or (modifiers and not 1 <= int(modifiers) <= 256):
            self.counts.dropped += 1
        elif (found["event"] or "") != _RELEASED:
            yield from self._keys(f"\x1b[{found['code']};{modifiers};{text}{found['end']}")

    def _keys(self, sequence: str, *, alt: bool = False) -> Iterator[Message]:
        """The keys that Textual knows the sequence as."""
        if len(sequence) == 1 and "\x80" <= sequence <= "\x9f":
            self.counts.dropped += 1
            return
        try:
            keys = list(self._meaning._sequence_to_key_events(sequence, alt=alt))
        except Exception:  # noqa: BLE001 - whatever Textual raises on a sequence must not end the reader
            self.counts.faults += 1
            return
        yield from (key for key in keys if key.key != "<ignore>")

    def _pasted(self, character: str) -> Iterator[Message]:
        """Read on in a paste. Only its end is a sequence there."""
        self._at = self._clock()
        tail = self._sequence + character
        if tail == PASTE_END:
            self._sequence = ""
            yield self._pasted_text()
        elif PASTE_END.startswith(tail):
            self._sequence = tail
        else:
            # The beginning of an end that is none belongs to the text, but another end may begin here.
            text, self._sequence = (self._sequence, ESC) if character == ESC else (tail, "")
            if self._paste is not None and len(self._paste) < MAX_PASTE:
                self._paste.extend(text)

    def _pasted_text(self) -> Message:
        text = "".join(self._paste or ())[:MAX_PASTE]
        self._paste = None
        return events.Paste(text.replace("\x00", ""))


def drawable_size(columns: int, rows: int) -> bool:
    """Whether a terminal of that size can exist and be drawn."""
    return 1 <= columns <= MAX_SIDE and 1 <= rows <= MAX_SIDE and columns * rows <= MAX_CELLS


def _is_character(code: int) -> bool:
    """Whether the number is that of a character or a key, and not of half a surrogate pair."""
    return 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
