"""The keys in force: the table's defaults with the person's own laid over them. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from flycore.model.approval import LETTERS
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import pointer_join
from flysafe.text import safe_text
from flytui.console.key_table import ENTRIES, SECTIONS

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
    """A key as key lines and help write it: `Esc`, `/`, `ctrl+x`, `F2`."""
    if key in _KEY_LABELS:
        return _KEY_LABELS[key]
    return key.upper() if len(key) > 1 and key[0] == "f" and key[1:].isdigit() else key


def textual_key(key: str) -> str:
    """A key as Textual names it: `slash` for `/`, `question_mark` for `?`."""
    *with_, last = [key] if len(key) == 1 else key.split("+")
    if len(last) == 1 and not last.isalnum():
        name = unicodedata.name(last, last).lower().replace("-", "_").replace(" ", "_")
        last = _TEXTUAL_NAMES.get(name, name)
    return "+".join((*with_, last))


@dataclass(frozen=True, slots=True)
class KeyBindings:
    """The person's keys by id, all of them found good; every other action has its default."""

    overrides: Mapping[str, str] = field(default_factory=dict)

    def keys_for(self, id: str) -> tuple[str, ...]:
        """The keys of that action; none for an id that is not in the table."""
        entry = ENTRIES.get(id)
        return () if entry is None else tuple(self.overrides.get(id, entry.keys).split())

    def label(self, id: str) -> str:
        """The first of them as it is drawn; what is no id is drawn as it stands."""
        keys = self.keys_for(id)
        return key_label(keys[0]) if keys else id

    def meant(self, screen: str, key: str) -> str:
        """What a pressed key is on a screen that takes every key itself: the default key of the action
        whose key it is now, `""` for a default whose action has another key, else the key."""
        actions = [entry for entry in ENTRIES.values() if entry.id.startswith(f"{screen}.")]
        for entry in actions:
            if key in self.keys_for(entry.id):
                return entry.default_keys[0]
        return "" if any(key in entry.default_keys for entry in actions) else key

    def label_of_default(self, screen: str, default: str) -> str:
        """How the key is drawn whose default on that screen is `default`; of several parted by `/`, each."""
        ids = {entry.keys: entry.id for entry in ENTRIES.values() if entry.id.startswith(f"{screen}.")}
        return "/".join(self.label(ids[part]) if part in ids else part for part in default.split("/"))

    def hints(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """`(id, words)` as `(key in force, words)`."""
        return [(self.label(name), words) for name, words in pairs]

    def keymap(self) -> dict[str, str]:
        """What `App.set_keymap` takes."""
        return {
            name: ",".join(textual_key(key) for key in keys.split()) for name, keys in self.overrides.items()
        }


# Whether a person's own keys can be used: what cannot is refused with its reason, and its default holds.
# Pure.


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


# What a person's settings say about the console, checked; what does not count is told with its place.


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The person's keys and theme, and what is wrong with them."""

    keys: KeyBindings = field(default_factory=KeyBindings)
    theme: str = ""
    problems: tuple[Diagnostic, ...] = ()


def check_settings(
    keys: Mapping[str, str], theme: str, themes: frozenset[str], places: Mapping[str, Position]
) -> ConsoleSettings:
    """`themes` are the names there are; `places` the place of each setting by JSON pointer."""
    good, refused = check_keys(keys)
    problems = []
    for item in refused:
        pointer = pointer_join("/keys", item.id)
        problems.append(_problem(pointer, f"keys.{item.id} {item.why}", item.remedy, places))
    if theme and theme not in themes:
        remedy = f"take one of {', '.join(sorted(themes))}"
        problems.append(_problem("/theme", f"theme {theme} is not known", remedy, places))
        theme = ""
    return ConsoleSettings(good, theme, tuple(problems))


def _problem(pointer: str, message: str, remedy: str, places: Mapping[str, Position]) -> Diagnostic:
    return Diagnostic(
        severity=Severity.WARNING,
        rule="settings",
        message=message,
        remedy=remedy,
        pointer=pointer,
        position=places.get(pointer),
    )
