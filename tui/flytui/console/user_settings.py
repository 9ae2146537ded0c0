"""The person's own settings for the console: keys and theme, checked against the key table. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

import msgspec

from flycore.model.approval import LETTERS
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import pointer_join
from flysafe.text import safe_text
from flytui.console.key_table import ENTRIES, SECTIONS, KeyAction

_KEY_LABELS = {
    "escape": "Esc",
    "enter": "Enter",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "tab": "Tab",
    "space": "Space",
    "backspace": "Backspace",
    "delete": "Del",
    "insert": "Ins",
    "a-letter": "a letter",
}
_TEXTUAL_NAMES = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}


def key_label(key: str) -> str:
    """A key as key lines and help show it, such as `Esc`, `/`, `ctrl+x` or `F2`."""
    if key in _KEY_LABELS:
        return _KEY_LABELS[key]
    return key.upper() if len(key) > 1 and key[0] == "f" and key[1:].isdigit() else key


def textual_key(key: str) -> str:
    """The name of a key in Textual, such as `slash` for `/` and `question_mark` for `?`."""
    *with_, last = [key] if len(key) == 1 else key.split("+")
    if len(last) == 1 and not last.isalnum():
        name = unicodedata.name(last, last).lower().replace("-", "_").replace(" ", "_")
        last = _TEXTUAL_NAMES.get(name, name)
    return "+".join((*with_, last))


@cache
def _actions_of(screen: str) -> tuple[KeyAction, ...]:
    """The actions of one screen. A card draws its keys many times a second, and the table is long."""
    return tuple(entry for entry in ENTRIES.values() if entry.id.startswith(f"{screen}."))


class KeyBindings(msgspec.Struct, frozen=True):
    """The keys that are in force. `overrides` are the person's valid keys by action id; every other action
    has its default."""

    overrides: Mapping[str, str] = msgspec.field(default_factory=dict)

    def keys_for(self, id: str) -> tuple[str, ...]:
        """The keys of that action; none for an id that is not in the table."""
        entry = ENTRIES.get(id)
        return () if entry is None else tuple(self.overrides.get(id, entry.keys).split())

    def label(self, id: str) -> str:
        """The first key of that action as it is drawn. Text that is no action id is returned unchanged."""
        keys = self.keys_for(id)
        return key_label(keys[0]) if keys else id

    def meant(self, screen: str, key: str) -> str:
        """The default key that a pressed key stands for, on a screen that handles every key itself. It is
        `""` for a default key whose action has another key now, and the key itself where no action has it."""
        actions = _actions_of(screen)
        for entry in actions:
            if key in self.keys_for(entry.id):
                return entry.default_keys[0]
        return "" if any(key in entry.default_keys for entry in actions) else key

    def label_of_default(self, screen: str, default: str) -> str:
        """The label of the action whose default key on that screen is `default`. Several keys are separated
        by `/`."""
        ids = {entry.keys: entry.id for entry in _actions_of(screen)}
        return "/".join(self.label(ids[part]) if part in ids else part for part in default.split("/"))

    def hints(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The pairs with each action id replaced by the label of its key."""
        return [(self.label(name), words) for name, words in pairs]

    def keymap(self) -> dict[str, str]:
        """The overrides in the form that `App.set_keymap` takes."""
        return {
            name: ",".join(textual_key(key) for key in keys.split()) for name, keys in self.overrides.items()
        }


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
"""Keys that a terminal sends as another key, so that the console cannot tell the two apart."""
PALETTE_KEY = "ctrl+p"
DENY_KEYS = frozenset("drtb")
"""The card's keys that refuse. None of them may become the approve key, because people press them by
habit."""
_TEXT_ACTIONS = frozenset(
    (
        *("app.panic", "app.card", "app.leave", "app.suspend", "app.say-quit"),
        *("form.send", "form.insist", "form.json"),
        *("form.example", "form.add", "form.remove", "form.leave", "edit.submit", "edit.back", "words.back"),
        *("jump.up", "jump.down", "jump.back", "pick.up", "pick.down", "pick.back"),
    )
)
"""Actions whose keys work while the person writes text."""
_TEXT_KEYS = frozenset(("space", "backspace", "delete", "left", "right", "home", "end", "enter", "tab"))
_MODAL_SECTIONS = frozenset(
    ("page", "help", "card", "question", "form", "words", "pick", "jump", "edit", "sources", "starter")
)
"""Screens over the main screen. Of the keys below them, only those of the application work there."""


