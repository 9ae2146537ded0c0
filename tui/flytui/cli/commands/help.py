"""`flytui help TOPIC`: the help of a command, or a page about something that no single command explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from flycore.model.call import EXIT_BY_CODE, EXIT_BY_STATUS
from flycore.model.diagnostics import nearest
from flytui.cli.command_group import COMMANDS
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_error
from flytui.console.key_table import SECTIONS
from flytui.text.filter_query import VALUES
from flytui.text.labels import STATE_MEANINGS

EXIT_UNKNOWN = 3


@click.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC]")
@common
def help(invocation: Invocation, words: tuple[str, ...]) -> int:  # noqa: A001 - the name of the command
    """Explain a command, or keys, filter, states or exit-codes.

    TOPIC is a command, such as `call` or `policy explain`, or one of these words. Without it: all commands.
    """
    if invocation.as_json:
        raise click.UsageError("help is text for people: leave out --json")
    root = click.get_current_context().find_root()
    if len(words) == 1 and words[0] in TOPICS:
        click.echo("\n".join(TOPICS[words[0]]()))
        return 0
    command, context, path = root.command, root, list[str]()
    for word in words:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            return _unknown(" ".join(words))
        path.append(word)
        command, context = found, click.Context(found, info_name=word, parent=context)
    with context.scope(cleanup=False):
        click.echo(command.get_help(context))
    if not words:
        click.echo(f"\nTopics:\n  {', '.join(TOPICS)}: flytui help TOPIC")
    return 0


def _unknown(topic: str) -> int:
    near = nearest(topic, (*COMMANDS, *TOPICS))
    others = f"Topics are {', '.join(TOPICS)}, and every command."
    hint = f"Did you mean {' or '.join(near)}?" if near else others
    print_error(f"there is no help about {topic}. {hint}")
    return EXIT_UNKNOWN


def _keys() -> Iterator[str]:
    for part in SECTIONS:
        yield f"{part.title}:"
        yield from (f"  {entry.keys:<16}  {entry.words}" for entry in part.entries)
        yield ""
    yield "keys in config.jsonc sets other ones; flytui config show lists those in use."


def _filter() -> Iterator[str]:
    yield "In the catalog, and for flytui catalog --filter; a row has to match every term:"
    yield "  WORD              a word of name, description, reason or remedy"
    yield "  KEY:VALUE[,VALUE] a value that begins so; a comma means or"
    yield f"  keys              {', '.join(VALUES)}"
    yield "  !TERM             everything that the term does not match"
    yield ""
    yield "In Activity and Audit:"
    yield "  WORD              a word of the call or the line"
    yield "  caller:WORD       a word of who asked"
    yield "  tool:WORD         a part of the tool's name"
    yield "  today, yesterday  the day, in your time zone"
    yield "  !TERM             everything that the term does not match"


def _states() -> Iterator[str]:
    yield from (f"{word:<15} {meaning}" for word, _, meaning in STATE_MEANINGS)


def _exit_codes() -> Iterator[str]:
    yield "flytui call, and every command that makes calls:"
    meanings: dict[int, list[str]] = {}
    for name, code in [*EXIT_BY_STATUS.items(), *EXIT_BY_CODE.items()]:
        meanings.setdefault(code, []).append(str(name))
    yield from (f"  {code:<4} {', '.join(names)}" for code, names in sorted(meanings.items()))
    yield ""
    yield "every command:"
    yield "  0    done"
    yield "  2    the command line cannot be understood"
    yield "  5    a file or a setting of flytui has to be corrected first"
    yield "  7    the kernel went away before it answered"


TOPICS: dict[str, Callable[[], Iterator[str]]] = {
    "keys": _keys,
    "filter": _filter,
    "states": _states,
    "exit-codes": _exit_codes,
}
"""The pages that no command has, by their word."""
