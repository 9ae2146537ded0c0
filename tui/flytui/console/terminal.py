"""The driver of the terminal: output without ever blocking the event loop, input that ends nothing, the
times at which the console stood still, and the terminal that another program has: one to which it is lent, or
a shell that has stopped the console or runs it in the background.

Textual writes from a thread of its own, which has a short queue. If that thread ended with an error, or
waited for a stalled connection, the queue would fill and the next write would block the event loop and the
kernel that runs on it. Text that a terminal does not read is therefore buffered here up to `MAX_BUFFERED`,
then dropped, and the whole screen is drawn again once the terminal reads on.

A key counts from when it could have been seen. After a pause of the process, the loop, the machine or the
terminal every screen that decides is armed anew from the next frame that the terminal has taken.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import termios
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TextIO, cast, runtime_checkable

from textual import events
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size
from textual.message import Message

from flytui.console.controllers.terminal_title import PUSH_TITLE
from flytui.console.state import ALL_TOPICS, ConsoleState, Topic
from flytui.console.terminal_graphics import GRAPHICS_QUESTION, Graphics, cell_size
from flytui.console.terminal_guard import find_key_risk, terminal_intruder
from flytui.console.terminal_input import SYNCHRONIZED_OUTPUT, InputCounts, InputParser, drawable_size
from flytui.console.terminal_pauses import GAP_S, IDLE_TICK_S, TICK_S, Heartbeat, Receipts
from flytui.supervisor.terminal_modes import RESTORE
from flytui.text.pixel_graphics import CellSize

MAX_BUFFERED = 4 * 1024 * 1024
"""The most characters that are kept for a terminal that does not read."""
CLOSE_TIMEOUT_S = 2.0
"""Seconds that the application waits at its end for the terminal to read what was written last."""
READ_BYTES = 4096
"""The most bytes that are read from the terminal at once."""
TYPING_S = 1.0
"""Seconds after the last input for which the thread that reads it looks at it often: a sequence may go on."""
INPUT_ENDS_S = 1.0
"""Seconds that the thread which reads the terminal may take to end."""
QUESTION = "\x1b[5n"
"""Asks a terminal whether it is well. It answers once it has read everything before the question."""


@runtime_checkable
class RearmedScreen(Protocol):
    """A screen whose keys count only for what a person could see."""

    def rearm(self) -> None:
        """Arm the screen anew, because the console or its terminal stood still."""
        ...


class NonBlockingOutput:
    """A terminal's output stream whose `write` never raises and never blocks. A thread does the writing."""

    def __init__(self, inner: TextIO, on_resumed: Callable[[], None]) -> None:
        self._inner = inner
        self._on_resumed = on_resumed
        self._texts: deque[str] = deque()
        self._kept_characters = 0
        self._dropped = False
        self._writing = False
        self._writing_since = 0.0
        self._changed = threading.Condition()
        threading.Thread(target=self._write_loop, name="flytui-terminal", daemon=True).start()

    @property
    def unread(self) -> bool:
        """Whether the terminal has not yet read everything that was drawn."""
        with self._changed:
            return self._writing or bool(self._texts) or self._dropped

    @property
    def stalled(self) -> bool:
        """Whether the terminal has not taken a text for longer than `GAP_S`."""
        with self._changed:
            return self._dropped or (self._writing and time.monotonic() - self._writing_since > GAP_S)

    def write(self, text: str) -> int:
        """Buffer the text for the writing thread, or drop it where the buffer is full."""
        with self._changed:
            # After a gap, later text would be drawn over a screen that lacks a part. So all of it is dropped
            # until the buffer is empty and the whole screen is drawn again.
            self._dropped = self._dropped or self._kept_characters + len(text) > MAX_BUFFERED
            if not self._dropped:
                self._texts.append(text)
                self._kept_characters += len(text)
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes what is buffered."""

    def drain(self) -> None:
        """Wait at most `CLOSE_TIMEOUT_S` until the terminal has read what is buffered."""
        with self._changed:
            self._changed.wait_for(lambda: not self._texts and not self._writing, CLOSE_TIMEOUT_S)

    def _write_loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._texts))
                text = "".join(self._texts)
                self._texts.clear()
                self._writing, self._writing_since = True, time.monotonic()
            # Outside the lock: `write`, called by the event loop, must never wait for a stalled terminal.
            self._write_out(text.encode("utf-8", "replace"))
            with self._changed:
                self._writing = False
                self._kept_characters = sum(map(len, self._texts))
                again, self._dropped = self._dropped and not self._texts, self._dropped and bool(self._texts)
                self._changed.notify_all()
            if again:
                self._on_resumed()

    def _write_out(self, data: bytes) -> None:
        """Write to the file descriptor. A terminal that is gone is not an error."""
        # Not to the stream: its buffer has a lock, which would be held for as long as the terminal stalls.
        try:
            while data:
                data = data[os.write(self._inner.fileno(), data) :]
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _WakingEvent(threading.Event):
    """The event that ends the thread which reads the terminal, and that wakes it for that. Textual sets it,
    and then waits for the thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__()
        self._wake = wake

    def set(self) -> None:
        """Set the event, and wake the thread."""
        super().set()
        self._wake()


