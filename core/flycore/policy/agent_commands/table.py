"""The table of the commands that flytui knows: those that only read, with their options, and those that do
more.

It is data, in `commands.json`, and read at first use.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from flycore.model.base import Value
from flycore.model.enums import Risk


class Effect(StrEnum):
    """What a command, or an option, does beyond reading within the project folder."""

    DELETES = "deletes"
    PUSHES = "pushes"
    INSTALLS = "installs"
    NETWORK = "network"
    ESCALATES = "escalates"
    LEAVES = "leaves"
    WRITES = "writes"
    CHANGES = "changes"
    STARTS = "starts"
    RUNS = "runs"
    READS = "reads"
    SECRETS = "secrets"
    WAITS = "waits"

    @property
    def risk(self) -> Risk:
        """The risk of a command with this effect."""
        return Risk.HIGH if self in _HIGH else Risk.MEDIUM


_HIGH = frozenset(
    {
        Effect.DELETES,
        Effect.PUSHES,
        Effect.INSTALLS,
        Effect.NETWORK,
        Effect.ESCALATES,
        Effect.LEAVES,
        Effect.SECRETS,
        # What another program does with its arguments is not read here, so it may be any of these.
        Effect.STARTS,
        Effect.RUNS,
    }
)


class Operands(StrEnum):
    """What the words of a command are that are no options."""

    NONE = "none"
    TEXT = "text"
    """Words that name no file."""
    LIST = "list"
    """Paths of which names and facts are shown, and no content."""
    READ = "read"
    """Paths of files whose content is shown."""
    FILE = "file"
    """The same, and none of them may be a folder: the command would go through it and follow its links."""
    PATTERN_READ = "pattern-read"
    """A pattern, unless an option gives one, then files whose content is shown."""
    REVISION = "revision"
    """Revisions of git, or paths."""
    PATTERN_REVISION = "pattern-revision"
    """A pattern, unless an option gives one, then revisions or paths."""


class OptionOrder(StrEnum):
    """Where a program looks for options."""

    PERMUTED = "permuted"
    """Behind operands, too, as GNU programs do. With POSIXLY_CORRECT in the environment, and on other
    systems, only before the first operand. So both have to be harmless."""
    FIRST = "first"
    """Before the first operand only. What follows it is an operand, whatever it looks like."""
    ANYWHERE = "anywhere"
    """Behind operands, too, whatever the environment says."""


EffectOf = tuple[Effect, str]
"""An effect, and what exactly is done, in words that follow a command's name."""


class CommandEntry(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command that only reads with these options."""

    looked: str
    """What the command does, and what was looked at."""
    short: str = ""
    short_values: str = ""
    short_optional: str = ""
    """Letters of options with a value that is attached, or with none."""
    long: str = ""
    """Names of options without a value, separated by blanks."""
    long_values: str = ""
    long_optional: str = ""
    order: OptionOrder = OptionOrder.PERMUTED
    operands: Operands = Operands.NONE
    operands_with: tuple[str, ...] = ()
    """Options of which one has to be there where there are operands."""
    pattern_options: tuple[str, ...] = ()
    """Options that give the pattern, so that no operand is one."""
    no_pattern: tuple[str, ...] = ()
    """Options with which the command takes no pattern."""
    require: tuple[str, ...] = ()
    """Options that have to be there."""
    most: int | None = None
    """The most operands. A pattern of the shell stands for many."""
    input_below: int = 0
    """The command reads its standard input if it has fewer operands than this. Those whose operands are files
    to read do so without any, and need not say it."""
    no_pipe: bool = False
    """Whether it writes a temporary file for what comes through a pipe."""
    addresses: tuple[str, ...] = ()
    """Options with which addresses of the settings are shown, which may hold a password; `*` where they are
    always shown."""
    number: bool = False
    """Whether `-5` is an option."""
    here: bool = False
    """Whether the command reads its folder where no path is given."""
    tree: tuple[str, ...] = ()
    """Options with which folders are gone through; `*` where they always are."""
    check: str = ""
    """The check of what this table cannot say."""
    refused: dict[str, EffectOf] = msgspec.field(default_factory=dict)
    """Options that are known and left out."""


class FindWords(Value, frozen=True, kw_only=True):
    """The words of `find` that start, write and delete nothing."""

    tests: frozenset[str]
    values: frozenset[str]
    """Those with a value."""
    paths: frozenset[str]
    """Those with a path."""


class CommandTable(Value, frozen=True, kw_only=True):
    """Everything that is known of commands."""

    commands: dict[str, CommandEntry]
    git: dict[str, CommandEntry]
    """Subcommands of git by name; `stash list` is a name of two words."""
    effects: dict[str, EffectOf]
    """Commands that do more than read."""
    subcommands: dict[str, dict[str, EffectOf]]
    """The same for the first word after the command."""
    find: FindWords
    git_settings: frozenset[str]
    """Keys of a repository's settings that start no program and name no file that is read. core.hooksPath
    names a folder, which is looked at."""
    git_named_settings: dict[str, frozenset[str]]
    """The same for keys of sections with a name, such as `[remote "origin"]`."""
    simple_types: frozenset[str]
    """Types of ripgrep with which no file of a secret name is searched."""


@cache
def command_table() -> CommandTable:
    """Return the table."""
    data = Path(__file__).with_name("commands.json").read_bytes()
    return msgspec.json.decode(data, type=CommandTable)
