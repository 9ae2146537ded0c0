"""Writes the planned states of several files, all or none of them.

Every new content is written beside its file first, and takes its place by a rename only once all of them are
on disk. Right before, each file is compared with what the plan was made from. Where anything fails, the files
that were already replaced get back their bytes, mode and time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import msgspec

from flycore.model.base import Value
from flycore.runners.workspace.project_files import (
    FOLDER,
    READ,
    Project,
    anchor_of,
    refuse_protected,
    require_file,
    shown,
)
from flysafe.beneath import open_beneath


class FileDiffers(Exception):
    """A file is not what the plan was made from; nothing was changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{shown(path)} was changed in the meantime")


class RestoreFailed(Exception):
    """Writing failed, and a file that was replaced could not be given back what it was. The message names
    the files."""


class FileState(Value, frozen=True):
    """A file at one moment. `data` is None where there is none; `mtime_ns` 0 stands for the present time."""

    data: bytes | None
    mode: int = 0o644
    mtime_ns: int = 0


class Replacement(Value, frozen=True):
    """A file, by its real path relative to the project, with its states before and after."""

    path: str
    before: FileState
    after: FileState


class _Staged(msgspec.Struct, frozen=True):
    """A replacement whose new content lies beside the file, in an open folder."""

    replacement: Replacement
    folder: int
    name: str
    beside: str
    """The name of the new content; empty where the file is deleted."""
    found: os.stat_result | None
    """The facts of the file when it was compared; None where there is none."""


def replace_files(
    project: Project, replacements: Sequence[Replacement], before_effect: Callable[[tuple[str, ...]], None]
) -> tuple[str, ...]:
    """Bring all files from their states before to those after, and return the folders that were made for
    them.

    `before_effect` is called with these folders once everything is ready and nothing is changed; what it
    raises ends the change. Raises FileDiffers, PathRefused and OSError; then every file is as it was.
    Raises RestoreFailed where that could not be reached.
    """
    made: list[str] = []
    with ExitStack() as stack:
        anchor = stack.enter_context(anchor_of(project))
        staged: list[_Staged] = []
        done: list[_Staged] = []
        try:
            for replacement in replacements:
                refuse_protected(project, replacement.path)
                staged.append(_stage(anchor, replacement, made, stack))
            before_effect(tuple(made))
            for item in staged:
                _commit(item)
                done.append(item)
                os.fsync(item.folder)  # without this, the rename may be lost with the power
        except BaseException:
            failed = [item.replacement.path for item in reversed(done) if not _restored(item)]
            for item in staged:
                _remove(item.folder, item.beside)  # else the folders that were made are not empty
            _remove_folders(anchor, made)
            if failed:
                names = ", ".join(map(shown, failed))
                raise RestoreFailed(f"these files could not be restored: {names}") from None
            raise
    return tuple(made)


def read_state(anchor: int, path: str, most: int) -> FileState:
    """Return the state of a file below the open anchor, by its real path. Raises OSError, with EFBIG for a
    file of more than `most` bytes."""
    try:
        descriptor = open_beneath(anchor, path, READ)
    except (FileNotFoundError, NotADirectoryError):
        return FileState(None)
    with os.fdopen(descriptor, "rb") as file:
        about = require_file(descriptor, path)
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", path)
    return FileState(data, stat.S_IMODE(about.st_mode), about.st_mtime_ns)


