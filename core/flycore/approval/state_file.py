"""Reads and writes the state files of a root that decide what may run.

Such a file is read only where nobody else can have written it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from flycore.model.json import Json, canonical_json
from flysafe.atomic import private_folder, write_atomic


def read_state(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a file. Raises OSError where it is a link, not this user's, writable by others, or
    larger than `most_bytes`."""
    # O_NONBLOCK: opening a named pipe in the file's place must not wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        # The status of the open descriptor, not of the path: the path may name another file by now.
        status = os.fstat(descriptor)
        foreign = status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(status.st_mode) or foreign:
            raise PermissionError("the file is not this user's alone")
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError("the file is too large")
    return data


def write_state(path: Path, document: Json, most_bytes: int) -> None:
    """Write the document as canonical JSON. It is whole and on disk when this returns. Raises OSError, also
    for a document that is too large to be read again."""
    data = canonical_json(document).encode("ascii") + b"\n"
    if len(data) > most_bytes:
        raise OSError(f"it would be larger than {most_bytes} bytes, and could not be read again")
    private_folder(path.parent)
    write_atomic(path, data)
