"""Questions to a person that are not about one call, blocked tools, and entries that wait for trust."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import ProgramAuthor, QuestionKind
from flycore.model.json import JsonObject
from flycore.model.repository import TrustedElsewhere

PANIC_QUESTION = "panic"
"""The id of the question whose answer lets calls run again after everything was stopped."""
ABOUT_PROGRAMS = (
    QuestionKind.LOOP,
    QuestionKind.NESTED,
    QuestionKind.POLICY,
    QuestionKind.PACKAGE,
    QuestionKind.SERVER,
)
"""Kinds of questions that a program or a command causes. A console shows them at once."""


class Option(Value, frozen=True, kw_only=True):
    """One of the one to three answers that a person can choose."""

    id: str
    words: str
    recommended: bool = False
    """Whether this option is recommended; exactly one option of a question is."""
    fills: bool = False
    """Whether the answer brings values for the question's form."""


class Question(Value, frozen=True, kw_only=True):
    """A question, with everything that a person needs to decide it."""

    id: str
    kind: QuestionKind
    title: str
    lines: tuple[str, ...]
    options: tuple[Option, ...]
    free_text: bool = False
    """Whether the person may add a text to the answer."""
    form: JsonObject = {}
    """JSON schema of the values that an option with `fills` brings, as an MCP server sent it; its texts are
    the server's."""
    about: str = ""
    """Id of the sidecar, or key of the caller, that the question is about."""
    asked_at: float
    """Unix time, seconds."""


class Block(Value, frozen=True, kw_only=True):
    """A tool that a person has blocked for every caller."""

    tool: str
    since: float
    """Unix time, seconds."""
    reason: str = ""


class TrustFacts(Value, frozen=True, kw_only=True):
    """What an entry would reach, in short: one line of a list."""

    author: ProgramAuthor
    """Of the program and its delegates, the most unusual one."""
    network: str = ""
    """The host that it may reach, `*` for every host; empty for none."""
    writes: tuple[str, ...] = ()
    writes_outside: tuple[str, ...] = ()
    """Those of `writes` outside of the project's folder, and dot-files in it."""
    desktop: bool = False
    secrets: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    all_tools: bool = False
    """Whether it offers whatever its program names once it runs."""
    overrides: bool = False
    """Whether it takes over tools of the person's own registry, or rules of the person allow its tools."""
    made_by_agent: bool = False


class TrustItem(Value, frozen=True, kw_only=True):
    """An entry that waits for trust, with lines that say what it would run."""

    sidecar: str
    digest: str
    """Digest over the entry's canonical value. Trust is given to exactly this value."""
    changed: bool
    """Whether an earlier value of the same entry is trusted; that value stays in force meanwhile."""
    tools: bool = False
    """Whether the entry is trusted, and tools of its MCP server wait. They do not run meanwhile."""
    lines: tuple[str, ...]
    """Command, delegates, tools, permissions, environment, and where the entry is declared."""
    difference: tuple[str, ...] = ()
    """For a changed entry: the difference from the last trusted value, as lines of
    `flycore.model.json_diff`."""
    facts: TrustFacts | None = None
    """None where the entry is not in the registry any more."""
    elsewhere: TrustedElsewhere | None = None
    """Trust in an entry of this id in another worktree or clone of the same repository. It permits nothing
    here. Only viewers see it."""
