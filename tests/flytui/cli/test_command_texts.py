"""The kept help and completions are those of the commands themselves."""

from __future__ import annotations

import os
import pty
import runpy
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from flytui.cli import command_texts
from flytui.cli.command_texts import FILE, kept_text
from flytui.cli.root_command import flytui
from kits.command import SHORT

MAKER = Path(__file__).resolve().parents[3] / "docs" / "make_command_texts.py"
COMMANDS = command_texts._commands()
ORDINARY = "import sys\nfrom flytui.cli.root_command import run\nsys.exit(run())\n"


def test_the_file_is_what_the_commands_say_now() -> None:
    """Where this fails: python docs/make_command_texts.py"""
    made = runpy.run_path(str(MAKER))["text_of_file"]()
    assert Path(FILE).read_text(encoding="utf-8") == made


def completed(shell: str, line: str, cursor: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str | None, str]:
    """What the file says, and what click says."""
    environ = {"_FLYTUI_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": cursor}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    kind = get_completion_class(shell)
    assert kind is not None
    return kept_text([], environ), kind(flytui, {}, "flytui", "_FLYTUI_COMPLETE").complete()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_completion_is_that_of_the_library(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = 0
    for path in COMMANDS:
        for incomplete in ("", "c", "e", "zz", "-", "--", "--j", "--json", "-h", "_", "/"):
            words = ["flytui", *path.split()]
            cursor = incomplete if shell == "fish" else str(len(words))
            kept, usual = completed(shell, " ".join([*words, incomplete]), cursor, monkeypatch)
            assert kept in (None, usual), (path, incomplete)
            answered += kept is not None
    assert answered > 5 * len(COMMANDS)


@pytest.mark.parametrize(
    ("line", "cursor"),
    [
        ("flytui call try", "2"), ("flytui --root ", "2"), ("flytui --json ca", "2"), ("flytui 'ca", "1"),
        ("flytui nowhere x", "2"), ("flytui why --root=/", "2"), ("flytui ca", "x"), ("", "0"),
        ("flytui", "0"),
        ("flytui call", "9"), ("flytui  cat", "1"), ("flytui \u00e9", "1"), ("flytui c\\ a", "1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_what_is_unusual_is_left_to_the_library_or_the_same(
    line: str, cursor: str, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"_FLYTUI_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": cursor}
    kept = kept_text([], environ)
    if kept is not None:
        assert completed(shell, line, cursor, monkeypatch)[1] == kept


@pytest.mark.parametrize(
    "environ",
    [
        {"_FLYTUI_COMPLETE": "bash_source"}, {"_FLYTUI_COMPLETE": ""}, {"_FLYTUI_OTHER": "1"},
        {"_FLYTUI_COMPLETE": "powershell_complete"}, {"_FLYTUI_COMPLETE": "bash_complete", "_FLYTUI_X": ""},
    ],
)  # fmt: skip
def test_other_wishes_of_a_shell_are_left_to_the_library(environ: dict[str, str]) -> None:
    assert kept_text(["--help"], {**environ, "COMP_WORDS": "flytui ca", "COMP_CWORD": "1"}) is None


def printed(program: str, words: tuple[str, ...], columns: int) -> str:
    """What the command prints on a terminal so wide; with 0, into a pipe."""
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    argv = [sys.executable, "-c", program, *words]
    if not columns:
        return subprocess.run(argv, env=environ, capture_output=True, text=True, check=True).stdout
    outer, inner = pty.openpty()
    termios.tcsetwinsize(inner, (400, columns))
    with subprocess.Popen(argv, env=environ, stdin=inner, stdout=inner, stderr=inner) as process:
        os.close(inner)
        parts = []
        while part := _read(outer):
            parts.append(part)
        assert process.wait(60) == 0
    os.close(outer)
    return b"".join(parts).decode()


def _read(outer: int) -> bytes:
    try:
        return os.read(outer, 65_536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize("columns", [0, 60, 80, 100, 140])
@pytest.mark.parametrize("words", [("--help",), ("policy", "explain", "-h")])
def test_help_is_that_of_the_library(words: tuple[str, ...], columns: int) -> None:
    assert printed(SHORT, words, columns) == printed(ORDINARY, words, columns)


def test_help_imports_no_library() -> None:
    program = "import sys\nfrom flytui.cli.main import main\nmain()\nprint(*sys.modules, file=sys.stderr)\n"
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", program, "call", "--help"],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("Usage: flytui call")
    heavy = {"click", "msgspec", "asyncio", "flytui.cli.root_command", "dataclasses"}
    assert not heavy & set(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "environ"),
    [(["--help"], {"COLUMNS": "70"}), (["call", "t", "--help"], {}), (["--help", "call"], {}), ([], {})],
)
def test_other_words_are_not_help(words: list[str], environ: dict[str, str]) -> None:
    assert kept_text(words, environ) is None
