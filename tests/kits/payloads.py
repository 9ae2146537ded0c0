"""The texts of suite S5, and the check that no terminal obeys one of their bytes."""

from __future__ import annotations

import os
import re
import unicodedata

MARK = "S5!"
"""Stands right behind each payload, so that a payload that came through can be told from flytui's own
sequences."""

_ORDERS = {
    "title": "\x1b]0;owned\x07",
    "title-2": "\x1b]2;owned\x1b\\",
    "link": "\x1b]8;;http://evil.example\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJmCg==\x07",
    "notify-9": "\x1b]9;owned\x07",
    "notify-777": "\x1b]777;notify;owned;owned\x07",
    "erase": "\x1b[2J\x1b[3J",
    "move": "\x1b[1;1H\x1b[9A\x1b[9D",
    "colours": "\x1b[5;31m",
    "alternate": "\x1b[?1049l",
    "mouse": "\x1b[?1003l\x1b[?1006l",
    "paste": "\x1b[?2004l\x1b[201~a\r",
    "answers": "\x1b[c\x1b[6n\x05\x1bZ",
    "dcs": "\x1bPq#0;2;0;0;0~-\x1b\\",
    "apc": "\x1b_Gf=24;AAAA\x1b\\",
    "pm": "\x1b^owned\x1b\\",
    "sos": "\x1bXowned\x1b\\",
    "reset": "\x1bc\x1b#8",
    "c1-csi": "\x9b2J\x9b?1049l",
    "c1-osc": "\x9d0;owned\x9c\x9d52;c;cm0=\x9c",
    "c1-rest": "\x90q\x9c\x9fG\x9c\x9e\x9c\x98\x9c\x84\x85\x8d",
    "nul": "a\0b",
    "bell-erase": "\x07\x08\x08\x7f",
    "return": "approve\rdeny   ",
    "lines": "one\n\tapproved a once\x0b\x0c",
    "keys": "\raaaaaa\x1ba",
}
_SIGHTS = {
    "embedding": "\u202a\u202b\u202c\u202d\u202e",
    "isolates": "\u2066\u2067\u2068\u2069\u061c",
    "zero-width": "\u200b\u200c\u200d\u200e\u200f\u2060",
    "separators": "\u2028\u2029",
    "fillers": "\ufeff\u00ad\u180e\u3164\u2800\u115f\uffa0",
    "variations": "a\ufe0fb\ufe00c\U000e0100",
    "tags": "\U000e0001\U000e0041\U000e007f",
    "marks": "Z" + "\u0301\u0302\u0303\u0304" * 5,
}
_LOOKS = {
    "run": "ls" + " " * 500 + "rm -rf x",
    "host": "p\u0430ypal.com",
    "markup": "[/nope] [bold]b[/] [@click=app.quit]x[/] [link=file:etc]y[/] $var {0} %s :smile:",
    "token": "⟦U+0041⟧",
}
EACH = {name: text + MARK for name, text in {**_ORDERS, **_SIGHTS, **_LOOKS}.items()}
TOGETHER = {"all": "".join(EACH.values())}
FULL = os.environ.get("FLYTUI_SUITES") == "full"
PAYLOADS = EACH if FULL else TOGETHER

_INVISIBLE = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f") | {*map(chr, range(0xFE00, 0xFE10))}
_NEVER = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_STRANGE = re.compile("[^ -~]+")
_LONGEST_NAME = 200
MOST_TOLD = 5

CONSOLE = re.compile(
    r"\x1b\[[0-9;:]*m"  # colours
    r"|\x1b\[[0-9]+;[0-9]+H"  # the cursor
    r"|\x1b\[\?(?:7|25|1000|1002|1003|1004|1006|1015|1016|1049|2004|2026|2048)[hl]"  # modes
    r"|\x1b\[5n"  # whether it has read all of it
    r"|\x1b\[\?2026\$p|\x1b\[>[0-9]+u|\x1b\[<u|\x1b\[\?1u"  # what the terminal can do
    r"|\x1b_Gi=[0-9]+,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\|\x1b\[\?1;1;0S|\x1b\[c"  # which pictures it draws
    r"|\x1b\]22;[a-z]+(?:\x07|\x1b\\)"  # the pointer's shape
    r"|\x1b\[2[23];2t"  # the title, kept and given back
    r"|\x1b\](?:0|2);[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\)"
    r"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"  # what a person copied
    r"|\x07|\r\n"
)
"""All that the console itself sends."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m|\r\n")
"""All that a command sends to a terminal."""
PLAIN = re.compile(r"\n")
"""All that a command sends to a pipe."""


def file_names(text: str) -> list[str]:
    """The payload as file names: without slash and NUL, and not too long."""
    names, name = [], ""
    for letter in text.replace("/", "_").replace("\0", "_"):
        if len((name + letter).encode()) > _LONGEST_NAME:
            names.append(name)
            name = ""
        name += letter
    return [*names, name]


def faults(raw: bytes, own: re.Pattern[str]) -> list[str]:
    """The parts of a terminal's output that should not be there: unchanged payloads, and every character
    outside of flytui's `own` sequences that a terminal obeys or that is invisible."""
    text = raw.decode("utf-8", "surrogateescape")
    found = [f"payload {name}" for name, payload in EACH.items() if _is_order(name) and payload in text]
    left = own.sub("", text)
    for strange in _STRANGE.finditer(left):
        if reason := _hidden(strange[0]):
            found.append(f"{reason} in {left[max(0, strange.start() - 60) : strange.end() + 20]!r}")
        if len(found) > MOST_TOLD:
            break
    return found


def _hidden(strange: str) -> str:
    """The first character of a run beyond ASCII that a terminal obeys or that is invisible; empty if there is
    none."""
    marks = 0
    for character in strange:
        kind = unicodedata.category(character)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if kind in _NEVER or character in _INVISIBLE or marks > 2:
            return f"U+{ord(character):04X}"
    return ""


def _is_order(name: str) -> bool:
    """Whether the payload must not appear unchanged. A text that only looks strange may appear in part."""
    return name in _ORDERS or name in ("embedding", "isolates", "zero-width", "separators", "tags")


def word(text: str) -> str:
    """The payload as a word of a command line or a variable, which contain no NUL."""
    return text.replace("\0", "")
