"""Opens, creates and replaces files below the project folder or the artifact folder of a request.

Every file is opened relative to a descriptor of that folder (`flysafe.beneath`), so that a symbolic link,
or one that is swapped while the file is opened, cannot lead outside.
"""

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
_HOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""For a folder in which a name is looked up. A sandbox that grants only that name forbids to read it."""
# O_NONBLOCK: opening a FIFO would otherwise wait for a writer. O_NOCTTY: a terminal device must not become
# the process's controlling terminal.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_project_file(call: Call, path: str) -> tuple[int, os.stat_result]:
    """Open a regular file below the project for reading. Returns its descriptor, which the caller closes,
    and its status.

    `path` is relative to the project, or absolute and below it. Raises `ToolFailed`: `outside-project`
    (through `..` or a link), `not-found`, `not-a-file` (a folder, device, pipe or socket), `not-readable`.
    """
    descriptor = _open(call.project_dir, path, _READ, links=True)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ToolFailed("not-a-file", f"{path} is {_file_kind(status.st_mode)}, not a file", path=path)
    return descriptor, status


def open_project(call: Call) -> int:
    """A descriptor of the project folder, which the caller closes. Raises `ToolFailed`."""
    if not os.path.isabs(call.project_dir):
        raise ToolFailed("invalid-request", "the request names no absolute folder to work in")
    return open_anchor(call.project_dir)


def in_project(call: Call, path: str) -> str:
    """`path` relative to the project. Raises `ToolFailed` (`outside-project`) for an absolute path that
    does not begin with the project folder.

    Only the text is checked. `..` and symbolic links are checked when the path is opened.
    """
    return _relative(call.project_dir, path)


def open_project_folder(call: Call, path: str, *, make: bool = False, own_state: bool = False) -> int:
    """A descriptor of a folder below the project, which the caller closes.

    With `make`, missing folders of the path are created. `own_state` is as in `Permissions.require_write`.
    Raises `ToolFailed`: `outside-project`, `not-found`, `not-readable`, and with `make` `not-permitted`.
    """
    if make:
        parts = [part for part in _relative(call.project_dir, path).split("/") if part not in ("", ".")]
        for length, name in enumerate(parts, 1):
            _make(call, "/".join(parts[:length]), name, own_state=own_state)
    return _open(call.project_dir, path, _FOLDER, links=True)


def _make(call: Call, path: str, name: str, *, own_state: bool) -> None:
    holder = _open(call.project_dir, os.path.dirname(path) or ".", _HOLDER, links=True)
    try:
        try:
            os.stat(name, dir_fd=holder)
        except FileNotFoundError:
            require_write(call, holder, name, own_state=own_state, on_the_way=True)
        os.mkdir(name, dir_fd=holder)
    except FileExistsError:
        return
    finally:
        os.close(holder)


def require_write(
    call: Call, folder: int, name: str, *, own_state: bool = False, on_the_way: bool = False
) -> None:
    """Raise `ToolFailed` (`not-permitted`) where the call may not write `name` in the open folder. The
    options are those of `Permissions.require_write`."""
    # The folder's own path, after links: its text in the input may lead elsewhere.
    whole = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
    call.permissions.require_write(call.project_dir, whole, own_state=own_state, on_the_way=on_the_way)


class NewFile:
    """A new file below the project, which gets its name only if the block ends without an exception.

    `with NewFile(call, path) as file:` opens a binary file for writing and creates missing folders. Raises
    `ToolFailed`: `outside-project`, `not-permitted`, and at the end of the block `exists` if the name is
    taken. Afterwards `path` is absolute and `size` is the number of bytes.
    """

    def __init__(self, call: Call, path: str) -> None:
        folder, self._name = os.path.split(path)
        if self._name in ("", ".", ".."):
            raise ToolFailed("not-a-file", f"{path} names no file", path=path)
        self._folder = open_project_folder(call, folder or ".", make=True)
        try:
            require_write(call, self._folder, self._name)
        except ToolFailed:
            os.close(self._folder)
            raise
        self._temporary_name = f".flytui-{os.urandom(8).hex()}.part"
        self.path = path
        self.size = 0

    def __enter__(self) -> BinaryIO:
        """Create the file, empty and under a temporary name."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = open(os.open(self._temporary_name, flags, 0o666, dir_fd=self._folder), "wb")
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        """Give the file its name, or remove it."""
        try:
            self._file.close()
            if kind is None:
                self._publish()
        finally:
            os.unlink(self._temporary_name, dir_fd=self._folder)
            os.close(self._folder)

    def _publish(self) -> None:
        self.size = os.stat(self._temporary_name, dir_fd=self._folder).st_size
        # A hard link fails if the name is taken, in one step; a rename would replace the other file.
        try:
            os.link(self._temporary_name, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except FileExistsError as taken:
            raise ToolFailed("exists", f"{self.path} is there already", path=self.path) from taken
        self.path = os.path.join(os.readlink(f"/proc/self/fd/{self._folder}"), self._name)


def write_new(anchor: str, path: str, data: bytes, magic: bytes, *, call: Call | None = None) -> str:
    """Write `data` to a file below `anchor` in one step and return its absolute path.

    `call` is given where `anchor` is the project: its permissions are checked, `not-permitted`, and missing
    folders of the path are made.

    An existing file is replaced only if it begins with `magic`, so that a picture can replace a picture
    and nothing else. Raises `ToolFailed`: `outside-project`, `not-found` (its folder), `exists`.
    """
    folder_path, name = os.path.split(path)
    if name in ("", ".", ".."):
        raise ToolFailed("not-a-file", f"{path} names no file", path=path)
    if call is not None:
        os.close(open_project_folder(call, folder_path or ".", make=True))
    folder = _open(anchor, folder_path or ".", _FOLDER, links=True)
    try:
        if call is not None:
            require_write(call, folder, name)
        _check_replaceable(folder, name, path, magic)
        _replace(folder, name, data)
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
    finally:
        os.close(folder)


def _check_replaceable(folder: int, name: str, path: str, magic: bytes) -> None:
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


def _file_kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((word for test, word in kinds if test(mode)), "a device")