class NonBlockingDriver(LinuxDriver):
    """Textual's Linux driver for a terminal that may close, stop reading, or send anything."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.input_counts = InputCounts()
        """What was dropped of the terminal's input."""
        self.receipts = Receipts(self._ask)
        self._parser = InputParser(self.input_counts)
        self._loop_beat = Heartbeat()
        self._timer: asyncio.TimerHandle | None = None
        self._step = TICK_S
        """Seconds until the next beat of the event loop."""
        self._wake, self._waker = os.pipe()
        """What wakes the thread that reads the terminal out of its wait. It is there as long as the process,
        because that thread may be."""
        os.set_blocking(self._waker, False)
        self.exit_event = _WakingEvent(self._wake_thread)
        self._backlog = False
        """Whether input is left from before or during a pause of the thread that reads it."""
        self._stalled = False
        self._in_use = False
        """Whether the terminal is this console's, between the start and the stop of application mode."""
        self._away = False
        """Whether another process group has the terminal, so that this console waits for it: a shell that has
        stopped the console, or that runs it in the background."""
        self._attributes: list[Any] | None = None
        """The attributes of the terminal, as this console has set them."""
        self._stopping = self._continued = False
        """Whether this process is about to stop, or was stopped and goes on since the last beat."""
        self._good_size = (80, 25)
        self._missed_size: tuple[int, int] | None = None
        """The size that the terminal had at the last beat, where the application did not have it."""
        self._on_graphics: Callable[[Graphics], None] | None = None
        """Told how the terminal draws pictures, where it is to be asked."""
        self.farewell = ""
        """What takes the pictures off the terminal before it is given back."""
        self._output: NonBlockingOutput | None = None
        if self._file is not None:
            self._output = NonBlockingOutput(self._file, self._draw_again)
            self._file = cast(Any, self._output)

    @property
    def unread(self) -> bool:
        """Whether the terminal has not yet read everything that was drawn, or input of a pause is left."""
        return self._away or self._backlog or (self._output is not None and self._output.unread)

    def write(self, data: str) -> None:
        """Write to the terminal, unless another process group has it."""
        if not self._away:
            super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal, or wait for it where another process group has it, and begin to watch for
        pauses."""
        self._away = not in_foreground(self.fileno)
        if not self._away:
            self._take()
        self._watch_loop()

    def _take(self) -> None:
        """Take the terminal, and ask whether it tells what it has read."""
        self._away = False
        self._parser = InputParser(self.input_counts)
        self._parser.expect_mode(SYNCHRONIZED_OUTPUT)
        self.receipts = Receipts(self._ask)
        self._writer_thread = None
        super().start_application_mode()  # type: ignore[no-untyped-call] # Textual declares no return type
        # Textual returns early where the process has no right to write to the terminal, or it is gone.
        self._in_use = self._writer_thread is not None
        self._away = not self._in_use
        self._attributes = attributes_of(self.fileno)
        self.receipts.request()
        self._ask_graphics()
        self._loop_beat, self._backlog, self._stalled = Heartbeat(), False, False
        # After ctrl+z, or another program that had the terminal, nothing on it is what was drawn before.
        self._rearm()

    @property
    def in_use(self) -> bool:
        """Whether the terminal is this console's now."""
        return self._in_use

    def _wake_thread(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._waker, b"w")

    def stop_application_mode(self) -> None:
        """Give the terminal back, where it is this console's."""
        if self._timer is not None:
            self._timer.cancel()
        if self._in_use:
            self.write(self.farewell)
            super().stop_application_mode()
        self._in_use = False

    # Another process group.

    def _note_owner(self) -> None:
        """Give the terminal up where another process group has it now. Take it again where it is back, and
        where somebody else may have changed its modes meanwhile."""
        continued, self._continued = self._continued, False
        mine = in_foreground(self.fileno)
        if self._in_use and not mine:
            self._give_up()
        elif self._in_use and (continued or self._modes_changed()):
            # A shell restores some modes and changes others: all of them are set again.
            changed = self._modes_changed()
            self._give_up()
            self._take_back(flush=changed)
        elif self._away and mine:
            self._take_back(flush=True)
            # A person brought it back from the shell in this window, and no report was asked for meanwhile.
            self._app.post_message(events.AppFocus())

    def _modes_changed(self) -> bool:
        found = attributes_of(self.fileno)
        return found is not None and found != self._attributes

    def _give_up(self) -> None:
        """Leave the terminal to the process group that has it, with an ordinary screen. Its attributes are
        those of that group already, and stay."""
        self.write(self.farewell + RESTORE)
        self._in_use, self._away = False, True
        self.exit_event.set()
        if self._key_thread is not None:
            self._key_thread.join(INPUT_ENDS_S)
        self.exit_event.clear()
        if self._writer_thread is not None:
            self._writer_thread.stop()
        self._rearm()

    def _take_back(self, *, flush: bool) -> None:
        """Take the terminal again and draw everything. With `flush`, drop what was typed and not read yet: it
        was not meant for this console."""
        with suppress(termios.error):
            if flush:
                termios.tcflush(self.fileno, termios.TCIFLUSH)
            if self.attrs_before is not None and not self._modes_changed():
                # Some shells bring this console's own modes back. They are not what it has to leave behind.
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        self._must_signal_resume = True
        self._take()
        self.write(PUSH_TITLE)
        self._app.refresh(layout=True)

    def _sigtstp_application(self, *_: object) -> None:
        """Stop this process, after the terminal is an ordinary one again."""
        # Not within the handler of the signal: it may have interrupted a write, which holds a lock.
        if not self._stopping:
            self._stopping = True
            self._call_loop(self._stop_process)

    def _stop_process(self) -> None:
        if self._in_use:
            attributes = self.attrs_before if in_foreground(self.fileno) else None
            self._give_up()
            if self._output is not None:
                self._output.drain()
            if attributes is not None:
                with suppress(termios.error):
                    termios.tcsetattr(self.fileno, termios.TCSANOW, attributes)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._stopping = False

    def _sigcont_application(self, *_: object) -> None:
        """Note that this process was stopped and goes on, and look who has the terminal."""
        self._continued = True
        self._call_loop(self._note_owner)

    def close(self) -> None:
        """Close the driver, and wait at most `CLOSE_TIMEOUT_S` for the terminal to read what is left."""
        super().close()
        if self._output is not None:
            self._output.drain()

    def note_loop(self) -> None:
        """Note that the event loop runs, and arm every screen anew where it stood still before."""
        before = self._stalled
        self._stalled = self.receipts.stalled or (self._output is not None and self._output.stalled)
        # Once for each stall: nothing counts as painted before the terminal reads on.
        if self._loop_beat.beat(self._step) or (self._stalled and not before):
            self._rearm()

    @property
    def _watches_closely(self) -> bool:
        """Whether a pause would matter now: a screen is open whose keys count only for what a person could
        see, or something about the terminal is not settled."""
        unsettled = self._away or self._backlog or self._missed_size is not None or not self._in_use
        stack = self._app.screen_stack if self._app.is_running else ()
        return unsettled or any(isinstance(screen, RearmedScreen) for screen in stack)

    def watch_closely(self) -> None:
        """Watch for every pause from now on, because a screen opens that decides something. What was typed in
        a pause before is not for that screen: until the thread that reads the terminal has found nothing
        left there, input counts as left."""
        if self._step == TICK_S:
            return
        self._step, self._loop_beat = TICK_S, Heartbeat()
        self._backlog = True
        self._wake_thread()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(TICK_S, self._watch_loop)

    def _ask(self) -> None:
        """Ask the terminal, unless another program has it: the short queue of a writer that has ended would
        fill, and the next text would block the event loop."""
        # The answer would reach the shell that has the terminal, which no beat may have noticed yet.
        if self._in_use and in_foreground(self.fileno):
            self.write(QUESTION)

    def ask_graphics(self, on_graphics: Callable[[Graphics], None]) -> None:
        """Ask the terminal how it draws pictures, now and whenever it is taken again."""
        self._on_graphics = on_graphics
        self._ask_graphics()

    def _ask_graphics(self) -> None:
        if self._on_graphics is not None and self._in_use and in_foreground(self.fileno):
            self._parser.graphics.ask()
            self.write(GRAPHICS_QUESTION)

    def _watch_loop(self) -> None:
        # Set first: the watch must go on, whatever a screen does while it is armed anew.
        step = TICK_S if self._watches_closely else IDLE_TICK_S
        self._timer = self._loop.call_later(step, self._watch_loop)
        self.note_loop()
        self._step = step
        self._note_owner()
        self._note_size()

    def _note_size(self) -> None:
        """Tell the application the size of the terminal once more where it has another one for two beats."""
        # Of many changes the last one can be lost on its way to the application, which would then draw for
        # another terminal until the next change.
        drawn, found = tuple(self._app.size), self._get_terminal_size()
        missed = self._in_use and found != drawn
        if missed and self._missed_size == found:
            self._app.post_message(events.Resize(Size(*found), Size(*found)))
        self._missed_size = found if missed else None

    def _rearm(self) -> None:
        for screen in self._app.screen_stack if self._app.is_running else ():
            if isinstance(screen, RearmedScreen):
                screen.rearm()

    def _set_backlog(self, left: bool) -> None:
        self._backlog = left
        self._rearm()

    def run_input_thread(self) -> None:
        """Read the terminal until the driver closes. No input ends this thread."""
        beat, last_input = Heartbeat(), time.monotonic()
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                typing = self._backlog or time.monotonic() - last_input < TYPING_S
                step = TICK_S if typing else self._step
                found = selector.select(step)
                ready = [key for key, _ in found if key.fd == self.fileno]
                if len(found) > len(ready):
                    os.read(self._wake, READ_BYTES)
                    if not ready:
                        beat = Heartbeat()  # a pause until now is taken for granted
                        continue
                # This is sent before the keys that are read below, so the loop knows of the pause first.
                if beat.beat(step):
                    self._call_loop(self._set_backlog, True)
                elif not ready and self._backlog:
                    self._call_loop(self._set_backlog, False)
                if ready and not in_foreground(self.fileno):
                    self.exit_event.wait(TICK_S)  # the keys are those of another process group
                elif ready and not self._read():
                    # The terminal is gone, and `select` would report that without end.
                    selector.unregister(self.fileno)
                if ready:
                    last_input = time.monotonic()
                self._send(self._parser.tick())

    def _read(self) -> bool:
        """Pass on what the terminal has sent, and return whether it may send more."""
        try:
            data = os.read(self.fileno, READ_BYTES)
        except OSError:
            return False
        self._send(self._parser.feed(data))
        return bool(data)

    def _send(self, found: Iterable[Message]) -> None:
        try:
            for message in found:
                self.process_message(message)
        except Exception:  # noqa: BLE001 - a fault in one sequence must not end the console and its kernel
            self.input_counts.faults += 1
            self._parser = InputParser(self.input_counts)
        for _ in range(self._parser.take_answers()):
            self._call_loop(self.receipts.take_answer)
        if (graphics := self._parser.graphics.take_result()) is not None and self._on_graphics is not None:
            self._call_loop(self._on_graphics, graphics)

    def _call_loop(self, function: Callable[..., None], *args: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def _get_terminal_size(self) -> tuple[int, int]:
        """The size of the terminal; the last one that can be drawn where this one cannot."""
        size = super()._get_terminal_size()
        if drawable_size(*size):
            self._good_size = size
        return self._good_size

    def _query_in_band_window_resize(self) -> None:
        """Ask for no reports of the size: the system knows it, and a report could hold any number."""

    def _draw_again(self) -> None:
        """Draw the whole screen, because a part of what was drawn never reached the terminal."""
        # Called by the writing thread, and possibly after the application has ended.
        self._call_loop(lambda: cast(None, self._app.refresh(layout=True)))


def in_foreground(terminal: int) -> bool:
    """Whether this process group may read that terminal. A terminal that is not the controlling one cannot be
    given to another group."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return True


def attributes_of(terminal: int) -> list[Any] | None:
    """The attributes of the terminal; None where there are none."""
    try:
        return termios.tcgetattr(terminal)
    except termios.error:
        return None


def non_blocking_driver(found: type[Driver]) -> type[Driver]:
    """The driver class to use where Textual would use `found`."""
    return NonBlockingDriver if found is LinuxDriver else found


def _driver_of(app: App[Any]) -> NonBlockingDriver | None:
    return app._driver if isinstance(app._driver, NonBlockingDriver) else None


def restore_terminal(app: App[Any]) -> None:
    """Give the terminal back, where the application has ended without doing so, and wait a bounded time until
    the terminal has read it."""
    if (driver := _driver_of(app)) is not None:
        if driver.in_use:
            driver.stop_application_mode()
        driver.close()


def note_loop(app: App[Any]) -> None:
    """Note that the event loop runs, before a key is handled: the loop may have stood still until now."""
    if (driver := _driver_of(app)) is not None:
        driver.note_loop()


def watch_closely(app: App[Any]) -> None:
    """Watch for every pause from now on, because a screen opens that decides something."""
    if (driver := _driver_of(app)) is not None:
        driver.watch_closely()


def request_receipt(app: App[Any]) -> int:
    """Ask the terminal to confirm that it has read all that was drawn until now; gives a number."""
    driver = _driver_of(app)
    return 0 if driver is None else driver.receipts.request()


def request_receipt_if_due(app: App[Any]) -> None:
    """Ask the terminal whether it still reads, where it was not asked a moment ago."""
    if (driver := _driver_of(app)) is not None:
        driver.receipts.request_if_due()


def has_receipt(app: App[Any], number: int) -> bool:
    """Whether the terminal has taken all that was drawn before the request of that number."""
    driver = _driver_of(app)
    return driver is None or (not driver.unread and driver.receipts.has(number))


def input_counts(app: App[Any]) -> InputCounts:
    """What was dropped of the terminal's input."""
    driver = _driver_of(app)
    return InputCounts() if driver is None else driver.input_counts


def watch_terminal(app: App[Any], state: ConsoleState) -> None:
    """Find out who else could press keys on this terminal, and look again before each approval."""
    driver = _driver_of(app)
    if driver is not None:
        state.shared.key_risk = find_key_risk()
        state.shared.find_intruder = partial(terminal_intruder, driver.fileno)


def write_to_terminal(app: App[Any], text: str) -> None:
    """Write to the terminal around the line filters."""
    driver = _driver_of(app)
    if driver is not None and driver.in_use:
        driver.write(text)


def cell_size_of(app: App[Any]) -> CellSize | None:
    """The pixels of a cell of the terminal; None where it does not tell."""
    driver = _driver_of(app)
    return None if driver is None else cell_size(driver.fileno)


def ask_graphics(app: App[Any], on_graphics: Callable[[Graphics], None]) -> None:
    """Ask the terminal how it draws pictures. `on_graphics` is called on the event loop, or never."""
    if (driver := _driver_of(app)) is not None:
        driver.ask_graphics(on_graphics)


def set_farewell(app: App[Any], text: str) -> None:
    """Write that text whenever the terminal is given back, from now on."""
    if (driver := _driver_of(app)) is not None:
        driver.farewell = text


async def suspend_for(
    app: App[None],
    state: ConsoleState,
    run_program: Callable[[], Awaitable[None]],
    on_return: Callable[[frozenset[Topic]], Awaitable[None]],
) -> None:
    """Lend the terminal to `run_program` until it ends, then call `on_return` with all topics. Everything but
    drawing goes on meanwhile. Raises SuspendNotSupported where the terminal cannot be lent."""
    state.shared.suspended = True
    try:
        with app.batch_update(), app.suspend():
            await run_program()
    finally:
        state.shared.suspended = False
        # The person's last keys went to the other program, so nothing may open or be approved by the next
        # ones.
        state.shared.last_key = state.clock()
    await on_return(ALL_TOPICS)
