"""Splits a shell command line into the simple commands that a shell would make of it.

Only a small part of the language is read, and only where bash, dash and zsh agree about it: words, quotes,
the patterns `*` and `?`, the connectors `|`, `&&`, `||` and `;`, and three redirections that write nothing.
Everything else raises NotUnderstood. A line that is read means the same to each of these shells.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import msgspec

MOST_CHARACTERS = 4_000
MOST_COMMANDS = 20

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%=")
"""Characters that mean themselves in the middle of a word without quotes."""
_NOT_FIRST = frozenset("=~^")
"""Characters that a shell may expand at the beginning of a word: `=ls` in zsh, `~user`, `^a^b`."""
_REVISION = frozenset("~^")
"""Characters of a revision such as `HEAD~2`. With a setting of zsh they are patterns elsewhere: `.env~x` is
`.env` there."""
_HARMLESS_REDIRECTIONS = ("2>/dev/null", "2> /dev/null", "2>&1", ">/dev/null", "> /dev/null")
_CONNECTORS = ("&&", "||", "|", ";")
_MEANINGS = {
    "$": "it expands a variable or a command",
    "`": "it runs a command within the command",
    "\\": "a backslash stands before a character that some shells read differently",
    "(": "it has parentheses, which start a subshell or a pattern",
    ")": "it has parentheses, which start a subshell or a pattern",
    "{": "it has braces, which are expanded",
    "}": "it has braces, which are expanded",
    "<": "it redirects input",
    ">": "it redirects output",
    "&": "it runs something in the background",
    "!": "it has an exclamation mark outside single quotes, which some shells expand",
    "#": "it has a comment",
    "[": "it has a pattern in brackets",
    "]": "it has a pattern in brackets",
    "\n": "it has more than one line",
    "\r": "it has a carriage return",
}


class NotUnderstood(Exception):
    """The line has something that this reader does not know; the message says what."""


class Word(NamedTuple):
    """One word of a command, with its quotes removed."""

    text: str
    glob: bool = False
    """Whether the shell replaces the word by names of files. Then each `*` and `?` is a pattern."""


class SimpleCommand(msgspec.Struct, frozen=True):
    """One command with its arguments."""

    words: tuple[Word, ...]
    connector: str = ""
    """What stands before it: `|`, `&&`, `||` or `;`; empty for the first one."""

    @property
    def name(self) -> str:
        """The command's first word."""
        return self.words[0].text


def read_command_line(text: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands of a line. Raises NotUnderstood."""
    if len(text) > MOST_CHARACTERS:
        raise NotUnderstood(f"it is longer than {MOST_CHARACTERS} characters")
    for character in text:
        if character not in "\n\r" and not " " <= character <= "~":
            # A look-alike of another alphabet, an invisible character, a tab: what a person sees is not what
            # runs, and shells differ in which of them separate words.
            raise NotUnderstood("it has a character other than printable ASCII")
    commands = _Reader(text.strip(" ")).commands()
    if len(commands) > MOST_COMMANDS:
        raise NotUnderstood(f"it has more than {MOST_COMMANDS} commands")
    return commands


class _Reader:
    """Reads a line from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def commands(self) -> tuple[SimpleCommand, ...]:
        """Return all commands of the line."""
        found: list[SimpleCommand] = []
        words: list[Word] = []
        connector = ""
        while True:
            self._skip_blanks()
            if self._redirection():
                continue
            following = self._connector()
            if following or self._at >= len(self._text):
                if not words:
                    raise NotUnderstood("a command is missing")
                found.append(SimpleCommand(tuple(words), connector))
                if not following:
                    return tuple(found)
                words, connector = [], following
                continue
            if self._text[self._at] == "&":
                self._refuse("&")
            words.append(self._word(revisions=bool(words) and words[0].text == "git"))

    def _skip_blanks(self) -> None:
        while self._text.startswith(" ", self._at):
            self._at += 1

    def _redirection(self) -> bool:
        # Only as a word of its own: in `a2>&1` the digit belongs to the word before.
        for known in _HARMLESS_REDIRECTIONS:
            end = self._at + len(known)
            if self._text.startswith(known, self._at) and self._text[end : end + 1] in ("", " ", "|", ";"):
                self._at = end
                return True
        return False

    def _connector(self) -> str:
        for known in _CONNECTORS:
            if self._text.startswith(known, self._at):
                self._at += len(known)
                if self._text.startswith("&", self._at):
                    raise NotUnderstood(_MEANINGS["&"])  # `|&` and `&&&`
                return known
        return ""

    def _word(self, *, revisions: bool) -> Word:
        """Read one word. Each shell ends it at a blank or at an operator."""
        pieces: list[str] = []
        glob = quoted_pattern = False
        start = self._at
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in " |;&":
                break
            if character in "'\"":
                piece = self._single() if character == "'" else self._double()
                quoted_pattern |= any(one in piece for one in "*?")
                pieces.append(piece)
                continue
            if character in "*?":
                glob = True
            elif character == "{" and pieces and pieces[-1] == "@":
                pieces.append(self._reflog())
                continue
            elif character == "\\":
                pieces.append(self._escaped())
                quoted_pattern |= pieces[-1] in "*?"
                continue
            elif character in _NOT_FIRST and self._at == start:
                self._refuse(character)
            elif character in _REVISION:
                # Some shells expand `~` behind these two, as well.
                if not revisions or pieces[-1] in ("=", ":"):
                    self._refuse(character)
            elif character not in _PLAIN:
                self._refuse(character)
            pieces.append(character)
            self._at += 1
        if glob and quoted_pattern:
            raise NotUnderstood("a word has both a pattern and a quoted one")
        return Word("".join(pieces), glob)

    def _refuse(self, character: str) -> NoReturn:
        raise NotUnderstood(_MEANINGS.get(character, f"it has {character}, which some shells expand"))

    def _single(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise NotUnderstood("a quote is not closed")
        piece = self._text[self._at + 1 : end]
        if "\n" in piece or "\r" in piece:
            raise NotUnderstood(_MEANINGS["\n"])
        if piece.endswith("\\"):
            raise NotUnderstood(_MEANINGS["\\"])  # the quote does not end here in every shell
        self._at = end + 1
        return piece

    def _double(self) -> str:
        pieces: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == '"':
                self._at += 1
                return "".join(pieces)
            if character in "$`!\n\r":
                raise NotUnderstood(_MEANINGS[character])
            if character == "\\":
                following = self._text[self._at + 1 : self._at + 2]
                # Between double quotes a backslash is kept, but for these four characters.
                pieces.append(following if following in ('"', "\\", "$", "`") else "\\" + following)
                self._at += 1
                if following in ("", "\n", "\r", "!"):
                    raise NotUnderstood(_MEANINGS["\\"])
            else:
                pieces.append(character)
            self._at += 1
        raise NotUnderstood("a quote is not closed")

    def _escaped(self) -> str:
        following = self._text[self._at + 1 : self._at + 2]
        if not following or following not in "*?.()[]|+ ":
            raise NotUnderstood(_MEANINGS["\\"])
        self._at += 2
        return following

    def _reflog(self) -> str:
        """Read `{1}` or `{upstream}` of a git revision such as `stash@{1}`, which no shell expands."""
        end = self._text.find("}", self._at)
        inside = self._text[self._at + 1 : end] if end > 0 else ""
        # One plain word: with a comma or with two dots it would be a list.
        if not inside or not all(one.isascii() and one.isalnum() for one in inside):
            self._refuse("{")
        self._at = end + 1
        return "{" + inside + "}"
