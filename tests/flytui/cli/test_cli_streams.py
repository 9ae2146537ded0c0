"""The command line on bad ground: streams that are closed, full or left, odd words, folders that are none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import click
import pytest

from flytui.cli import root_command as front
from flytui.cli.root_command import flytui
from kits.command_line import Desk
from kits.tables import each_row

CALL = ("call", "try.echo", "message=hi")


def paths(command: click.Command = flytui, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and subcommand there is, as words."""
    if above:
        yield above
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from paths(below, (*above, name))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run in this process: the exit code and what was said on standard error."""

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["flytui", *words])
        code = front.run()
        said = capfd.readouterr()
        assert said.out == "" or code != 2
        return code, said.err

    return run


@pytest.mark.parametrize("words", paths(), ids=" ".join)
def test_an_option_there_is_not_is_refused_in_a_sentence(
    run: Callable[..., tuple[int, str]], words: tuple[str, ...]
) -> None:
    code, said = run(*words, "--no-such\x1b[2J")
    assert code == 2
    assert "--no-such" in said
    assert f"Usage: flytui {' '.join(words)}" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("words", [path for path in paths() if len(path) == 2], ids=" ".join)
def test_a_further_word_is_refused_or_taken_as_a_name(
    run: Callable[..., tuple[int, str]], words: tuple[str, ...], desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in desk.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(desk.root)
    code, said = run(*words, "no-such-name\n\x1b]0;x\x07", "\udcff" * 1000)
    assert code in (2, 3)
    assert all(letter.isprintable() or letter == "\n" for letter in said)


ODD = (
    ("why", "\udcff"),
    ("inspect", "\x1b[2J"),
    ("preflight", "a" * 100_000),
    ("call", "\udcff", "x=\udcff"),
)


@pytest.mark.parametrize("words", ODD, ids=lambda words: words[0])
def test_names_nothing_has_are_no_traceback(settled: Desk, words: tuple[str, ...]) -> None:
    done = settled.run(*words)
    assert done.returncode in (2, 3)
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


def shell(desk: Desk, line: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`flytui WORDS` as `"$@"` of a line of shell."""
    return subprocess.run(
        ["sh", "-c", line, "sh", *desk.argv(*words)],
        env=desk.environ,
        cwd=desk.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@each_row(
    ("line", "code"),
    [
        ('"$@" <&-', 0),
        ('"$@" >&-', 0),
        ('"$@" 2>&-', 0),
        ('"$@" <&- >&- 2>&-', 0),
        ('"$@" 2>/dev/full', 0),
        ('"$@" >/dev/full', 1),
        ('"$@" >/dev/full 2>&1', 1),
    ],
)
def test_a_stream_that_is_closed_or_full_changes_nothing_that_was_done(
    settled: Desk, line: str, code: int
) -> None:
    done = shell(settled, line, *CALL)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if "2>" not in line and code:
        assert "standard output cannot be written" in done.stderr


def test_nothing_is_written_into_a_file_that_took_the_place_of_a_stream(trusted: Desk) -> None:
    assert shell(trusted, '"$@" <&- >&- 2>&-', *CALL).returncode == 0
    assert trusted.run("audit", "verify").returncode == 0
    assert trusted.document("activity")["calls"][0]["result"]["status"] == "success"


def test_a_reader_of_progress_that_leaves_ends_no_call(settled: Desk) -> None:
    process = settled.start("call", "try.echo", "message=hi", "delayMs=700", "--json")
    assert process.stderr is not None
    assert process.stdout is not None
    process.stderr.close()
    said = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0
    assert json.loads(said)["status"] == "success"


@pytest.mark.parametrize(
    "words", [("catalog",), ("status",), ("activity",), CALL], ids=lambda words: words[0]
)
def test_folders_that_cannot_be_are_a_sentence(desk: Desk, words: tuple[str, ...]) -> None:
    nowhere = dict.fromkeys(
        ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"), os.devnull
    )
    done = desk.run(*words, **nowhere)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 3, 5)
    if words == CALL:
        assert done.returncode == 5
        assert "Not a directory" in done.stderr


def test_an_old_locale_breaks_nothing(settled: Desk) -> None:
    old = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "1"}
    done = settled.run("catalog", **old)
    assert done.returncode == 0
    assert "● available" in done.stdout
    assert "file.hash" in done.stdout
