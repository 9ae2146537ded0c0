"""One call on its way: what it has waited, and how it tells where it stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from flycore.approval.clock import Clock
from flycore.executive.activity import ActivityLog
from flycore.model.call import CallRequest, Progress
from flycore.model.enums import Phase

OnProgress = Callable[[Progress], None]
OnCancellable = Callable[[], Awaitable[None]]
"""Awaited once the call can be cancelled, before anything of it happens."""


class Call:
    """A call under way. `waited_ms` is time spent on people and other callers, not on running."""

    def __init__(
        self, request: CallRequest, clock: Clock, book: ActivityLog, tell: OnProgress | None
    ) -> None:
        self.request = request
        self.waited_ms = 0
        self.edited = False
        """Whether a person has changed its input."""
        self._ran_from: float | None = None
        self._clock = clock
        self._book = book
        self._tell = tell

    def report(
        self, phase: Phase, message: str = "", progress: float | None = None, total: float | None = None
    ) -> None:
        """Say where the call stands, to whoever watches and to the caller."""
        if phase is Phase.RUNNING and self._ran_from is None:
            self._ran_from = self._clock.monotonic()
        step = Progress(
            call_id=self.request.call_id, phase=phase, message=message, progress=progress, total=total
        )
        self._book.progress(step)
        if self._tell is not None:
            self._tell(step)

    @property
    def began(self) -> bool:
        """Whether it has begun to run."""
        return self._ran_from is not None

    @property
    def ran_ms(self) -> int:
        """How long ago it began to run, 0 where it has not."""
        return 0 if self._ran_from is None else int((self._clock.monotonic() - self._ran_from) * 1000)

    def show_input(self, sidecar: str, input_text: str) -> None:
        """Put the checked input, secrets masked, where people watch."""
        self._book.show_input(self.request.call_id, sidecar, input_text)

    def start_wait(self) -> float:
        """A moment to hand to `end_wait`."""
        return self._clock.monotonic()

    def end_wait(self, began: float) -> None:
        """Count the time since `began` as waiting."""
        self.waited_ms += int((self._clock.monotonic() - began) * 1000)
