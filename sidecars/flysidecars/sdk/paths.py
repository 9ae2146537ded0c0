"""Files below an anchor of the request, opened beneath a descriptor so that no link race leaves it."""

from __future__ import annotations

import os
import stat

from flysafe.beneath import OutsideAnchor, open_anchor, open_beneath
from flysidecars.sdk.call import Call
from flysidecars.sdk.failures import ToolFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_project_file(call: Call, path: str) -> tuple[int, os.stat_result]:
    """Open a regular file below the project for reading; the caller closes the descriptor.

    `path` is relative to the project, or absolute and below it. Raises `ToolFailed`:
    `outside-project` (through `..` or a link), `not-found`, `not-a-file` (a folder, device, pipe or
    socket, which is neither read nor waited for), `not-readable`.
    """
    descriptor = _open(call.project_dir, path, _READ, links=True)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ToolFailed("not-a-file", f"{path} is {_kind(status.st_mode)}, not a file", path=path)
    return descriptor, status


def open_project(call: Call) -> int:
    """A descriptor of the project folder; the caller closes it."""
    if not os.path.isabs(call.project_dir):
        raise ToolFailed("invalid-request", "the request names no absolute folder to work in")
    return open_anchor(call.project_dir)


def in_project(call: Call, path: str) -> str:
    """`path` relative to the project; raises `ToolFailed` (`outside-project`) for an absolute one that does
    not begin there. What it leads to is decided by who opens it."""
    return _relative(call.project_dir, path)


def open_project_folder(call: Call, path: str, *, make: bool = False) -> int:
    """A descriptor of a folder below the project; the caller closes it. With `make`, missing folders on the
    way are made. Raises `ToolFailed`: `outside-project`, `not-found`, `not-readable`."""
    if make:
        parts = [part for part in _relative(call.project_dir, path).split("/") if part not in ("", ".")]
        for length, name in enumerate(parts, 1):
            _make(call, "/".join(parts[:length]), name)
    return _open(call.project_dir, path, _FOLDER, links=True)


def _make(call: Call, path: str, name: str) -> None:
    holder = _open(call.project_dir, os.path.dirname(path) or ".", _FOLDER, links=True)
    try:
        os.mkdir(name, dir_fd=holder)
    except FileExistsError:
        return
    finally:
        os.close(holder)


class NewFile:
    """A file below the project that is there under its name only when the block ends well.

    `with NewFile(call, path) as file:` gives a binary file to write; missing folders are made. Raises
    `ToolFailed`: `outside-project`, `exists` at the end where the name is taken. `path` is absolute after it.
    """

    def __init__(self, call: Call, path: str) -> None:
        folder, self._name = os.path.split(path)
        if self._name in ("", ".", ".."):
            raise ToolFailed("not-a-file", f"{path} names no file", path=path)
        self._folder = open_project_folder(call, folder or ".", make=True)
        self._beside = f".flytui-{os.urandom(8).hex()}.part"
        self.path = path
        self.size = 0

    def __enter__(self) -> BinaryIO:
        """The file, empty and under a name of its own."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = open(os.open(self._beside, flags, 0o666, dir_fd=self._folder), "wb")
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        """Give it its name, or leave nothing."""
        try:
            self._file.close()
            if kind is None:
                self._settle()
        finally:
            os.unlink(self._beside, dir_fd=self._folder)
            os.close(self._folder)

    def _settle(self) -> None:
        self.size = os.stat(self._beside, dir_fd=self._folder).st_size
        try:
            os.link(self._beside, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except FileExistsError as taken:
            raise ToolFailed("exists", f"{self.path} is there already", path=self.path) from taken
        self.path = os.path.join(os.readlink(f"/proc/self/fd/{self._folder}"), self._name)


def write_new(anchor: str, path: str, data: bytes, magic: bytes) -> str:
    """Write `data` to a file below `anchor` in one step and return its absolute path.

    A file that is already there is replaced only where it begins with `magic`, so that a picture can
    replace a picture and nothing else. Raises `ToolFailed`: `outside-project`, `not-found` (its
    folder), `exists`.
    """
    folder_path, name = os.path.split(path)
    if name in ("", ".", ".."):
        raise ToolFailed("not-a-file", f"{path} names no file", path=path)
    folder = _open(anchor, folder_path or ".", _FOLDER, links=True)
    try:
        _refuse_others(folder, name, path, magic)
        _replace(folder, name, data)
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
    finally:
        os.close(folder)


def _refuse_others(folder: int, name: str, path: str, magic: bytes) -> None:
    try:
        descriptor = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as refused:
        raise ToolFailed("exists", f"{path} exists and is not a picture", path=path) from refused
    try:
        same = stat.S_ISREG(os.fstat(descriptor).st_mode) and os.read(descriptor, len(magic)) == magic
    finally:
        os.close(descriptor)
    if not same:
        raise ToolFailed("exists", f"{path} exists and is not a picture", path=path)


def _replace(folder: int, name: str, data: bytes) -> None:
    temporary = f".flytui-{os.getpid()}-{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(temporary, dir_fd=folder)
        raise


def _open(anchor: str, path: str, flags: int, *, links: bool) -> int:
    if not os.path.isabs(anchor):
        raise ToolFailed("invalid-request", "the request names no absolute folder to work in")
    anchor_descriptor = open_anchor(anchor)
    try:
        return open_beneath(anchor_descriptor, _relative(anchor, path), flags, links=links)
    except OutsideAnchor as outside:
        raise ToolFailed("outside-project", f"{path} is outside the project", path=path) from outside
    except FileNotFoundError as missing:
        raise ToolFailed("not-found", f"{path} does not exist", path=path) from missing
    except OSError as refused:
        reason = refused.strerror or "cannot be opened"
        raise ToolFailed("not-readable", f"{path}: {reason}", path=path) from refused
    finally:
        os.close(anchor_descriptor)


def _relative(anchor: str, path: str) -> str:
    if not path or "\0" in path:
        raise ToolFailed("not-found", "the path is empty or holds a NUL", path=path.replace("\0", "?"))
    if not os.path.isabs(path):
        return path
    for base in (anchor, os.path.realpath(anchor)):
        prefix = base.rstrip("/") + "/"
        if path.startswith(prefix):
            return path[len(prefix) :].lstrip("/") or "."
    raise ToolFailed("outside-project", f"{path} is outside the project", path=path)


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((word for test, word in kinds if test(mode)), "a device")
