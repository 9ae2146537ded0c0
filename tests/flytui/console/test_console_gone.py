"""A terminal that is gone takes nothing more, and fails nobody."""

from __future__ import annotations

import os
import pty
import signal
from collections.abc import Iterator

import pytest
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from consolekit import HandClock, console, world
from flytui.console.terminal import Lasting, LastingDriver

pytestmark = pytest.mark.anyio


def test_writing_to_a_terminal_that_is_gone_is_dropped() -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as inner:
        out = Lasting(inner)
        out.write("drawn")
        out.flush()
        assert os.read(master, 100) == b"drawn"
        assert out.fileno() == slave
        os.close(master)
        with pytest.raises(OSError):  # noqa: PT011 - that this one fails is what the other has to swallow
            os.write(slave, b"x")
        for _ in range(100):
            out.write("x" * 10_000)
            out.flush()
    out.write("closed")
    out.flush()


async def test_the_driver_writes_through_it() -> None:
    place = world()
    async with console(place, HandClock()) as (app, _):
        driver = LastingDriver(app)
        assert isinstance(driver._file, Lasting)
        assert app.driver_class is LastingDriver


@pytest.fixture
def signals() -> Iterator[None]:
    """A driver takes these two over for good."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


async def test_a_continue_that_follows_no_stop_starts_nothing(
    signals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal that closes sends it to a console that is leaving: a reader started then never ends."""
    starts: list[str] = []
    monkeypatch.setattr(LinuxDriver, "start_application_mode", lambda _: starts.append("start"))
    monkeypatch.setattr(LinuxDriver, "stop_application_mode", lambda _: starts.append("stop"))
    driver = LastingDriver(App[None]())
    os.kill(os.getpid(), signal.SIGCONT)
    assert starts == []
    driver.suspend_application_mode()
    os.kill(os.getpid(), signal.SIGCONT)
    os.kill(os.getpid(), signal.SIGCONT)
    assert starts == ["stop", "start"]
