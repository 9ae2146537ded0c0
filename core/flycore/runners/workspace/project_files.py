"""Opens the files of a project for the kernel's own tools, always below the descriptor of its folder.

A path may be written relative to the project folder, or absolute within it. Links that stay in the project
are followed to read, and to find the file that is changed; that file is then opened once more without any
link. Whatever leads outside is refused.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from flycore.registry.paths import RootPaths
from flysafe.beneath import OutsideAnchor, open_anchor, open_beneath, real_path_of
from flysafe.protected_paths import GIT_FOLDER, protection_of

FOLDER = os.O_RDONLY | os.O_DIRECTORY
READ = os.O_RDONLY | os.O_NONBLOCK
"""Without O_NONBLOCK, opening a pipe would wait until somebody writes to it."""


class PathRefused(Exception):
    """The path may not be used; the message says why, and `hint` what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


class Project(msgspec.Struct, frozen=True):
    """The folder that the tools work in, and the folders of flytui itself, which they never touch."""

    root: Path
    """Absolute, without links."""
    closed: tuple[str, ...] = ()
    """Folders in the project, relative to it, that are neither read nor written: the state of flytui."""
    read_only: tuple[str, ...] = ()
    """Folders in the project, relative to it, that are read and not written: the person's own settings."""


def project_of(places: RootPaths) -> Project:
    """Return the project of a root."""
    root = os.path.realpath(places.app_root)
    own = (places.state_dir.parent.parent, places.data_dir, places.cache_dir, places.socket.parent)
    return Project(
        root=Path(root),
        closed=tuple(filter(None, (_within(root, folder) for folder in own))),
        read_only=tuple(filter(None, (_within(root, places.config_dir),))),
    )


def _within(root: str, folder: Path) -> str:
    """Return the folder relative to the root; empty where it does not lie in it."""
    real = os.path.realpath(folder)
    return os.path.relpath(real, root) if real.startswith(root.rstrip("/") + "/") else ""


def relative_path(project: Project, given: str) -> str:
    """Return the path relative to the project folder, `.` for the folder itself. Raises PathRefused."""
    if "\0" in given:
        raise PathRefused("the path holds a NUL character")
    try:
        os.fsencode(given)
    except UnicodeEncodeError:
        raise PathRefused("the path is not one that a file can have") from None
    root = str(project.root)
    path = posixpath.normpath(given)
    if path.startswith("/"):
        # normpath keeps two slashes at the beginning, which POSIX leaves open.
        path = "/" + path.lstrip("/")
        if path != root and not path.startswith(root.rstrip("/") + "/"):
            raise _outside(given)
        path = posixpath.relpath(path, root)
    if path == ".." or path.startswith("../"):
        raise _outside(given)
    return path


def _outside(given: str) -> PathRefused:
    return PathRefused(
        f"{given} lies outside the project folder",
        "name a path relative to the project folder; another folder needs flytui with another --root",
    )


@contextmanager
def anchor_of(project: Project) -> Iterator[int]:
    """Hold a descriptor of the project folder while the block runs."""
    descriptor = open_anchor(project.root)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened(project: Project, given: str, flags: int) -> Iterator[tuple[int, str]]:
    """Open an existing file or folder to read, and hold its descriptor while the block runs, with its real
    path relative to the project.

    Raises PathRefused, and OSError for what the system says, such as FileNotFoundError.
    """
    relative = relative_path(project, given)
    with anchor_of(project) as anchor:
        try:
            descriptor = open_beneath(anchor, relative, flags, links=True)
        except OutsideAnchor:
            raise PathRefused(f"{given} leads out of the project folder by a link") from None
        try:
            real = real_relative(anchor, descriptor)
            if lies_in(real, project.closed):
                raise PathRefused(f"{given} belongs to flytui's own state")
            yield descriptor, real
        finally:
            os.close(descriptor)


def real_relative(anchor: int, descriptor: int) -> str:
    """Return the present path of an open file relative to the open anchor. Raises OSError where it lies
    outside by now, or was deleted."""
    root, real = real_path_of(anchor), real_path_of(descriptor)
    if real == root:
        return "."
    if not real.startswith(root.rstrip("/") + "/"):
        raise OutsideAnchor(real)
    return real[len(root.rstrip("/")) + 1 :]


def require_file(descriptor: int, given: str) -> os.stat_result:
    """Return the facts of an open regular file. Raises OSError for anything else."""
    about = os.fstat(descriptor)
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), given)
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", given)
    return about


def refuse_protected(project: Project, real: str) -> None:
    """Raise PathRefused where the file at that real path, relative to the project, is not to be written."""
    found = protection_of(real)
    if found is not None and found.name == GIT_FOLDER:
        raise PathRefused(
            f"{real} belongs to the insides of git", "use git itself, by process.run, which a person approves"
        )
    if found is not None and found.person_only:
        raise PathRefused(
            f"{real} says what may run in this project; only the person changes it",
            "tell the person what to change there",
        )
    if lies_in(real, (*project.closed, *project.read_only)):
        raise PathRefused(f"{real} belongs to flytui's own settings and state")


def lies_in(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether the path is one of the folders or lies below one. All are relative to the project."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def shown(path: str) -> str:
    """Return a path as it can be sent: bytes that are no UTF-8 become replacement characters."""
    return os.fsencode(path).decode("utf-8", "replace")


def failure_text(error: OSError, given: str) -> str:
    """Say why a path could not be used."""
    match error.errno:
        case errno.ENOENT:
            return f"there is no file {given}"
        case errno.EISDIR:
            return f"{given} is a folder"
        case errno.ENOTDIR:
            return f"{given} is no folder, or a part of it is none"
        case errno.ELOOP:
            return f"{given} is a link that cannot be followed"
        case _:
            return f"{given} cannot be used: {error.strerror or error}"
