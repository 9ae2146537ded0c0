"""What the system's loader reads for a native program (ELF): its own loader, and the folders of its
libraries."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from flycore.sandbox.observed_files import is_unchanging, real_path

_READ = 16 << 20
"""Bytes of headers, names and tables that are read of a program at most, each."""
_INTERP, _DYNAMIC, _LOAD = 3, 2, 1
_NEEDED, _STRTAB, _RPATH, _RUNPATH, _STRSZ = 1, 5, 15, 29, 10
NOT_NATIVE = "it is neither a script nor a native program that flytui can read"


def loads_from(path: str, root: str) -> str:
    """Why the loader may load changeable files for the native program at `path`; empty where it does not.

    `root` is the folder that is copied with the program: libraries below it are sealed with it.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:4] != b"\x7fELF" or head[4] not in (1, 2) or head[5] != 1:
                return NOT_NATIVE
            return next(_problems(_Elf(file.fileno(), head), os.path.dirname(path), root), "")
    except (OSError, ValueError, struct.error, OverflowError):
        return NOT_NATIVE


class _Elf:
    """The parts of a program's file that its loader reads."""

    def __init__(self, descriptor: int, head: bytes) -> None:
        self._descriptor = descriptor
        self._wide = head[4] == 2
        offset, size, count = (
            (*struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54))
            if self._wide
            else (*struct.unpack_from("<I", head, 28), *struct.unpack_from("<HH", head, 42))
        )
        table = self._read(offset, size * count)
        form = "<IIQQQQ" if self._wide else "<IIIIII"
        self.segments = []
        for at in range(0, size * count, max(size, 1)):
            fields = struct.unpack_from(form, table, at)
            kind, start, address, length = (
                (fields[0], fields[2], fields[3], fields[5])
                if self._wide
                else (fields[0], fields[1], fields[2], fields[4])
            )
            self.segments.append((kind, start, address, length))

    def _read(self, offset: int, size: int) -> bytes:
        if size > _READ:
            raise ValueError("a table is larger than that of any program")
        return os.pread(self._descriptor, size, offset)

    @property
    def loader(self) -> str:
        """The loader that the program names; empty for a static program."""
        for kind, start, _, length in self.segments:
            if kind == _INTERP:
                return os.fsdecode(self._read(start, length).rstrip(b"\0"))
        return ""

    def dynamic(self) -> Iterator[tuple[int, str]]:
        """The names of libraries, and of folders to look for them, with their kind."""
        entries: list[tuple[int, int]] = []
        for kind, start, _, length in self.segments:
            if kind == _DYNAMIC:
                table = self._read(start, length)
                form = "<qQ" if self._wide else "<iI"
                step = struct.calcsize(form)
                entries = [
                    struct.unpack_from(form, table, at) for at in range(0, len(table) - step + 1, step)
                ]
        facts = dict(entries)
        names = self._read(self._offset(facts.get(_STRTAB, 0)), facts.get(_STRSZ, 0)) if entries else b""
        for tag, value in entries:
            if tag in (_NEEDED, _RPATH, _RUNPATH):
                yield tag, os.fsdecode(names[value : names.index(b"\0", value)])

    def _offset(self, address: int) -> int:
        for kind, start, begin, length in self.segments:
            if kind == _LOAD and begin <= address < begin + length:
                return int(start + address - begin)
        raise ValueError("the table of names is in no segment")


def _problems(elf: _Elf, folder: str, root: str) -> Iterator[str]:
    loader = elf.loader
    if loader and not _keeps(loader):
        yield f"its loader {loader} can be changed"
    for tag, value in elf.dynamic():
        if tag == _NEEDED and "/" in value and not _keeps(value):
            yield f"its library {value} can be changed"
        for named in value.split(":") if tag in (_RPATH, _RUNPATH) else ():
            place = os.path.normpath(named.replace("${ORIGIN}", folder).replace("$ORIGIN", folder))
            inside = "$ORIGIN" in named or "${ORIGIN}" in named
            if inside and (place + "/").startswith(root.rstrip("/") + "/"):
                continue
            if not _keeps(named):
                yield f"its libraries may come from {named or 'its working folder'}, which can be changed"


def _keeps(path: str) -> bool:
    """Whether the path is absolute, there, and nothing that this user can change."""
    if not path.startswith("/"):
        return False
    real = real_path(path)
    return real is not None and is_unchanging(real)
