"""Reads the options of one command by its entry in the table. Any other option is refused."""

from __future__ import annotations

import msgspec

from flycore.policy.agent_commands.shell_words import Word
from flycore.policy.agent_commands.table import CommandEntry, Effect, OptionOrder


class Objection(Exception):
    """Why a command is not known to only read within the project folder."""

    def __init__(self, why: str, effect: Effect = Effect.CHANGES) -> None:
        self.why, self.effect = why, effect
        super().__init__(why)


class Option(msgspec.Struct, frozen=True):
    """One option as it is written, such as `-n` or `--max-count`, with its value."""

    name: str
    value: str = ""
    separate: bool = False
    """Whether the value is a word of its own."""


class Arguments(msgspec.Struct, frozen=True):
    """The options and operands of a command."""

    options: tuple[Option, ...]
    operands: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        """Return whether one of these options is given."""
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> tuple[str, ...]:
        """Return the values that these options are given."""
        return tuple(option.value for option in self.options if option.name in names)


def read_arguments(label: str, entry: CommandEntry, words: tuple[Word, ...]) -> tuple[Arguments, ...]:
    """Return each way in which the program may read its arguments. There are two where it depends on the
    environment whether options are looked for behind operands. `label` names the command.

    Raises Objection.
    """
    readings = []
    if entry.order is not OptionOrder.FIRST:
        readings.append(_Reader(label, entry, words, first=False).read())
    if entry.order is not OptionOrder.ANYWHERE:
        readings.append(_Reader(label, entry, words, first=True).read())
    return tuple(dict.fromkeys(readings))


class _Reader:
    """Reads the words from left to right. With `first`, options end at the first operand."""

    def __init__(self, label: str, entry: CommandEntry, words: tuple[Word, ...], *, first: bool) -> None:
        self._label, self._entry, self._words, self._first = label, entry, words, first
        self._options: list[Option] = []
        self._at = 0

    def read(self) -> Arguments:
        operands: list[Word] = []
        while self._at < len(self._words):
            word = self._words[self._at]
            self._at += 1
            if word.text == "--" and not word.glob:
                break
            if word.text.startswith("-") and word.text != "-":
                self._option(word)
                continue
            operands.append(word)
            if self._first:
                break
        return Arguments(tuple(self._options), (*operands, *self._words[self._at :]))

    def _option(self, word: Word) -> None:
        text = word.text
        attached = text.startswith("--") and "=" in text
        if word.glob and not attached:
            raise Objection("an option has a pattern that the shell replaces by names of files")
        if text.startswith("--"):
            self._long(text)
        elif self._entry.number and text[1:].isdigit():
            self._options.append(Option(text))
        else:
            self._short(text)

    def _long(self, text: str) -> None:
        name, equals, value = text.partition("=")
        bare, entry = name[2:], self._entry
        if bare in entry.long_values.split():
            self._options.append(
                Option(name, value) if equals else Option(name, self._next(name), separate=True)
            )
        elif bare in entry.long_optional.split() or (not equals and bare in entry.long.split()):
            self._options.append(Option(name, value))
        else:
            # A unique beginning of a name counts for many programs (`--outp`), and is not in the table.
            raise self._refusal(name)

    def _short(self, text: str) -> None:
        for place, letter in enumerate(text[1:], start=1):
            name, rest = f"-{letter}", text[place + 1 :]
            if letter in self._entry.short:
                self._options.append(Option(name))
            elif letter in self._entry.short_values:
                self._options.append(
                    Option(name, rest) if rest else Option(name, self._next(name), separate=True)
                )
                return
            elif letter in self._entry.short_optional:
                self._options.append(Option(name, rest))
                return
            else:
                raise self._refusal(name)

    def _next(self, name: str) -> str:
        if self._at >= len(self._words):
            raise Objection(f"`{name}` has no value")
        word = self._words[self._at]
        self._at += 1
        # Where no file fits, some shells leave the word out, and the next one would become the value.
        if word.glob:
            raise Objection(f"the value of `{name}` is a pattern that the shell replaces by names of files")
        return word.text

    def _refusal(self, name: str) -> Objection:
        known = self._entry.refused.get(name)
        if known is not None:
            return Objection(f"`{self._label} {name}` {known[1]}", known[0])
        return Objection(f"`{self._label} {name}` is not an option that flytui knows to only read")
