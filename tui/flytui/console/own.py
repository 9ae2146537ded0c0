"""What a person's settings say about the console, checked; what does not count is told with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import pointer_join
from flytui.console.keychecks import check_keys
from flytui.console.keymap import KeyBindings


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
