"""How a confined program is started: the command that confines it, and the descriptors that it takes."""

from __future__ import annotations

import errno
import json
import marshal
import os
import platform
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import msgspec

from flycore.model.enums import Level
from flycore.model.program import ConfinementReport, ObserverOrder, RestrictionOrder
from flycore.model.session import CALL_ID_VARIABLE
from flycore.sandbox import bubblewrap, landlock, restriction_program
from flycore.sandbox.confinement import Confinement, IfMissing, Mount, SystemLayout
from flycore.sandbox.observation import observer_order
from flycore.sandbox.seccomp import Architecture, address_families, filter_bytes
from flysafe.beneath import open_anchor, open_beneath

OUTER_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
"""The environment of the confining program itself: what is in it can be read inside, in /proc/1/environ."""


MOST_COPIED = 8 * 1024 * 1024
"""Bytes of a protected file that is shown as a copy."""


class NulInLaunch(ValueError):
    """An argument, a variable or a path holds a NUL, which would end it and begin another option of bwrap."""


class ArchitectureUnknown(Exception):
    """There is no system call filter for this machine's architecture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command to start with exactly these descriptors. Its owner closes it once the process has started."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    descriptors: tuple[int, ...]
    cwd: str = "/"
    """The folder in which the command is started. A confining command goes to the program's own when it is
    ready to."""
    restriction: RestrictionOrder | None = None
    """How the process gives up its rights right before it becomes the command; None where the command itself
    confines the program."""
    status: int | None = None
    """The end of a pipe on which is reported in JSON, a line each; its owner closes it."""
    keeps_watch: bool = False
    """Whether the command stays, and the program is a child of it that ends when it does."""
    private_folder: str = ""
    """A folder that was made for this program alone, and is removed after it."""
    observer: ObserverOrder | None = None
    """What an observer is told of the program; None if it is not observed."""
    filter: bytes = field(default=b"", repr=False)
    """The filter of system calls, which the command waits for before it executes the program."""
    filter_pipe: int = -1
    """The end of a pipe to which the filter is written; -1 if no command waits for it."""

    def close(self) -> None:
        """Close the descriptors that were for the process."""
        for descriptor in self.descriptors:
            os.close(descriptor)

    def let_go(self) -> None:
        """Hand over the filter, so that the command executes the program."""
        if self.filter_pipe >= 0:
            with suppress(BrokenPipeError):  # the command has ended
                # In one piece, which a pipe takes at once: there is no moment with a part of the filter.
                os.write(self.filter_pipe, self.filter)
        self.give_up()

    def give_up(self) -> None:
        """Close the pipe. A command that has got no filter ends without having executed the program."""
        if self.filter_pipe >= 0:
            os.close(self.filter_pipe)

    def report(self, written: bytes) -> ConfinementReport:
        """Return what was written to `status` by the end of the process."""
        return read_report(written)

    def clean_up(self) -> None:
        """Remove the private folder."""
        if self.private_folder:
            shutil.rmtree(self.private_folder, ignore_errors=True)


_SIGNALS = range(129, 129 + 64)
"""The exit codes by which bwrap says that a signal ended the program, as shells do."""


def read_report(written: bytes) -> ConfinementReport:
    """Return what was reported: by bwrap the id of its child, and the exit code once a program has run; by
    `restriction_program` that the process has given up its rights."""
    said: dict[str, object] = {}
    for line in written.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue  # the last line of a process that was killed as it wrote
        said.update(found if isinstance(found, dict) else {})
    code, first = said.get("exit-code"), said.get("child-pid")
    return ConfinementReport(
        confined=isinstance(code, int) or said.get("confined") is True,
        started=isinstance(first, int),
        exit_code=(128 - code if code in _SIGNALS else code) if isinstance(code, int) else None,
        first_process=first if isinstance(first, int) else 0,
    )


def enforced_launch(
    confinement: Confinement,
    layout: SystemLayout,
    environment: Mapping[str, str],
    argv: tuple[str, ...],
    *,
    bubblewrap_program: str = "",
    bind_by_descriptor: bool = True,
    observed: bool = False,
) -> Launch:
    """Return the launch of a program under bubblewrap, that of the system if no other one is named. With
    `observed`, an observer notes what it asks for and was not granted.

    Raises OSError where a mount cannot be opened, OutsideAnchor where it leads out of its anchor,
    ArchitectureUnknown, and NulInLaunch.
    """
    _refuse_nul(confinement, environment, argv)
    program = _filter_of(confinement, observed=observed)
    with _Descriptors() as opened:
        mounts = opened.mounts(confinement)
        seccomp, filter_pipe = opened.filter_pipe()
        reader, writer = opened.pipe()
        arguments = bubblewrap.arguments(
            msgspec.structs.replace(confinement, mounts=tuple(mounts)),
            layout,
            environment,
            bubblewrap.Descriptors(
                mounts={mount.path: number for mount, number in mounts.items()},
                seccomp=seccomp,
                status=writer,
            ),
            bind_by_descriptor=bind_by_descriptor,
        )
        listed = _memory_file("arguments", os.fsencode("".join(f"{argument}\0" for argument in arguments)))
        opened.keep(listed)
        return Launch(
            argv=(bubblewrap_program or bubblewrap.PROGRAM, "--args", str(listed), "--", *argv),
            # The id as well: with it the next kernel finds what was just started when this one was killed.
            environment=OUTER_ENVIRONMENT | _call_id(environment),
            descriptors=opened.handed_over(),
            status=reader,
            keeps_watch=True,
            observer=_observer(confinement, layout, Level.ENFORCED) if observed else None,
            filter=program,
            filter_pipe=filter_pipe,
        )


def _call_id(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in (CALL_ID_VARIABLE,) if name in environment}


def degraded_launch(
    confinement: Confinement,
    layout: SystemLayout,
    environment: Mapping[str, str],
    argv: tuple[str, ...],
    *,
    observed: bool = False,
) -> Launch:
    """Return the launch of a program whose process gives up its rights itself before it executes it, by
    Landlock and the filter of system calls. `observed` and what is raised are as for `enforced_launch`."""
    _refuse_nul(confinement, environment, argv)
    program = _filter_of(confinement, observed=observed)
    with _Descriptors() as opened:
        mounts = opened.mounts(confinement)
        reader, writer = opened.pipe()
        rights = landlock.handled_rights(landlock.version(), network=confinement.network)
        order = (
            (rights.files, rights.network, rights.scopes),
            landlock.ON_FILES,
            [
                (os.fsencode(path), landlock.mount_rights(rights.files, writable=writable))
                for path, writable in _always_reached(layout, network=confinement.network)
            ],
            # What was opened counts, whatever the path leads to by then.
            [
                (number, landlock.mount_rights(rights.files, writable=mount.writable))
                for mount, number in mounts.items()
            ],
            program,
            writer,
        )
        return Launch(
            argv=argv,
            environment=dict(environment),
            descriptors=opened.handed_over(),
            cwd=confinement.cwd,
            restriction=RestrictionOrder(module=restriction_program.__file__, order=marshal.dumps(order)),
            status=reader,
            observer=_observer(confinement, layout, Level.DEGRADED) if observed else None,
        )


def _always_reached(layout: SystemLayout, *, network: bool) -> Iterator[tuple[str, bool]]:
    """The paths that every program reaches at level `degraded`, and whether it may write there."""
    yield from ((path, False) for path in (*layout.folders, *(path for path, _ in layout.links), "/proc"))
    yield from ((path, False) for path in (layout.network if network else ()))
    yield from ((path, True) for path in ("/dev/null", "/dev/zero", "/dev/full"))
    yield from ((path, False) for path in ("/dev/random", "/dev/urandom"))


class _Descriptors:
    """The descriptors of one launch. They are closed at the end of the block, unless they were handed
    over."""

    def __init__(self) -> None:
        self._kept: list[int] = []
        self._ours: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (*self._kept, *self._ours):
            os.close(descriptor)

    def keep(self, descriptor: int) -> int:
        """Take over a descriptor that is for the process."""
        self._kept.append(descriptor)
        return descriptor

    def mounts(self, confinement: Confinement) -> dict[Mount, int]:
        """Open what is mounted, in order. What is missing and may be left out is not in it."""
        found = {}
        for mount in confinement.ordered_mounts():
            try:
                found[mount] = self.keep(_open_mount(mount))
            except (FileNotFoundError, NotADirectoryError):
                if mount.if_missing is not IfMissing.LEAVE_OUT:
                    raise
        return found

    def pipe(self) -> tuple[int, int]:
        """Make the pipe for reports; its reading end is not for the process."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._ours.append(reader)
        return reader, self.keep(writer)

    def filter_pipe(self) -> tuple[int, int]:
        """Make the pipe for the filter; its writing end is not for the process."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._ours.append(writer)
        return self.keep(reader), writer

    def handed_over(self) -> tuple[int, ...]:
        """Give up all of them. Returns those for the process."""
        kept, self._kept, self._ours = tuple(self._kept), [], []
        return kept


def _refuse_nul(confinement: Confinement, environment: Mapping[str, str], argv: tuple[str, ...]) -> None:
    paths = (path for mount in confinement.mounts for path in (mount.path, mount.source))
    words = (*argv, *environment, *environment.values(), confinement.cwd, *confinement.shown_empty, *paths)
    if any("\0" in word for word in words):
        raise NulInLaunch("a NUL in what the program is started with")


def _open_mount(mount: Mount) -> int:
    """A descriptor of the file or folder. What is mounted is this one, whatever the path leads to later."""
    make = mount.if_missing is IfMissing.MAKE_FOLDER
    if not mount.anchor:
        if make and not os.path.lexists(mount.path):
            os.makedirs(mount.path, exist_ok=True)
        return os.open(mount.source or mount.path, os.O_PATH | os.O_CLOEXEC)
    anchor = open_anchor(mount.anchor)
    try:
        if not mount.within:
            relative = os.path.relpath(mount.source or mount.path, mount.anchor)
            if mount.copied:
                return _copy_of(anchor, relative)
            if not mount.follow:
                return open_beneath(anchor, relative, os.O_PATH)
            return _open_below(anchor, relative, make=make)
        # In two steps: a link in the second one may not even lead elsewhere below the anchor.
        within = _open_below(anchor, os.path.relpath(mount.within, mount.anchor), make=make)
        try:
            return _open_below(within, os.path.relpath(mount.path, mount.within), make=make)
        finally:
            os.close(within)
    finally:
        os.close(anchor)


def _copy_of(anchor: int, relative: str) -> int:
    """A file in memory with the content of that regular file, and its rights."""
    with os.fdopen(open_beneath(anchor, relative, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        about = os.fstat(file.fileno())
        content = file.read(MOST_COPIED + 1) if stat.S_ISREG(about.st_mode) else b""
    if not stat.S_ISREG(about.st_mode) or len(content) > MOST_COPIED:
        raise OSError(errno.EFBIG, "cannot be copied for the tool", relative)
    copy = _memory_file("protected", content)
    os.fchmod(copy, stat.S_IMODE(about.st_mode))
    return copy


def _open_below(anchor: int, relative: str, *, make: bool) -> int:
    """A descriptor of what lies there below the anchor; with `make` a folder, where nothing does."""
    try:
        return open_beneath(anchor, relative, os.O_PATH, links=True)
    except FileNotFoundError:
        if not make:
            raise
    _make_folders(anchor, relative)
    return open_beneath(anchor, relative, os.O_PATH, links=True)


def _make_folders(anchor: int, relative: str) -> None:
    """Make the folder, and those that lead to it, below the anchor."""
    parts = relative.split("/")
    for count in range(len(parts)):
        above = open_beneath(anchor, "/".join(parts[:count]) or ".", os.O_PATH | os.O_DIRECTORY, links=True)
        try:
            # A part that exists may be a link within the anchor, which the next round follows.
            with suppress(FileExistsError):
                os.mkdir(parts[count], dir_fd=above)
        finally:
            os.close(above)


def _filter_of(confinement: Confinement, *, observed: bool) -> bytes:
    # A refusal of this filter is not noted, because it comes before the observer's. So the observer refuses
    # the sockets of an observed program: its filter lets none of them pass without its answer.
    network, unix = confinement.network or observed, confinement.unix_sockets or observed
    return filter_bytes(_architecture(), address_families(network=network, unix=unix))


def _architecture() -> Architecture:
    try:
        return Architecture(platform.machine())
    except ValueError:
        raise ArchitectureUnknown(platform.machine()) from None


def _observer(confinement: Confinement, layout: SystemLayout, level: Level) -> ObserverOrder:
    return observer_order(_architecture(), confinement, layout, level)


def _memory_file(name: str, content: bytes) -> int:
    """A file in memory at its beginning. It has no path, and no other process can open it."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
