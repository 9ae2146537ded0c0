"""Checks of single settings: each gives the value in its own type, or says what it must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flycore.model.enums import Level, Risk
from flycore.model.json import Json, JsonObject

Choice = TypeVar("Choice", Risk, Level)


class SettingError(Exception):
    """The value is not one of those the setting takes; the text says which these are."""


def integer(low: int, high: int) -> Callable[[Json], int]:
    """A whole number from `low` to `high`."""

    def check(value: Json) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise SettingError(f"must be a whole number from {low} to {high}")
        return value

    return check


def one_of(kind: type[Choice]) -> Callable[[Json], Choice]:
    """A member of `kind`, by its value."""

    def check(value: Json) -> Choice:
        for member in kind:
            if value == member.value:
                return member
        raise SettingError(f"must be one of {', '.join(kind)}")

    return check


def boolean(value: Json) -> bool:
    """True or false."""

    if not isinstance(value, bool):
        raise SettingError("must be true or false")
    return value


def text(value: Json) -> str:
    """A string."""

    if not isinstance(value, str):
        raise SettingError("must be a string")
    return value


def json_object(value: Json) -> JsonObject:
    """An object, whatever it holds."""

    if not isinstance(value, dict):
        raise SettingError("must be an object")
    return value


def argument_list(value: Json) -> tuple[str, ...]:
    """A program and its arguments; a string alone is the program."""

    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise SettingError("must be a program's name, or a list of it and its arguments")
    return tuple(str(word) for word in words)
