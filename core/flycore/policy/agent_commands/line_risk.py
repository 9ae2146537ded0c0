"""The risk of a command line that does more than read, or that is not understood: by the words in it.

A person is asked in each case. This decides only how: with one key, or with the letter of a high risk.
"""

from __future__ import annotations

import posixpath

from flycore.policy.agent_commands.options import Objection
from flycore.policy.agent_commands.plan import unknown_command
from flycore.policy.agent_commands.shell_words import NotUnderstood, SimpleCommand, Word, read_command_line
from flycore.policy.agent_commands.table import Effect, command_table

_OPAQUE = frozenset("$`\\(){}\r\n")
"""With one of these, the words of the line are not what runs."""
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./~")
_HARMLESS = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")


def objection_to_unread(text: str, problem: NotUnderstood) -> Objection:
    """Return the objection to a line that could not be read, with the worst effect that its words point
    to."""
    why = f"the command line is not understood: {problem}"
    if not all(" " <= character <= "~" for character in text) or _OPAQUE & set(text):
        return Objection(why, Effect.RUNS)
    words = "".join(one if one in _WORD else " " for one in text).split()
    found = [Objection(why, Effect.WRITES)]
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        following = tuple(Word(one) for one in words[at + 1 : at + 2])
        if name in command_table().effects or name in command_table().subcommands:
            problem_of = unknown_command(SimpleCommand((Word(name), *following)))
            found.append(Objection(f"{why}; {problem_of.why}", problem_of.effect))
    return max(found, key=lambda one: one.effect.risk.rank)


def path_outside(text: str, cwd: str, root: str) -> str:
    """Return a word of the line that names something outside the folder `root`; empty where there is none.
    Links are not followed."""
    try:
        commands = read_command_line(text)
    except NotUnderstood:
        words = "".join(one if one in _WORD else " " for one in text).split()
    else:
        words = [word.text for command in commands for word in command.words]
    for word in words:
        value = word.partition("=")[2] if word.startswith("-") else word
        if value.startswith("~"):
            return value
        if value in _HARMLESS or not (value.startswith("/") or ".." in value.split("/")):
            continue
        path = posixpath.normpath(posixpath.join(cwd, value))
        if path != root and not path.startswith(root.rstrip("/") + "/"):
            return value
    return ""
