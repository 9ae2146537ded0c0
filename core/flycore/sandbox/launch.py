"""How a confined program is started: the command that confines it, and the descriptors that it takes."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from flycore.sandbox import bubblewrap
from flycore.sandbox.confinement import Confinement, Mount, SystemLayout
from flycore.sandbox.seccomp import Architecture, address_families, filter_bytes
from flysafe.beneath import open_anchor, open_beneath

_OUTER_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
"""The environment of the confining program itself: what is in it can be read inside, in /proc/1/environ."""


class ArchitectureUnknown(Exception):
    """There is no system call filter for this machine's architecture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command to start with exactly these descriptors. Its owner closes it once the process has started."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    descriptors: tuple[int, ...]
    status: int | None = None
    """The end of a pipe on which bwrap reports in JSON; its owner closes it."""

    def close(self) -> None:
        """Close the descriptors that were for the process."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def enforced_launch(
    confinement: Confinement,
    layout: SystemLayout,
    environment: Mapping[str, str],
    argv: tuple[str, ...],
    *,
    bind_by_descriptor: bool = True,
) -> Launch:
    """Return the launch of a program under bubblewrap.

    Raises OSError where a mount cannot be opened, OutsideAnchor where it leads out of its anchor, and
    ArchitectureUnknown.
    """
    program = _filter_of(confinement)
    opened: list[int] = []
    reader = -1
    try:
        mounts = {}
        for mount in confinement.ordered_mounts():
            mounts[mount.path] = _open_mount(mount)
            opened.append(mounts[mount.path])
        reader, writer = os.pipe2(os.O_CLOEXEC)
        opened.append(writer)
        opened.append(seccomp := _memory_file("seccomp", program))
        arguments = bubblewrap.arguments(
            confinement,
            layout,
            environment,
            bubblewrap.Descriptors(mounts=mounts, seccomp=seccomp, status=writer),
            bind_by_descriptor=bind_by_descriptor,
        )
        opened.append(
            listed := _memory_file("arguments", b"".join(os.fsencode(a) + b"\0" for a in arguments))
        )
    except BaseException:
        for descriptor in (*opened, reader):
            if descriptor >= 0:
                os.close(descriptor)
        raise
    return Launch(
        argv=(bubblewrap.PROGRAM, "--args", str(listed), "--", *argv),
        environment=_OUTER_ENVIRONMENT,
        descriptors=tuple(opened),
        status=reader,
    )


def degraded_launch(
    confinement: Confinement,
    layout: SystemLayout,
    environment: Mapping[str, str],
    argv: tuple[str, ...],
) -> Launch:
    """Return the launch of a program that gives up its rights itself before it runs, by Landlock and the
    filter of system calls. Raises ArchitectureUnknown."""
    order = {
        "argv": argv,
        "environment": dict(environment),
        "cwd": confinement.cwd,
        "network": confinement.network,
        "filter": _filter_of(confinement).hex(),
        "mounts": [
            *((path, False) for path in (*layout.folders, *(path for path, _ in layout.links), "/proc")),
            *((path, False) for path in (layout.network if confinement.network else ())),
            *((path, True) for path in ("/dev/null", "/dev/zero", "/dev/full")),
            *((path, False) for path in ("/dev/random", "/dev/urandom")),
            *((mount.path, mount.writable) for mount in confinement.ordered_mounts()),
        ],
    }
    listed = _memory_file("order", json.dumps(order).encode())
    return Launch(
        argv=(sys.executable, "-I", "-m", "flycore.sandbox.degraded_launcher", str(listed)),
        environment=_OUTER_ENVIRONMENT,
        descriptors=(listed,),
    )


def _open_mount(mount: Mount) -> int:
    """A descriptor of the file or folder. What is mounted is this one, whatever the path leads to later."""
    if not mount.anchor:
        return os.open(mount.path, os.O_PATH | os.O_CLOEXEC)
    anchor = open_anchor(mount.anchor)
    try:
        return open_beneath(anchor, os.path.relpath(mount.path, mount.anchor), os.O_PATH, links=True)
    finally:
        os.close(anchor)


def _filter_of(confinement: Confinement) -> bytes:
    try:
        architecture = Architecture(platform.machine())
    except ValueError:
        raise ArchitectureUnknown(platform.machine()) from None
    families = address_families(network=confinement.network, unix=confinement.unix_sockets)
    return filter_bytes(architecture, families)


def _memory_file(name: str, content: bytes) -> int:
    """A file in memory at its beginning. It has no path, and no other process can open it."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
