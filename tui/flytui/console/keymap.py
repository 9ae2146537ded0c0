"""The keys in force: the table's defaults with the person's own laid over them. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flytui.console.keytable import ENTRIES

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
