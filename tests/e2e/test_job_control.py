"""The console as a job of a shell: stopped by a signal and taken up again with `fg`, in a real terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flysafe.procfs import process_table
from kits.terminals import BIN, READY, Root, Tmux, make_root, needs, until
from kits.waits import pauses

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
SHELLS = {"bash": ("bash", "--norc", "--noprofile", "-i"), "zsh": ("zsh", "-f", "-i")}
LISTED = r"degraded +mock\.echo"
OURS = ("1", "1", False, False)
"""The alternate screen, reports of the mouse, echo, and lines instead of keys, while the console draws."""
GIVEN_BACK = ("0", "0")
"""The first two of them where the console gave the terminal back."""
ANSWERS_WITHIN_S = 5.0
"""How long a shell may take for a command before that counts as dropped."""


@pytest.fixture(params=SHELLS)
def tmux(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tmux]:
    shell = SHELLS[request.param]
    needs("tmux", shell[0])
    root = make_root(tmp_path, only=("mock.echo",))
    root.trust()
    tmux = Tmux(root, 100, 30)
    tmux.open(*shell)
    try:
        tmux.text(f"{BIN / 'flytui'} --root {root.folder}")
        tmux.keys("Enter")
        tmux.sees(LISTED)
        yield tmux
    finally:
        tmux.end()
        root.end()


def supervisor_of(tmux: Tmux) -> int:
    """The process of `flytui`, which leads its group."""
    [child] = [one.pid for one in process_table().values() if one.parent == tmux.pid]
    return child


def modes(tmux: Tmux) -> tuple[object, ...]:
    """The alternate screen, reports of the mouse, echo, and lines instead of keys."""
    alternate, mouse, path = tmux.run(
        "display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{pane_tty}"
    ).split()
    terminal = os.open(path, os.O_RDONLY | os.O_NOCTTY)
    flags = termios.tcgetattr(terminal)[3]
    os.close(terminal)
    return alternate, mouse, bool(flags & termios.ECHO), bool(flags & termios.ICANON)


def in_the_shell(tmux: Tmux) -> bool:
    """Whether the shell has the terminal."""
    stat = Path(f"/proc/{tmux.pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[5]) == tmux.pid


def stop(tmux: Tmux, number: int, *, group: bool) -> None:
    """Stop the console's supervisor, or its whole group, and wait until the shell has taken over."""
    pid = supervisor_of(tmux)
    os.kill(-pid if group else pid, number)
    until("the shell has the terminal", lambda: in_the_shell(tmux))


def use_shell(tmux: Tmux, number: int) -> None:
    """Run a command, whose output is not among what was typed."""
    answer = re.compile(rf"(?m)^back-{40 + number}\b")

    def answered() -> bool:
        # A shell that takes the terminal drops what was typed before its prompt, so it is typed again. The
        # answer of the terminal to a question that the console had just asked may have come to the shell.
        tmux.keys("C-u")
        tmux.text(f"echo back-$((40+{number}))")
        tmux.keys("Enter")
        end = time.monotonic() + ANSWERS_WITHIN_S
        for pause in pauses():
            if answer.search(tmux.screen()):
                return True
            if time.monotonic() > end:
                return False
            time.sleep(pause)
        raise AssertionError("pauses have no end")

    until("the shell's answer", answered)


def console_is_back(tmux: Tmux) -> None:
    """Wait until the console has the terminal again, in its own modes."""
    # A stopped console leaves its picture and some of its modes to the shell, so neither tells them apart.
    until("the console's modes", lambda: not in_the_shell(tmux) and modes(tmux) == OURS)


def test_a_console_that_was_stopped_draws_reads_and_sets_its_modes_again(tmux: Tmux) -> None:
    ways = [(number, group) for number in (signal.SIGSTOP, signal.SIGTSTP) for group in (False, True)]
    for at, (number, group) in enumerate(ways):
        until("the console's modes", lambda: modes(tmux) == OURS)
        stop(tmux, number, group=group)
        if not (group and number == signal.SIGSTOP):  # a console that is stopped can give nothing back
            until("an ordinary screen", lambda: modes(tmux)[:2] == GIVEN_BACK)
        use_shell(tmux, at)
        tmux.text("fg")
        tmux.keys("Enter")
        console_is_back(tmux)
        tmux.sees(LISTED)
        tmux.keys("3")
        tmux.lacks(LISTED)
        tmux.keys("1")
        tmux.sees(LISTED)
    tmux.keys("q")
    until("the modes of the shell", lambda: modes(tmux)[:2] == GIVEN_BACK and in_the_shell(tmux))
    use_shell(tmux, 9)


def test_no_key_that_was_typed_while_the_console_was_stopped_approves(tmux: Tmux) -> None:
    root: Root = tmux.root
    agent = root.start("call", "mock.echo", '{"message": "hello"}', "--json")
    tmux.sees(READY)
    ways = ((signal.SIGSTOP, True), (signal.SIGSTOP, False), (signal.SIGTSTP, True))
    for at, (number, group) in enumerate(ways):
        stop(tmux, number, group=group)
        use_shell(tmux, at)  # it may drop what is typed before its prompt
        tmux.text("fg")
        tmux.keys("Enter", "a", "a")
        console_is_back(tmux)
        tmux.sees(READY)
    assert not [line for line in root.audit() if line["event"] == "APPROVAL_DECIDED"]
    tmux.decide("a")
    out, _ = agent.communicate(timeout=60)
    assert json.loads(out)["status"] == "success"


@pytest.mark.parametrize("tmux", ["bash"], indirect=True)
def test_a_console_that_is_continued_in_the_background_waits_for_its_terminal(tmux: Tmux) -> None:
    stop(tmux, signal.SIGTSTP, group=True)
    tmux.text("bg")
    tmux.keys("Enter")
    use_shell(tmux, 1)
    tmux.text("fg")
    tmux.keys("Enter")
    console_is_back(tmux)
    tmux.sees(LISTED)
    tmux.keys("3")
    tmux.lacks(LISTED)
