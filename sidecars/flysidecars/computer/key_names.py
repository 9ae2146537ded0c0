"""Checks the text and the key names that callers send."""

from __future__ import annotations

import re

from flysidecars.sdk import InvalidInput

MAX_TEXT = 20_000
_KEYS = re.compile(r"[A-Za-z0-9_]+(\+[A-Za-z0-9_]+){0,5}")

ALIASES = {
    "alt": "alt",
    "backspace": "BackSpace",
    "cmd": "super",
    "control": "ctrl",
    "ctrl": "ctrl",
    "del": "Delete",
    "delete": "Delete",
    "down": "Down",
    "end": "End",
    "enter": "Return",
    "esc": "Escape",
    "escape": "Escape",
    "home": "Home",
    "insert": "Insert",
    "left": "Left",
    "meta": "meta",
    "pagedown": "Next",
    "pageup": "Prior",
    "return": "Return",
    "right": "Right",
    "shift": "shift",
    "space": "space",
    "super": "super",
    "tab": "Tab",
    "up": "Up",
    "win": "super",
}
"""Maps common key names, in lower case, to those of X11."""

MODIFIERS = frozenset({"alt", "ctrl", "meta", "shift", "super"})


def readable_text(text: str) -> str:
    """The text with `\\n` as line ends. Raises `InvalidInput` for control characters, which are keys and not
    text, and for lone surrogates."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text or len(text) > MAX_TEXT:
        raise InvalidInput("text", f"1 to {MAX_TEXT} characters are needed")
    for character in text:
        number = ord(character)
        if (number < 32 and character not in "\n\t") or 127 <= number < 160 or 0xD800 <= number < 0xE000:
            raise InvalidInput("text", f"U+{number:04X} is no text; press keys with the action key")
    return text


def key_names(keys: str) -> list[str]:
    """The X11 names of the keys in a combination such as `ctrl+s`. Raises `InvalidInput`."""
    if len(keys) > 100 or not _KEYS.fullmatch(keys):
        raise InvalidInput("keys", "keys joined by + are needed, such as ctrl+s or Return")
    return [ALIASES.get(name.lower(), name) for name in keys.split("+")]
