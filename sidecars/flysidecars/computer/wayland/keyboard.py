"""Types text and presses keys on Wayland with wtype."""

from __future__ import annotations

from flysidecars.computer.input_program import run_input_program
from flysidecars.computer.key_names import MODIFIERS, key_names, readable_text
from flysidecars.computer.wayland.unchecked import WARNING
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed

REMEDY = "install wtype (Debian and Ubuntu: apt install wtype)"
CHUNK_CHARACTERS = 200
"""Characters typed between two checks whether the call was cancelled."""
DELAY_MS = 8
_VARIABLES = ("WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")
_MODIFIERS = {"alt": "alt", "ctrl": "ctrl", "shift": "shift", "super": "logo"}
"""Maps our names of modifiers to those of wtype, which has no meta."""


def type_text(call: Call) -> JsonObject:
    """Type `text` into the window that has the focus. A line end is the Return key."""
    text = readable_text(call.text("text"))
    for start in range(0, len(text), CHUNK_CHARACTERS):
        piece = text[start : start + CHUNK_CHARACTERS]
        # On stdin: every user of the machine can read the arguments of a process.
        _run_wtype("-d", str(DELAY_MS), "-", stdin=piece.encode())
        if start + CHUNK_CHARACTERS < len(text):
            call.progress(start + CHUNK_CHARACTERS, len(text), "characters typed")
    return {"action": "type", "typed": len(text), "warnings": [WARNING]}


def press_keys(call: Call) -> JsonObject:
    """Press one combination such as `ctrl+s`."""
    names = key_names(call.text("keys"))
    *modifiers, last = names
    if last in MODIFIERS or any(name not in _MODIFIERS for name in modifiers):
        raise InvalidInput("keys", "modifiers (ctrl, alt, shift, super) joined by + to one key are needed")
    down = [word for name in modifiers for word in ("-M", _MODIFIERS[name])]
    up = [word for name in reversed(modifiers) for word in ("-m", _MODIFIERS[name])]
    _run_wtype(*down, "-k", last, *up)
    return {"action": "key", "keys": "+".join(names), "warnings": [WARNING]}


def _run_wtype(*arguments: str, stdin: bytes = b"") -> None:
    ran = run_input_program("wtype", REMEDY, arguments, stdin, _VARIABLES)
    if not ran.ok:
        raise ToolFailed("wtype-failed", "wtype failed", exitCode=ran.code, stderr=ran.stderr_text())
