"""Whether a person's own keys can be used: what cannot is refused with its reason, and its default holds.
Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flycore.model.approval import LETTERS
from flysafe.text import safe_text
from flytui.console.keymap import KeyBindings
from flytui.console.keytable import ENTRIES, SECTIONS

NAMED_KEYS = frozenset(
    (
        *("enter", "escape", "tab", "space", "backspace", "delete", "insert", "home", "end"),
        *("pageup", "pagedown", "up", "down", "left", "right"),
        *(f"f{number}" for number in range(1, 13)),
    )
)
TERMINAL_ALIASES = {
    "ctrl+i": "tab",
    "ctrl+m": "enter",
    "ctrl+j": "enter",
    "ctrl+[": "escape",
    "ctrl+h": "backspace",
}
"""What a terminal sends as another key."""
PALETTE_KEY = "ctrl+p"
DENY_KEYS = frozenset("drtb")
"""The card's keys that refuse: none of them may come to approve."""
_TEXT_ACTIONS = frozenset(
    (
        *("app.panic", "app.card", "app.leave", "app.say-quit", "form.send", "form.insist", "form.json"),
        *("form.example", "form.add", "form.remove", "form.leave", "edit.submit", "edit.back", "words.back"),
        *("jump.up", "jump.down", "jump.back", "pick.up", "pick.down", "pick.back"),
    )
)
"""Keys that work while text is written."""
_TEXT_KEYS = frozenset(("space", "backspace", "delete", "left", "right", "home", "end", "enter", "tab"))
_MODAL_SECTIONS = frozenset(("page", "card", "question", "form", "words", "pick", "jump", "edit", "sources"))
"""Screens that stand over the main screen: of its keys only the application's hold there."""


@dataclass(frozen=True, slots=True)
class RejectedKey:
    """A key that does not count, and why."""

    id: str
    why: str
    remedy: str


def check_keys(own: Mapping[str, str]) -> tuple[KeyBindings, tuple[RejectedKey, ...]]:
    """The keys in force, and what was refused; `own` as in the settings: id to keys parted by spaces."""
    refused: list[RejectedKey] = []
    good: dict[str, str] = {}
    for name, keys in own.items():
        why, remedy = _problem_of(name, keys)
        if why:
            refused.append(RejectedKey(name, why, remedy))
        else:
            good[name] = keys
    while clash := _conflict(KeyBindings(good)):
        mine, other, key = clash
        del good[mine]
        remedy = "take another key, or give that one another as well"
        refused.append(RejectedKey(mine, f"{key} is the key of {other} there", remedy))
    return KeyBindings(good), tuple(refused)


def _problem_of(name: str, keys: str) -> tuple[str, str]:
    if name not in ENTRIES:
        return "is no action of the console", "`flytui config show` and the console's help name them"
    if not keys.split():
        return "names no key", "write a key such as f5, ctrl+r or R"
    for key in keys.split():
        why = _key_problem(key) or _action_problem(name, key)
        if why:
            return f"cannot be {key}: {why}", "take another key"
    if name == "card.approve" and len(keys.split()) > 1:
        return "cannot have several keys", "name one key that approves"
    return "", ""


def _key_problem(key: str) -> str:
    """What is wrong with it wherever it stands."""
    *modifiers, last = [key] if len(key) == 1 else key.split("+")
    if key in TERMINAL_ALIASES:
        return f"a terminal sends it as {TERMINAL_ALIASES[key]}"
    if key == PALETTE_KEY:
        return "it opens the command palette"
    known = last in NAMED_KEYS or (len(last) == 1 and _is_seen(last))
    if not known or not set(modifiers) <= {"ctrl", "shift", "alt"}:
        return "it is the name of no key"
    if "shift" in modifiers and len(last) == 1:
        return "write the character itself, such as R"
    return ""


def _is_seen(character: str) -> bool:
    """Whether a key line can show it: it is no control, no blank, and stands on its own."""
    return safe_text(character) == character and unicodedata.category(character)[0] not in "MZ"


def _action_problem(name: str, key: str) -> str:
    """What is wrong with it for this action."""
    if name in _TEXT_ACTIONS and (len(key) == 1 or key in _TEXT_KEYS):
        return "it works while text is written, where that key writes"
    if not name.startswith("card."):
        return ""
    if key.casefold() in LETTERS:
        return "high risk is confirmed by that letter"
    if len(key) != 1 and key not in {f"f{number}" for number in range(1, 13)}:
        return "on a card it is a character or a function key, never Enter, Space or Esc"
    if key == "?":
        return "it opens the help"
    if name == "card.approve" and key in DENY_KEYS:
        return "by default that key refuses"
    return ""


def _conflict(keys: KeyBindings) -> tuple[str, str, str] | None:
    """The last of the person's keys that another action of the same screen has, with that action."""
    for name in reversed(list(keys.overrides)):
        for other in _active_together(name):
            shared = set(keys.keys_for(name)) & set(keys.keys_for(other))
            if shared:
                return name, other, min(shared)
    return None


def _active_together(name: str) -> Iterator[str]:
    """Every other action whose keys count where this one's do."""
    mine = name.partition(".")[0]
    for part in SECTIONS:
        if _sections_overlap(mine, part.screen):
            yield from (entry.id for entry in part.entries if entry.id and entry.id != name)


def _sections_overlap(one: str, other: str) -> bool:
    """Whether two sections are ever in force at once."""
    pair = {one, other}
    if len(pair) == 1 or "app" in pair or pair == {"page", "call"}:
        return True
    return pair.isdisjoint(_MODAL_SECTIONS | {"call"}) and not pair.isdisjoint({"main", "list"})
