"""Types text and presses keys in a target window of X11."""

from __future__ import annotations

from flysidecars.computer.key_names import MODIFIERS, key_names, readable_text
from flysidecars.computer.x11.keymap import SpareKeys, is_key_name
from flysidecars.computer.x11.target import TargetWindow
from flysidecars.computer.x11.windows import window_brief
from flysidecars.computer.x11.xdotool import run_xdotool
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed

CHUNK_CHARACTERS = 20
"""Characters typed between two checks of the focus."""
DELAY_MS = 8
PROGRESS_EVERY = 200
"""Characters between two progress events."""


def type_text(call: Call, target: TargetWindow) -> JsonObject:
    """Type `text` into the target window. A line end is the Return key.

    Raises `InvalidInput`, and `ToolFailed`: `untypable`, `xdotool-failed`, and `focus-lost` if the focus
    moved between two chunks; `typed` is the number of characters typed.
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
        keys.mark_used(chunk)


def press_keys(call: Call, target: TargetWindow) -> JsonObject:
    """Press one combination such as `ctrl+s`."""
    combination = key_combination(target, call.text("keys"))
    target.require_focus()
    run_xdotool("key", "--clearmodifiers", combination)
    return {"action": "key", "keys": combination, "window": window_brief(target.window)}


def chunks(text: str, keys: SpareKeys) -> list[str]:
    """The text in parts of at most `CHUNK_CHARACTERS`, with no more unusual characters than there are spare
    keys. Each line end is a part of its own."""
    unusual = set(keys.missing(text))
    limit = max(1, min(CHUNK_CHARACTERS, keys.count))
    pieces: list[str] = []
    current = ""
    for character in text:
        needed = len(unusual.intersection(current + character))
        if character == "\n" or len(current) == CHUNK_CHARACTERS or needed > limit:
            pieces.append(current)
            current = ""
        if character == "\n":
            pieces.append(character)
        else:
            current += character
    return [piece for piece in (*pieces, current) if piece]


def key_combination(target: TargetWindow, keys: str) -> str:
    """The combination in the form for xdotool. Raises `InvalidInput` for a name that is neither a modifier
    nor a key of X."""
    names = key_names(keys)
    # xdotool leaves an unknown name out and presses the rest of the combination.
    for name in names:
        if name not in MODIFIERS and not is_key_name(target.display, name):
            raise InvalidInput("keys", f"{name} is no key that X knows")
    return "+".join(names)
