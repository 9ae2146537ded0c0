"""Progress of a call on standard error: a line of its own on a terminal, few lines in a log."""

from __future__ import annotations

import pytest

from flycore.model.call import Progress
from flycore.model.enums import Phase
from flytui.cli.call_progress import (
    NO_CONSOLE,
    CallState,
    ProgressLine,
    ProgressLog,
    call_state_line,
    cut_to_width,
    progress_text,
)
from flytui.text.wrap import cell_width
from kits.command_line import Desk
from kits.tables import each_row

SLOW = ("call", "try.echo", "message=hi", "delayMs=2500")


class Hand:
    """A clock that is moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def step(phase: Phase, done: float | None = None, message: str = "") -> Progress:
    """A step of a call that has a hundred of them."""
    return Progress(call_id="c", phase=phase, progress=done, total=100, message=message)


def test_a_log_is_told_little_and_what_is_waited_for_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Hand()
    told = ProgressLog(CallState("t", for_console=False, clock=clock), clock)
    told.show(step(Phase.CHECKING))
    told.show(step(Phase.WAITING_APPROVAL))
    for second in range(65):
        clock.now = float(second)
        told.tick()
    told.show(step(Phase.RUNNING))
    for tenth in range(120):
        clock.now = 65 + tenth / 10
        told.show(step(Phase.RUNNING, tenth / 2, "page"))
    told.end()
    assert capsys.readouterr().err.splitlines() == [
        "t: waiting for approval in the console",
        "t: waiting for approval in the console, 30 s",
        "t: waiting for approval in the console, 60 s",
        "t: running",
        "t: 20% page",
        "t: 45% page",
    ]


def test_waiting_for_a_console_is_said_only_where_it_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for for_console in (True, False):
        clock = Hand()
        told = ProgressLog(CallState("t", for_console=for_console, clock=clock), clock)
        told.tick()
        clock.now = 2.0
        told.tick()
        told.tick()
    assert capsys.readouterr().err.splitlines() == [f"t: {NO_CONSOLE}"]


def test_a_line_is_written_anew_and_taken_away(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Hand()
    shown = ProgressLine(CallState("t", for_console=False, clock=clock), lambda: 40, clock)
    shown.show(step(Phase.RUNNING, 1))
    shown.end()
    assert capsys.readouterr().err == ""
    clock.now = 3.0
    shown.show(step(Phase.RUNNING, 50, "seite " * 30))
    clock.now = 3.01
    shown.show(step(Phase.RUNNING, 51))
    shown.end()
    first, drawn, last = capsys.readouterr().err.split("\r\x1b[2K")
    assert (first, last) == ("", "")
    assert drawn.startswith("t: 0:03 ████████░░░░░░░░ 50% seite")
    assert cell_width(drawn) < 40


@pytest.mark.parametrize("text", ["a" * 50, "漢字" * 30, "short", "e\u0301" * 40])
def test_a_line_is_cut_to_its_room(text: str) -> None:
    assert cell_width(cut_to_width(text, 20)) <= 20
    assert cut_to_width("short", 20) == "short"


@each_row("payload", ["\x1b[2J", "\n", "\r", "\u202e", "\x9b31m"])
def test_a_message_from_outside_obeys_nobody(payload: str) -> None:
    stand = CallState(f"t{payload}", for_console=False, clock=Hand())
    stand.update(step(Phase.RUNNING, 1, payload))
    assert payload not in call_state_line(stand)
    assert call_state_line(stand).isprintable()


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (step(Phase.RUNNING, 25, "page"), "25% page"),
        (step(Phase.RUNNING, 900), "100%"),
        (step(Phase.RUNNING), ""),
        (Progress(call_id="c", phase=Phase.RUNNING, progress=1, total=0, message="m"), "m"),
    ],
)
def test_how_far_in_words(progress: Progress, said: str) -> None:
    assert progress_text(progress) == said


def test_a_terminal_shows_a_bar_and_the_output_stays_whole(settled: Desk) -> None:
    with settled.terminal(*SLOW) as shown:
        shown.until("█")
        assert shown.end() == 0
    assert '"message": "hi"' in shown.shown.split("█")[-1]


def test_without_a_terminal_nothing_is_rewritten(settled: Desk) -> None:
    done = settled.run(*SLOW)
    assert done.returncode == 0
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("success: try.echo")
