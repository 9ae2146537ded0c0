"""Reads the options of one command by its entry in the table. Any other option is refused."""

from __future__ import annotations

import msgspec

from flycore.policy.agent_commands.shell_words import Word
from flycore.policy.agent_commands.table import CommandEntry, Effect


class Objection(Exception):
    """Why a command is not known to only read within the project folder."""

    def __init__(self, why: str, effect: Effect = Effect.CHANGES) -> None:
        self.why, self.effect = why, effect
        super().__init__(why)


class Option(msgspec.Struct, frozen=True):
    """One option as it is written, such as `-n` or `--max-count`, with its value."""

    name: str
    value: str = ""


class Arguments(msgspec.Struct, frozen=True):
    """The options and operands of a command."""

    options: tuple[Option, ...]
    operands: tuple[Word, ...]
    behind: tuple[Word, ...] = ()
    """The operands after `--`; they are in `operands` as well."""

    def has(self, *names: str) -> bool:
        """Return whether one of these options is given."""
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> tuple[str, ...]:
        """Return the values that these options are given."""
        return tuple(option.value for option in self.options if option.name in names)


def read_arguments(label: str, entry: CommandEntry, words: tuple[Word, ...]) -> Arguments:
    """Return the arguments of a command. `label` names it. Raises Objection."""
    return _Reader(label, entry, words).read()


class _Reader:
    def __init__(self, label: str, entry: CommandEntry, words: tuple[Word, ...]) -> None:
        self._label, self._entry, self._words = label, entry, words
        self._options: list[Option] = []
        self._at = 0

    def read(self) -> Arguments:
        # Options are looked for behind operands, too, as GNU programs do. A program that does not do so takes
        # such a word as a path, and a path that begins with a dash is one of the folder.
        operands: list[Word] = []
        while self._at < len(self._words):
            word = self._words[self._at]
            self._at += 1
            if word.text == "--" and not word.glob:
                behind = self._words[self._at :]
                return Arguments(tuple(self._options), (*operands, *behind), behind)
            if word.text.startswith("-") and word.text != "-":
                self._option(word)
            else:
                operands.append(word)
        return Arguments(tuple(self._options), tuple(operands))

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
            self._options.append(Option(name, value if equals else self._next(name)))
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
                self._options.append(Option(name, rest or self._next(name)))
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