class RejectedKey(msgspec.Struct, frozen=True):
    """A setting for a key that cannot be used, with the reason."""

    id: str
    why: str
    remedy: str


def check_keys(own: Mapping[str, str]) -> tuple[KeyBindings, tuple[RejectedKey, ...]]:
    """The key bindings, and the settings that were rejected. `own` maps an action id to keys, separated by
    spaces. A rejected setting leaves the default in force."""
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
    """What is wrong with the key whatever its action is; `""` for nothing."""
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
    """Whether a key line can show the character: it is no control, space or combining character."""
    return safe_text(character) == character and unicodedata.category(character)[0] not in "MZ"


def _action_problem(name: str, key: str) -> str:
    """What is wrong with the key for this action; `""` for nothing."""
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
    """The person's last setting whose key another action of the same screen has: its id, the other action's
    id, and the key. None where there is no conflict."""
    for name in reversed(list(keys.overrides)):
        for other in _active_together(name):
            shared = set(keys.keys_for(name)) & set(keys.keys_for(other))
            if shared:
                return name, other, min(shared)
    return None


def _active_together(name: str) -> Iterator[str]:
    """The ids of all other actions whose keys work where this action's keys do."""
    mine = name.partition(".")[0]
    for part in SECTIONS:
        if _sections_overlap(mine, part.screen):
            yield from (entry.id for entry in part.entries if entry.id and entry.id != name)


def _sections_overlap(one: str, other: str) -> bool:
    """Whether the keys of two sections can be in force at the same time."""
    pair = {one, other}
    if len(pair) == 1 or "app" in pair or pair in ({"page", "call"}, {"page", "help"}):
        return True
    return pair.isdisjoint(_MODAL_SECTIONS | {"call"}) and not pair.isdisjoint({"main", "list"})


class ConsoleSettings(msgspec.Struct, frozen=True):
    """The person's keys, theme, colours and pictures, and the problems found in them."""

    keys: KeyBindings = msgspec.field(default_factory=KeyBindings)
    theme: str = ""
    colours: str = ""
    """How many colours are drawn, a value of `ColourDepth`; `""` for what the terminal promises."""
    pictures: str = ""
    """How pictures are drawn, a value of `GraphicsProtocol`; `""` for what the terminal can do."""
    problems: tuple[Diagnostic, ...] = ()


def check_settings(
    keys: Mapping[str, str], theme: str, themes: frozenset[str], places: Mapping[str, Position]
) -> ConsoleSettings:
    """Check the settings for keys and theme. `themes` are the names of all themes, and `places` gives the
    position of each setting by JSON pointer. A setting that cannot be used is reported and has its
    default."""
    good, refused = check_keys(keys)
    problems = []
    for item in refused:
        pointer = pointer_join("/keys", item.id)
        problems.append(_problem(pointer, f"keys.{item.id} {item.why}", item.remedy, places))
    if theme and theme not in themes:
        remedy = f"take one of {', '.join(sorted(themes))}"
        problems.append(_problem("/theme", f"theme {theme} is not known", remedy, places))
        theme = ""
    return ConsoleSettings(keys=good, theme=theme, problems=tuple(problems))


def _problem(pointer: str, message: str, remedy: str, places: Mapping[str, Position]) -> Diagnostic:
    return Diagnostic(
        severity=Severity.WARNING,
        rule="settings",
        message=message,
        remedy=remedy,
        pointer=pointer,
        position=places.get(pointer),
    )
