"""A child that is started through a command which confines it, and what that command reports of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from flycore.model.program import ConfinementReport, ObserverOrder, RestrictionOrder
from flycore.runners.child.observer import Observation

MAX_STATUS = 65_536
"""How much of a confining command's report is read: all that fits into its pipe."""


class ConfinedStart(Protocol):
    """The start of a program that is confined: by a command that starts it, or by the process itself, which
    gives up its rights and then becomes it."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The confining command with the program's own at its end, or the program's own."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of `argv`. A confining command has that of the program in a descriptor."""
        ...

    @property
    def cwd(self) -> str:
        """The folder in which `argv` is started."""
        ...

    @property
    def restriction(self) -> RestrictionOrder | None:
        """How the process gives up its rights; None where a command confines the program."""
        ...

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the process is handed, under the same numbers. The program gets none of them."""
        ...

    @property
    def status(self) -> int | None:
        """The end of a pipe on which is reported whether the program is confined; None where it is not."""
        ...

    @property
    def keeps_watch(self) -> bool:
        """Whether the command stays, and the program is a child of it that ends when it does."""
        ...

    @property
    def observer(self) -> ObserverOrder | None:
        """What an observer is told of the program; None if it is not observed."""
        ...

    def close(self) -> None:
        """Close `descriptors`, once the command was started or could not be."""
        ...

    def let_go(self) -> None:
        """Let a confining command execute the program, which it does not before this call."""
        ...

    def give_up(self) -> None:
        """Have a confining command that was not let go end without having executed the program."""
        ...

    def report(self, written: bytes) -> ConfinementReport:
        """What the command has written to `status` by its end."""
        ...

    def clean_up(self) -> None:
        """Remove what was made for the program alone, once it has ended."""
        ...


class ConfinedChild:
    """The reports on one confined child. Its owner calls `close` once the child and its tree have ended."""

    def __init__(self, start: ConfinedStart) -> None:
        self._start = start
        self._written = b""
        self._held = True
        self.ended = False
        """Whether nothing more can be reported."""
        self._status = start.status
        self.observation: Observation | None = None
        """The observation of the child, from `observe` to `close`; None if it is not observed."""
        self.notes: bytes | None = None
        """The observer's notes about the child, from `close` on; None if it is not observed."""
        self.observer_lost = False
        """Whether the observer was ended before the child, from `close` on."""
        if self._status is not None:
            # Nothing is ever waited for: a process that survives may hold the other end.
            os.set_blocking(self._status, False)

    @property
    def keeps_watch(self) -> bool:
        """As in `ConfinedStart`."""
        return self._start.keeps_watch

    @property
    def command(self) -> str:
        """What was to be started: the confining command, or the program that gives up its own rights."""
        return self._start.argv[0]

    @property
    def descriptor(self) -> int:
        """The end of a pipe that can be read when more is reported; -1 if nothing is reported."""
        return -1 if self._status is None else self._status

    @property
    def argv(self) -> tuple[str, ...]:
        """The command that confines the program, through the one that has it observed."""
        argv = self._start.argv
        return argv if self.observation is None else self.observation.command(argv)

    @property
    def handed(self) -> tuple[int, ...]:
        """What the process is handed, under the same numbers."""
        observation = self.observation
        return (*self._start.descriptors, *(() if observation is None else (observation.descriptor,)))

    @property
    def restrictions(self) -> tuple[RestrictionOrder, ...]:
        """How the process gives up its rights itself. It is observed first: its own filter of system calls is
        the inner one, whose refusals come before the observer's."""
        own = () if self._start.restriction is None else (self._start.restriction,)
        return own if self.observation is None else (self.observation.restriction, *own)

    def observe(self) -> None:
        """Begin to observe the child, which is about to be started, if it is to be. Raises OSError."""
        if self._start.observer is not None:
            self.observation = Observation(self._start.observer)

    def let_go(self) -> None:
        """Let a confining command execute the program."""
        if self._held:
            self._held = False
            self._start.let_go()

    def report(self) -> ConfinementReport:
        """What the confining command has reported until now."""
        while self._status is not None and len(self._written) < MAX_STATUS:
            try:
                part = os.read(self._status, MAX_STATUS - len(self._written))
            except BlockingIOError:
                break
            if not part:
                self.ended = True
                break
            self._written += part
        return self._start.report(self._written)

    def close(self) -> ConfinementReport:
        """Read the rest, close the pipe, end the observation, and remove what was made for the child
        alone."""
        if self._held:
            self._held = False
            self._start.give_up()
        report = self.report()
        if self.observation is not None:
            self.observer_lost = self.observation.is_lost()
            self.notes = self.observation.close()
            self.observation = None
        if self._status is not None:
            os.close(self._status)
            self._status = None
            self._start.clean_up()
        return report
