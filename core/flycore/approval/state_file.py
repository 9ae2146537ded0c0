"""Files of a root's state that decide what may run: read only where nobody else can have written them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from flycore.model.json import Json, canonical_json
from flysafe.atomic import private_folder, write_atomic


def read_state(path: Path, most_bytes: int) -> bytes:
    """The bytes of a file. Raises OSError where it is a link, not this user's, writable by others, or larger
    than `most_bytes`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        # Of the open descriptor, not of the path: the file cannot be another one by the time it is read.
        status = os.fstat(descriptor)
        foreign = status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(status.st_mode) or foreign:
            raise PermissionError("the file is not this user's alone")
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError("the file is too large")
    return data


def write_state(path: Path, document: Json, most_bytes: int) -> None:
    """Write the document as canonical JSON, whole and on disk when this returns. Raises OSError, also for
    one that `read_state` would refuse."""
    data = canonical_json(document).encode("ascii") + b"\n"
    if len(data) > most_bytes:
        raise OSError(f"more than {most_bytes} bytes are not read again")
    private_folder(path.parent)
    write_atomic(path, data)
