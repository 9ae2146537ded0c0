"""Typing text and pressing keys in a target window."""

from __future__ import annotations

import re

from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.x11.keymap import SpareKeys
from flysidecars.x11.target import Target
from flysidecars.x11.xdotool import act

CHUNK = 20
"""Characters typed between two looks at the focus."""
MAX_TEXT = 20_000
DELAY_MS = 8
PROGRESS_EVERY = 200

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
"""Names that people use, in lower case, to those of xdotool."""

MODIFIERS = frozenset({"alt", "ctrl", "meta", "shift", "super"})


def type_text(call: Call, target: Target) -> JsonObject:
    """Type `text`, as it is, into the target; a line end is the Return key.

    The text goes to xdotool on stdin. Between chunks the focus is looked at again; where it has
    moved, `focus-lost` says how many characters were typed.
    """
    text = readable_text(call.text("text"))
    typed = 0
    with SpareKeys(target.display) as keys:
        for chunk in chunks(text, keys):
            try:
                _type_chunk(target, keys, chunk)
            except ToolFailed as failure:
                failure.fields |= {"typed": typed, "total": len(text)}
                raise
            if typed // PROGRESS_EVERY != (typed + len(chunk)) // PROGRESS_EVERY:
                call.progress(typed + len(chunk), len(text), "characters typed")
            typed += len(chunk)
    return {"action": "type", "typed": typed, "window": target.window.brief()}


def _type_chunk(target: Target, keys: SpareKeys, chunk: str) -> None:
    keys.prepare("" if chunk == "\n" else chunk)
    target.require_focus()
    if chunk == "\n":
        act("key", "--clearmodifiers", "Return")
    else:
        act("type", "--clearmodifiers", "--delay", str(DELAY_MS), "--file", "-", stdin=chunk.encode())
        keys.used(chunk)


def press_keys(call: Call, target: Target) -> JsonObject:
    """Press one combination such as `ctrl+s`."""
    combination = key_combination(target, call.text("keys"))
    target.require_focus()
    act("key", "--clearmodifiers", combination)
    return {"action": "key", "keys": combination, "window": target.window.brief()}


def readable_text(text: str) -> str:
    """The text with line ends as `\\n`. Raises `InvalidInput` for control characters, which are keys
    and not text, and for lone surrogates."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text or len(text) > MAX_TEXT:
        raise InvalidInput("text", f"1 to {MAX_TEXT} characters are needed")
    for character in text:
        number = ord(character)
        if (number < 32 and character not in "\n\t") or 127 <= number < 160 or 0xD800 <= number < 0xE000:
            raise InvalidInput("text", f"U+{number:04X} is no text; press keys with the action key")
    return text


def chunks(text: str, keys: SpareKeys) -> list[str]:
    """The text in pieces: at most 20 characters, no more unusual ones than there are spare keys, a
    line end alone."""
    unusual = set(keys.missing(text))
    limit = max(1, min(CHUNK, keys.count))
    pieces: list[str] = []
    current = ""
    for character in text:
        needed = len(unusual.intersection(current + character))
        if character == "\n" or len(current) == CHUNK or needed > limit:
            pieces.append(current)
            current = ""
        if character == "\n":
            pieces.append(character)
        else:
            current += character
    return [piece for piece in (*pieces, current) if piece]


def key_combination(target: Target, keys: str) -> str:
    """A combination as xdotool reads it. Every name has to be a modifier or a key that X knows:
    xdotool itself would press what is left of a combination without the name it does not know."""
    if len(keys) > 100 or not _KEYS.fullmatch(keys):
        raise InvalidInput("keys", "keys joined by + are needed, such as ctrl+s or Return")
    names = [ALIASES.get(name.lower(), name) for name in keys.split("+")]
    for name in names:
        if name not in MODIFIERS and not target.display.library.XStringToKeysym(name.encode()):
            raise InvalidInput("keys", f"{name} is no key that X knows")
    return "+".join(names)
