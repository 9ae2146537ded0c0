"""One value in one JSON file, such as the trusted entries of a root or the answers of a cache.

The file is read only if no other user could have written it. It is opened beneath its folder, no more of it
is read than a bound, and it is replaced as a whole.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from flysafe.atomic import private_folder, write_atomic
from flysafe.beneath import open_anchor, open_beneath

T = TypeVar("T")
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
OTHERS_ANYTHING = stat.S_IRWXG | stat.S_IRWXO


class StoreDamaged(OSError):
    """The content of the file is not such a value."""


class Store(Generic[T]):
    """A value, and the file that keeps it.

    The file is read when the value is first used, and after that by `reload` and `refresh`. A program that
    writes holds a lock that the others respect, such as that of the root.
    """

    def __init__(
        self,
        path: Path | None,
        kind: type[T],
        default: T,
        most_bytes: int,
        *,
        fault: Callable[[T], str] = lambda value: "",
        secret: bool = False,
    ) -> None:
        """`kind` is the type of the value in the file, and `default` the value if there is no file or it
        cannot be relied on. `fault` returns why a value of that type cannot be used, or an empty text. If
        `secret` is set, no other user may be able to read the file, and no reason quotes it. Without a
        `path`, the value is in memory only."""
        self.path = path
        self._kind, self._default, self._most_bytes = kind, default, most_bytes
        self._fault, self._secret = fault, secret
        self._current: tuple[T, str] | None = None
        self._seen: tuple[int, ...] | None = None

    @property
    def value(self) -> T:
        """The value as it was last read or written."""
        return self._loaded()[0]

    @property
    def why_unread(self) -> str:
        """Why the file cannot be relied on; empty if it can be, or if there is none."""
        return self._loaded()[1]

    def read(self) -> T:
        """Return the value in the file, or the default if there is no file. Raises OSError, for the content
        of the file `StoreDamaged`."""
        if self.path is None:
            return self._default
        try:
            data = self._read_bytes(self.path)
        except FileNotFoundError:
            return self._default
        try:
            value = msgspec.json.decode(data, type=self._kind)
        except (ValueError, RecursionError) as error:
            # The words of the error may quote the file.
            why = f"it is damaged ({type(error).__name__})" if self._secret else str(error)
            raise StoreDamaged(why) from None
        if why := self._fault(value):
            raise StoreDamaged(why)
        return value

    def reload(self) -> tuple[T, str]:
        """Read the file again. Returns the value, and why the file cannot be relied on."""
        # The stamp is taken first: if the file changes before it is read, `refresh` reads it once more.
        self._seen = self._stamp()
        try:
            self._current = self.read(), ""
        except OSError as error:
            # The earlier value must not stay in force. `refresh` tries again: the reason may pass.
            self._current, self._seen = (self._default, reason_of(error)), None
        return self._current

    def refresh(self) -> None:
        """Read the file again if it changed since it was last read."""
        if self._current is None or self._seen != self._stamp():
            self.reload()

    def write(self, value: T) -> None:
        """Write the value, which is on disk when this returns. Raises OSError; then the earlier value stays
        in the file and in force."""
        if self.path is not None:
            try:
                data = msgspec.json.encode(value) + b"\n"
            except ValueError:
                raise OSError("it holds a text that is not Unicode") from None
            if len(data) > self._most_bytes:
                most = f"{self._most_bytes} bytes"
                raise OSError(f"it would be larger than {most}, and could not be read again")
            private_folder(self.path.parent)
            write_atomic(self.path, data)
        # Only now: what is in force must never be more than what is on disk.
        self._current, self._seen = (value, ""), None

    def replace(self, value: T) -> str:
        """Write the value as `write` does. Returns why that failed, or an empty text."""
        try:
            self.write(value)
        except OSError as error:
            return reason_of(error)
        return ""

    def _loaded(self) -> tuple[T, str]:
        return self._current or self.reload()

    def _stamp(self) -> tuple[int, ...]:
        """Return what changes whenever the file does."""
        if self.path is None:
            return ()
        try:
            facts = os.lstat(self.path)
        except OSError as error:
            return (error.errno or 0,)
        return facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size

    def _read_bytes(self, path: Path) -> bytes:
        folder = open_anchor(path.parent)
        try:
            # O_NONBLOCK: opening a named pipe in the file's place must not wait for a writer.
            descriptor = open_beneath(folder, path.name, os.O_RDONLY | os.O_NONBLOCK)
        finally:
            os.close(folder)
        try:
            # The status of the open descriptor, not of the path: the path may name another file by now.
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError("it is not a file")
            if facts.st_uid != os.geteuid() or facts.st_mode & OTHERS_WRITE:
                raise PermissionError("other users may write to it")
            if self._secret and facts.st_mode & OTHERS_ANYTHING:
                raise PermissionError("other users may read it: its mode must be 0600")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(self._most_bytes + 1)
        finally:
            os.close(descriptor)
        if len(data) > self._most_bytes:
            raise OSError(f"it is larger than {self._most_bytes} bytes")
        return data


def reason_of(error: OSError) -> str:
    """Return an error in words, without its number and path."""
    return error.strerror or str(error)
