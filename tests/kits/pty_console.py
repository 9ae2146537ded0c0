"""A console in a process of its own, on a pseudo-terminal whose other end the test holds.

The console shows a `World`. The test types bytes, reads what is drawn, stops and continues the process, has
its event loop stand still, and asks what was decided.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kits.waits import pauses

SOURCES = Path(__file__).resolve().parents[2]
PATHS = [str(SOURCES / name) for name in ("core", "tui", "sidecars", "tests")]
PATIENCE_S = 60.0
HELD_S = 0.6
"""How long the event loop stands still at least: longer than any gap that is no pause."""
READY = "keys ready ●"
ANSWER = b"\x1b[0n"


class PtyConsole:
    """One console and the test's end of its terminal."""

    def __init__(self, *, answers: bool, size: tuple[int, int]) -> None:
        self.answers = answers
        """Whether the terminal answers when it is asked what it has read, as real ones do."""
        leader, follower = pty.openpty()
        self.leader = leader
        self.child: subprocess.Popen[bytes] | None = None
        self.resize(*size)
        ours, theirs = socket.socketpair()
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "TERM": "xterm-256color"}
        # Textual believes COLUMNS and LINES before the terminal, and pictures taken in this process set both.
        for name in ("TERM_PROGRAM", "COLUMNS", "LINES"):
            environ.pop(name, None)
        self.child = subprocess.Popen(
            [sys.executable, "-m", "kits.pty_console", str(theirs.fileno())],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            pass_fds=(theirs.fileno(),),
            env=environ,
            start_new_session=True,
        )
        os.close(follower)
        theirs.close()
        self._control = ours.makefile("rw", encoding="utf-8")
        ours.close()
        self._text = ""
        self._changed = threading.Condition()
        self._reading = threading.Event()
        self._reading.set()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        decoded = b""
        while True:
            self._reading.wait()
            try:
                data = os.read(self.leader, 65_536)
            except OSError:
                return
            decoded += data
            while self.answers and b"\x1b[5n" in decoded:
                decoded = decoded.split(b"\x1b[5n", 1)[1]
                with suppress(OSError):
                    os.write(self.leader, ANSWER)
            decoded = decoded[-4:]
            with self._changed:
                self._text += data.decode("utf-8", "replace")
                self._changed.notify_all()

    @property
    def position(self) -> int:
        """How much has been drawn until now."""
        with self._changed:
            return len(self._text)

    def sees(self, words: str, since: int = 0) -> None:
        """Wait until those words were drawn after that position."""
        with self._changed:
            if not self._changed.wait_for(lambda: words in self._text[since:], PATIENCE_S):
                pytest.fail(f"{words!r} never came; the last of what did: {self._text[-800:]!r}")

    def stop_reading(self) -> None:
        """Read no more of what the console draws, as a terminal that hangs."""
        self._reading.clear()

    def read_on(self) -> None:
        """Read again."""
        self._reading.set()

    def type(self, text: str | bytes) -> None:
        """Type into the terminal."""
        data = text.encode() if isinstance(text, str) else text
        while data:
            data = data[os.write(self.leader, data) :]

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal, and tell the console."""
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # The pseudo-terminal is not the controlling one of the console, so the system tells nobody.
        if self.child is not None:
            self.send_signal(signal.SIGWINCH)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The console's process."""
        assert self.child is not None
        return self.child

    def send_signal(self, number: int) -> None:
        """Send a signal to the console."""
        os.kill(self.process.pid, number)

    def stop(self, number: int = signal.SIGSTOP) -> None:
        """Stop the process by a signal, and wait until it is stopped."""
        self.send_signal(number)
        # Taken, not only looked at: the next wait has to be for the next stop.
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def tell(self, do: str, **more: object) -> dict[str, Any]:
        """Have the console's process do something, and wait for its answer."""
        self.order(do, **more)
        return self.answered()

    def order(self, do: str, **more: object) -> None:
        """Have the console's process do something, as soon as it runs."""
        self._control.write(json.dumps({"do": do, **more}) + "\n")
        self._control.flush()

    def answered(self) -> dict[str, Any]:
        """Wait for the answer to the last order."""
        line = self._control.readline()
        if not line:
            pytest.fail(f"the console has ended: {self._text[-2_000:]}")
        return dict(json.loads(line))

    def ask(self, name: str = "r1", **more: object) -> None:
        """Have a caller ask for something."""
        self.tell("ask", name=name, **more)

    @property
    def decided(self) -> list[list[str]]:
        """The answers that were sent: id, choice, reason."""
        return list(self.tell("report")["decided"])

    def wait_decided(self) -> list[list[str]]:
        """Wait until an answer was sent; gives all of them."""
        end = time.monotonic() + PATIENCE_S
        for pause in pauses():
            if found := self.decided:
                return found
            if time.monotonic() > end:
                break
            time.sleep(pause)
        pytest.fail(f"nothing was decided; the last that was drawn: {self._text[-800:]!r}")

    def press_until_decided(self, key: str) -> list[list[str]]:
        """Press the key once each time that the keys become ready, until an answer was sent. A pause of the
        machine may make the console drop a key, and it is ready again afterwards."""
        for _ in range(20):
            since = self.position
            self.type(key)
            end = time.monotonic() + 5
            while time.monotonic() < end:
                if found := self.decided:
                    return found
                with self._changed:
                    if READY in self._text[since:]:
                        break
                    self._changed.wait(0.05)
        pytest.fail(f"{key!r} never decided: {self._text[-800:]!r}")

    def press_until(self, key: str, what: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Press the key until the console's report is as it should be: once, and again if nothing came of it.
        The console drops a key that came while the machine had it stand still."""
        for _ in range(10):
            self.type(key)
            end = time.monotonic() + PATIENCE_S / 10
            for pause in pauses():
                if holds(self.tell("report")):
                    return
                if time.monotonic() > end:
                    break
                time.sleep(pause)
        pytest.fail(f"{key!r} never came to anything: {what}")

    def press_until_screen(self, key: str, name: str) -> None:
        """Press the key until a screen of that class is on top."""
        self.press_until(key, name, lambda report: report["screen"] == name)

    def tell_later(self, number: int) -> None:
        """Send a signal once the process has been stopped for longer than any gap that is no pause."""
        time.sleep(HELD_S)
        self.send_signal(number)

    def wait_report(self, what: str, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the console's report is as it should be."""
        end = time.monotonic() + PATIENCE_S
        for pause in pauses():
            if holds(found := self.tell("report")):
                return
            if time.monotonic() > end:
                pytest.fail(f"never came: {what}; the last report: {found}")
            time.sleep(pause)

    def wait_screen(self, name: str) -> None:
        """Wait until a screen of that class is on top."""
        self.wait_report(name, lambda report: report["screen"] == name)

    def wait_text(self, text: str) -> None:
        """Wait until a text field holds exactly that text."""
        self.wait_report(f"the text {text!r}", lambda report: report["texts"] == [text])

    def wait_unarmed(self) -> None:
        """Wait until the card on screen is not armed any more."""
        self.wait_report("a card without keys", lambda report: report["shown"] is False)

    def end(self) -> None:
        """End the console."""
        self._reading.set()
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._control.close()
        os.close(self.leader)


@contextmanager
def pty_console(*, answers: bool = True, size: tuple[int, int] = (100, 40)) -> Iterator[PtyConsole]:
    """A console with its first values on screen, which ends with the block."""
    console = PtyConsole(answers=answers, size=size)
    try:
        # Not by what is drawn: words may come in pieces, where only some of their cells have changed.
        console.wait_report("the kernel's state", lambda report: report["open"])
        yield console
    finally:
        console.end()


# The process of the console.


class Control:
    """Does in the console's process what the test tells it."""

    def __init__(self, descriptor: int) -> None:
        from kits.fake_kernel import world

        self.place = world()
        self._stream = socket.socket(fileno=descriptor).makefile("rw", encoding="utf-8")
        self._released = threading.Event()

    def serve(self, app: Any, loop: Any) -> None:
        """Take orders until the test closes the connection."""
        for line in self._stream:
            order = json.loads(line)
            do = getattr(self, "_" + order.pop("do"))
            answer: dict[str, object] = do(app, loop, **order) or {}
            self._stream.write(json.dumps(answer) + "\n")
            self._stream.flush()

    def _ask(self, app: Any, loop: Any, name: str, risk: str = "medium", **more: Any) -> None:
        from flycore.model.enums import Risk
        from kits.values import request_of

        letter = {"high": "k", "critical": "kqzx"}.get(risk, "")
        request = request_of(name, risk=Risk(risk), letter=letter, **more)
        loop.call_soon_threadsafe(self.place.ask_for, request)

    def _hold(self, app: Any, loop: Any) -> None:
        """Have the event loop stand still until `release`."""
        held = threading.Event()
        self._released.clear()

        def stand_still() -> None:
            held.set()
            self._released.wait(PATIENCE_S)

        loop.call_soon_threadsafe(stand_still)
        held.wait(PATIENCE_S)

    def _release(self, app: Any, loop: Any) -> None:
        time.sleep(HELD_S)
        self._released.set()

    def _jump(self, app: Any, loop: Any, seconds: float) -> None:
        """Have the clock of pauses jump, as it does when the machine was suspended, and time of day, too."""
        from flytui.console.terminal_pauses import boot_time

        state, now = app.state, app.state.now
        state.now = lambda: now() + seconds
        app._driver._loop_beat._clock = lambda: boot_time() + seconds

    def _report(self, app: Any, loop: Any) -> dict[str, object]:
        counts = app._driver.input_counts
        return {
            "decided": [[name, answer.choice.value, answer.reason] for name, _, answer in self.place.decided],
            "faults": counts.faults,
            "dropped": counts.dropped,
            "open": app.state.status is not None,
            "beat": app._driver._step,
            "screen": type(app.screen).__name__,
            "size": list(app.size),
            "texts": [box.value for box in app.screen.query("Input")],
            "shown": _shown(app.screen),
            "peak_mib": _peak_mib(),
        }


def _shown(screen: Any) -> bool | None:
    """Whether the terminal has taken the card on the screen; None where there is none."""
    card = getattr(screen, "_card", None)
    return None if card is None else card.arming.shown_at is not None


def _peak_mib() -> int:
    # `ru_maxrss` would do where it did not begin with the peak of the process that this one was forked from.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def main() -> None:
    """Run the console on this process's terminal."""
    import asyncio

    from flytui.cli.interrupts import SignalInterrupt, run_async
    from flytui.console.app import FlytuiApp
    from flytui.console.run import ConsoleFailed, ConsoleParts, RootParts, run_console
    from kits.console import at_once
    from kits.values import NOW

    control = Control(int(sys.argv[1]))
    started = FlytuiApp.on_mount

    def on_mount(app: FlytuiApp) -> None:
        started(app)
        loop = asyncio.get_running_loop()
        threading.Thread(target=control.serve, args=(app, loop), daemon=True).start()

    FlytuiApp.on_mount = on_mount  # type: ignore[method-assign]  # the test's hook into its own process
    try:
        root = RootParts(title="~/shop", open_kernel=at_once(control.place))
        run_async(lambda: run_console([root], ConsoleParts(now=lambda: NOW)))
    except SignalInterrupt as ended:
        sys.exit(ended.exit_code)
    except ConsoleFailed as failed:
        # The last that the test shows of the terminal.
        sys.exit("".join(traceback.format_exception(failed.defect)))


if __name__ == "__main__":
    main()
