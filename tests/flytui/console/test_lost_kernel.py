"""A terminal that is gone takes nothing more, and fails nobody."""

from __future__ import annotations

import os
import pty
import select
import signal
import threading
import tty
from collections.abc import Iterator

import pytest
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from flytui.console.terminal import MAX_BUFFERED, NonBlockingDriver, NonBlockingOutput
from kits.console import HandClock, console
from kits.fake_kernel import world

pytestmark = pytest.mark.anyio


def test_writing_to_a_terminal_that_is_gone_is_dropped() -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as inner:
        out = NonBlockingOutput(inner, lambda: None)
        out.write("drawn")
        assert os.read(master, 100) == b"drawn"
        assert out.fileno() == slave
        os.close(master)
        with pytest.raises(OSError):  # noqa: PT011 - that this one fails is what the other has to swallow
            os.write(slave, b"x")
        for _ in range(100):
            out.write("x" * 10_000)
        out.drain()
        assert not out.unread
    out.write("closed")
    out.drain()
    assert not out.unread


def test_a_terminal_that_does_not_read_holds_nobody_up_and_is_drawn_anew_when_it_does() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    caught_up = threading.Event()
    with os.fdopen(slave, "w") as inner:
        out = NonBlockingOutput(inner, caught_up.set)
        for _ in range(3 * MAX_BUFFERED // 100_000):
            out.write("x" * 100_000)
        assert out.unread
        assert not caught_up.is_set()
        read = 0
        while not caught_up.is_set():
            read += len(os.read(master, 1_000_000)) if select.select([master], [], [], 0.05)[0] else 0
        assert 0 < read <= MAX_BUFFERED + 100_000
        assert not out.unread
        out.write("anew")
        last = b""
        while not last.endswith(b"anew"):
            last = (last + os.read(master, 1_000_000))[-4:]
    os.close(master)


async def test_the_driver_writes_through_it() -> None:
    place = world()
    async with console(place, HandClock()) as (app, _):
        driver = NonBlockingDriver(app)
        assert isinstance(driver._file, NonBlockingOutput)
        assert app.driver_class is NonBlockingDriver


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
    driver = NonBlockingDriver(App[None]())
    os.kill(os.getpid(), signal.SIGCONT)
    driver.suspend_application_mode()
    os.kill(os.getpid(), signal.SIGCONT)
    assert starts == []
