"""Typing text and pressing keys in a target window."""

from __future__ import annotations

from flysidecars.computer.key_names import MODIFIERS, key_names, readable_text
from flysidecars.computer.x11.keymap import SpareKeys, is_key_name
from flysidecars.computer.x11.target import TargetWindow
from flysidecars.computer.x11.windows import window_brief
from flysidecars.computer.x11.xdotool import run_xdotool
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed

CHUNK = 20
"""Characters typed between two looks at the focus."""
DELAY_MS = 8
PROGRESS_EVERY = 200


def type_text(call: Call, target: TargetWindow) -> JsonObject:
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
    return {"action": "type", "typed": typed, "window": window_brief(target.window)}


def _type_chunk(target: TargetWindow, keys: SpareKeys, chunk: str) -> None:
    keys.prepare("" if chunk == "\n" else chunk)
    target.require_focus()
    if chunk == "\n":
        run_xdotool("key", "--clearmodifiers", "Return")
    else:
        run_xdotool("type", "--clearmodifiers", "--delay", str(DELAY_MS), "--file", "-", stdin=chunk.encode())
        keys.used(chunk)


def press_keys(call: Call, target: TargetWindow) -> JsonObject:
    """Press one combination such as `ctrl+s`."""
    combination = key_combination(target, call.text("keys"))
    target.require_focus()
    run_xdotool("key", "--clearmodifiers", combination)
    return {"action": "key", "keys": combination, "window": window_brief(target.window)}


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


def key_combination(target: TargetWindow, keys: str) -> str:
    """A combination as xdotool reads it. Every name has to be a modifier or a key that X knows:
    xdotool itself would press what is left of a combination without the name it does not know."""
    names = key_names(keys)
    for name in names:
        if name not in MODIFIERS and not is_key_name(target.display, name):
            raise InvalidInput("keys", f"{name} is no key that X knows")
    return "+".join(names)
