"""What the reader makes of a line is what real shells make of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from flycore.policy.agent_commands.shell_words import NotUnderstood, read_command_line
from kits.command_rows import command_rows
from kits.tables import each_row

SHELLS = [shell for shell in ("bash", "dash", "zsh", "ksh", "busybox") if shutil.which(shell)]
SEPARATOR = "\x1e\x1f"
PROGRAM = f"""#!/bin/sh
exec 9>>"$OUT"
printf '%s\\037' "${{0##*/}}" "$@" '{SEPARATOR[0]}' >&9
"""
"""Writes its name and words in one call, because the commands of a pipe run side by side."""


def readable() -> list[str]:
    """The lines of the rows that are read, also those of attacks, without patterns."""
    found = []
    for _, text in command_rows():
        try:
            commands = read_command_line(text)
        except NotUnderstood:
            continue
        if not any(word.glob for command in commands for word in command.words):
            found.append(text)
    return found


def spoken(shell: str, line: str, names: list[str], folder: Path) -> list[list[str]]:
    """The words of each command as the shell passes them to a program of that name."""
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    for name in names:
        program = bin_ / name
        program.write_text(PROGRAM)
        program.chmod(0o755)
    out = folder / "out"
    out.write_text("")
    argv = [shell, "sh", "-c", line] if shell == "busybox" else [shell, "-c", line]
    subprocess.run(
        argv, cwd=folder, env={"PATH": str(bin_), "OUT": str(out)}, stdin=subprocess.DEVNULL,
        capture_output=True, check=False, executable=shutil.which(shell), timeout=60,
    )  # fmt: skip
    return [part.split("\x1f")[:-1] for part in out.read_text().split(SEPARATOR) if part]


BUILTINS = {
    "echo",
    "pwd",
    "true",
    "false",
    "type",
    "command",
    "cd",
    "printf",
    "read",
    "alias",
    "unalias",
    "eval",
}
KEYWORDS = {
    "exec",
    "source",
    ".",
    "builtin",
    "if",
    "then",
    "fi",
    "for",
    "while",
    "do",
    "done",
    "time",
    "pushd",
}
KEYWORDS |= {"history", "kill", "test", "which", "function", "coproc", "trap", "export", "set"}
SINGLE = [
    line
    for line in readable()
    if len(read_command_line(line)) == 1
    and read_command_line(line)[0].name not in BUILTINS | KEYWORDS
    and "/" not in read_command_line(line)[0].name
    and "=" not in read_command_line(line)[0].name
]


@pytest.mark.long
@pytest.mark.parametrize("shell", SHELLS)
def test_words_are_those_of_the_shell(shell: str, tmp_path: Path) -> None:
    assert len(SINGLE) > 200
    for line in SINGLE:
        (command,) = read_command_line(line)
        names = [command.name]
        if shell == "busybox" and command.name in ("ls", "cat", "sed"):
            continue  # busybox may run its own, without a program
        got = spoken(shell, line, names, tmp_path)
        assert got == [[word.text for word in command.words]] or (shell == "busybox" and got == []), line


@pytest.mark.parametrize("shell", [one for one in SHELLS if one != "busybox"])
def test_commands_of_a_list_are_those_of_the_shell(shell: str, tmp_path: Path) -> None:
    for line in ("ls a && cat b", "ls a; cat b", "ls 'a;b' | cat \"c|d\"", "ls a 2>/dev/null | cat b 2>&1"):
        commands = read_command_line(line)
        got = spoken(shell, line, ["ls", "cat"], tmp_path)
        assert sorted(got) == sorted([word.text for word in command.words] for command in commands), line


@each_row(
    "line",
    [
        "",
        " ",
        "ls &",
        "ls ;",
        "| ls",
        "ls || ",
        "ls &&& cat",
        "a" * 5_000,
        "ls; " * 30 + "ls",
        "ls '",
        'ls "',
    ],
)
def test_what_no_shell_would_run_is_refused(line: str) -> None:
    with pytest.raises(NotUnderstood):
        read_command_line(line)
