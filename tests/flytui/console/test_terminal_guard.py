"""Programs that could press keys on the console's terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flycore.model.diagnostics import CheckState
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.doctor.terminal_checks import TerminalFacts, terminal_checks
from flytui.console.terminal_guard import KeyRisk, find_key_risk, terminal_intruder
from kits.console import HandClock, console, drawn, press, until
from kits.fake_kernel import world
from kits.values import request_of

OPENER = "import os, sys; os.open(sys.argv[1], os.O_RDWR); print('open', flush=True); sys.stdin.read()"
STARTER = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {OPENER!r}, sys.argv[1]], stdin=subprocess.PIPE)
sys.stdin.read()
child.communicate()
"""


@contextmanager
def kernel_with_opener(path: str) -> Iterator[int]:
    """A process with a child that has opened that file; gives the pid of the process."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == b"open\n"
        try:
            yield kernel.pid
        finally:
            assert kernel.stdin is not None
            kernel.stdin.close()


def test_a_program_below_the_kernel_that_has_the_terminal_open_is_found() -> None:
    leader, follower = pty.openpty()
    try:
        with kernel_with_opener(os.ttyname(follower)) as pid:
            assert "has this terminal open" in terminal_intruder(follower, pid)
        with kernel_with_opener(os.devnull) as pid:
            assert terminal_intruder(follower, pid) == ""
    finally:
        os.close(leader)
        os.close(follower)


def test_a_terminal_that_is_gone_has_no_intruder() -> None:
    assert terminal_intruder(-1, os.getpid()) == ""


@pytest.mark.parametrize(("text", "allowed"), [("1\n", True), ("0\n", False), (None, False)])
def test_the_systems_setting_is_read(tmp_path: Path, text: str | None, allowed: bool) -> None:
    setting = tmp_path / "legacy_tiocsti"
    if text is not None:
        setting.write_text(text)
    assert find_key_risk(str(setting)) == KeyRisk(root=os.geteuid() == 0, tiocsti=allowed)


@pytest.mark.parametrize(
    ("risk", "words", "label"),
    [
        (KeyRisk(), "", ""),
        (KeyRisk(root=True), "runs as root:", "root"),
        (KeyRisk(tiocsti=True), "legacy_tiocsti is 1", ""),
        (KeyRisk(root=True, tiocsti=True), "as root, and dev.tty.legacy_tiocsti is 1", "root, keys"),
    ],
)
def test_doctor_and_header_warn_of_keys_that_can_be_faked(risk: KeyRisk, words: str, label: str) -> None:
    found = terminal_checks(TerminalFacts((80, 24), "utf-8", {}, None, key_risk=risk))
    checks = [check for check in found if check.name == "forged keys"]
    assert [check.state for check in checks] == ([CheckState.WARN] if words else [])
    assert all(words in check.message for check in checks)
    assert risk.label.startswith(label)
    assert bool(risk.label) == bool(label)


@pytest.mark.anyio
async def test_no_key_approves_while_a_program_has_the_terminal_open_and_refusing_works() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        asked: list[int] = []

        def find(pid: int) -> str:
            asked.append(pid)
            return "evil (pid 7), a program that flytui started, has this terminal open"

        app.state.shared.key_risk = KeyRisk(root=True, tiocsti=True)
        app.state.shared.find_intruder = find
        place.ask_for(request_of())
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.shown_at)
        assert drawn(app, "#header").splitlines()[0].endswith("· root")
        clock.advance(5)
        await press(pilot, "a")
        clock.advance(1)
        await press(pilot, "k")
        await until(pilot, lambda: "evil (pid 7)" in drawn(app, "#card-keys"))
        assert (place.decided, asked) == ([], [4000])
        await press(pilot, "escape", "ctrl+o")
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen._arming.shown_at)
        clock.advance(5)
        await press(pilot, "d")
        await until(pilot, lambda: place.decided)
    assert [answer.choice.value for _, _, answer in place.decided] == ["deny"]
