"""The help of the command line: groups, whole summaries, and topics."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner, Result

from flytui.cli.command_group import COMMANDS, GROUPS, LazyGroup
from flytui.cli.commands.help import TOPICS
from flytui.cli.root_command import flytui
from kits.tables import each_row


def run(*words: str) -> Result:
    return CliRunner().invoke(flytui, words, standalone_mode=True, catch_exceptions=False)


def test_every_command_is_in_one_group_of_the_help() -> None:
    text = run("--help").output
    at = [text.index(f"\n{title}:\n") for title, _ in GROUPS]
    assert at == sorted(at)
    assert len(COMMANDS) == len(set(COMMANDS))
    for (_, names), start, end in zip(GROUPS, at, [*at[1:], len(text)], strict=True):
        for name in names:
            assert re.search(rf"^  {name} ", text[start:end], re.MULTILINE), name


@each_row("words", [(), *((name,) for name in COMMANDS)])
def test_no_summary_is_cut(words: tuple[str, ...]) -> None:
    context = click.Context(flytui)
    command = flytui
    for word in words:
        assert isinstance(command, LazyGroup)
        found = command.get_command(context, word)
        assert found is not None
        if not isinstance(found, click.Group):
            return
        text = run(word, "--help").output
        assert "..." not in text.partition("Commands:")[2]
        return
    assert "..." not in run("--help").output.partition("Everyday:")[2]


@pytest.mark.parametrize("words", [("call",), ("policy", "explain"), ("audit", "show")])
def test_help_of_a_command_is_what_its_option_prints(words: tuple[str, ...]) -> None:
    assert run("help", *words).output.strip() == run(*words, "--help").output.strip()


def test_help_without_a_topic_names_the_topics() -> None:
    text = run("help").output
    assert "Everyday:" in text
    assert all(topic in text for topic in TOPICS)


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("keys", "ctrl+x"),
        ("filter", "caller:WORD"),
        ("states", "● available"),
        ("exit-codes", "8    pending"),
    ],
)
def test_a_topic_is_a_page(topic: str, words: str) -> None:
    found = run("help", topic)
    assert found.exit_code == 0
    assert words in found.output


@pytest.mark.parametrize(
    ("words", "hint"),
    [(("statez",), "states"), (("zzzz", "qqqq"), "Topics are"), (("call", "more"), "")],
)
def test_what_there_is_no_help_about_is_said(words: tuple[str, ...], hint: str) -> None:
    found = run("help", *words)
    assert "there is no help about" in found.output + found.stderr
    assert hint in found.output + found.stderr