def _stage(anchor: int, replacement: Replacement, made: list[str], stack: ExitStack) -> _Staged:
    parent, _, name = replacement.path.rpartition("/")
    if replacement.before.data is None and replacement.after.data is not None:
        _make_folders(anchor, parent, made)
    try:
        folder = open_beneath(anchor, parent or ".", FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        # The file was there, and its folder is gone: making that again would not bring back the rest of it.
        raise FileDiffers(replacement.path) from None
    stack.callback(os.close, folder)
    found = _compared(folder, name, replacement)
    beside = ""
    if replacement.after.data is not None:
        # In the same folder, because a rename is atomic only within one file system.
        beside = f".{name[:100]}.{secrets.token_hex(8)}"
        stack.callback(_remove, folder, beside)
        _write(folder, beside, replacement.after)
    return _Staged(replacement, folder, name, beside, found)


def _make_folders(anchor: int, parent: str, made: list[str]) -> None:
    """Make the folders on the way that are missing, and note them."""
    path = ""
    for part in filter(None, parent.split("/")):
        above, path = path, f"{path}/{part}" if path else part
        folder = open_beneath(anchor, above or ".", FOLDER)
        try:
            os.mkdir(part, 0o777, dir_fd=folder)
            made.append(path)
        except FileExistsError:
            pass
        finally:
            os.close(folder)


def _compared(folder: int, name: str, replacement: Replacement) -> os.stat_result | None:
    """Return the facts of the file, which has to be as it was. Raises FileDiffers."""
    expected = replacement.before.data
    try:
        descriptor = os.open(name, READ | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=folder)
    except FileNotFoundError:
        if expected is None:
            return None
        raise FileDiffers(replacement.path) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileDiffers(replacement.path) from None
        raise
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if expected is None or not stat.S_ISREG(about.st_mode) or file.read(len(expected) + 1) != expected:
            raise FileDiffers(replacement.path)
    return about


def _write(folder: int, name: str, state: FileState) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(state.data or b"")
        file.flush()
        os.fchmod(descriptor, state.mode)
        if state.mtime_ns:
            os.utime(descriptor, ns=(state.mtime_ns, state.mtime_ns))
        os.fsync(descriptor)


def _commit(item: _Staged) -> None:
    """Put the new content in the file's place. Raises FileDiffers where the file changed since it was
    compared."""
    if not _is_still(item):
        raise FileDiffers(item.replacement.path)
    if not item.beside:
        os.unlink(item.name, dir_fd=item.folder)
    elif item.found is None:
        # A link and not a rename: it fails where a file of that name was made since.
        try:
            os.link(item.beside, item.name, src_dir_fd=item.folder, dst_dir_fd=item.folder)
        except FileExistsError:
            raise FileDiffers(item.replacement.path) from None
    else:
        os.rename(item.beside, item.name, src_dir_fd=item.folder, dst_dir_fd=item.folder)


def _is_still(item: _Staged) -> bool:
    try:
        now = os.stat(item.name, dir_fd=item.folder, follow_symlinks=False)
    except FileNotFoundError:
        return item.found is None
    return item.found is not None and _facts(now) == _facts(item.found)


def _facts(about: os.stat_result) -> tuple[int, ...]:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _restored(item: _Staged) -> bool:
    """Give a replaced file back what it was; False where that failed."""
    before = item.replacement.before
    try:
        if before.data is None:
            os.unlink(item.name, dir_fd=item.folder)
            return True
        beside = f".{item.name[:100]}.{secrets.token_hex(8)}"
        try:
            _write(item.folder, beside, before)
            os.rename(beside, item.name, src_dir_fd=item.folder, dst_dir_fd=item.folder)
        except OSError:
            _remove(item.folder, beside)
            raise
    except OSError:
        return False
    return True


def _remove(folder: int, name: str) -> None:
    if not name:
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _remove_folders(anchor: int, made: Sequence[str]) -> None:
    """Remove folders that were made, as far as they are empty."""
    for path in reversed(made):
        remove_folder(anchor, path)


def remove_folder(anchor: int, path: str) -> None:
    """Remove a folder below the open anchor, where it is there and empty."""
    parent, _, name = path.rpartition("/")
    with contextlib.suppress(OSError), _folder(anchor, parent) as folder:
        os.rmdir(name, dir_fd=folder)


@contextlib.contextmanager
def _folder(anchor: int, path: str) -> Iterator[int]:
    descriptor = open_beneath(anchor, path or ".", FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
