"""Reading a registry, policy or settings file: bounded, beneath its anchor, never raising."""

from __future__ import annotations

import errno
from pathlib import Path

from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.registry.jsonc.parse import syntax_error
from flysafe.beneath import OutsideAnchor, read_beneath

MAX_FILE_BYTES = 4 * 1024 * 1024


def read_text(
    anchor: Path, relative: str, shown: str, limit: int = MAX_FILE_BYTES
) -> tuple[str | None, bytes, Diagnostic | None]:
    """The file's text and bytes; `(None, b"", None)` where there is no file.

    Whatever else keeps it from being read is one diagnostic; `shown` is the file's name in it, `limit`
    the most bytes it may have. The bytes are given as far as they are known, so that a changed file has a
    changed digest.
    """
    try:
        data = read_beneath(anchor, relative, limit, links=True)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None, b"", None
        said, remedy = unreadable(error, limit)
        return None, said.encode(), whole_file(shown, "unreadable", said, remedy)
    text, problem = _decode(data, shown)
    return text, data, problem


def whole_file(shown: str, rule: str, message: str, remedy: str) -> Diagnostic:
    """An error about the file as a whole."""
    return Diagnostic(
        severity=Severity.ERROR,
        rule=rule,
        message=f"{shown}: {message}",
        remedy=remedy,
        position=Position(file=shown, line=1, column=1),
    )


def _decode(data: bytes, shown: str) -> tuple[str | None, Diagnostic | None]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None, whole_file(shown, "encoding", "is UTF-16", "save it as UTF-8")
    try:
        return data.decode("utf-8").removeprefix("\ufeff"), None
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8")
        text = good + "\ufffd" + data[error.end : error.end + 200].decode("utf-8", "replace")
        said = f"byte 0x{data[error.start]:02x} is not UTF-8"
        return None, syntax_error(text, len(good), shown, said, "save the file as UTF-8")


def unreadable(error: OSError, limit: int) -> tuple[str, str]:
    """Why a file of at most `limit` bytes could not be read, and what to do."""
    if isinstance(error, OutsideAnchor):
        return "is a link that leads out of its folder", "put the file itself there, or a link that stays"
    match error.errno:
        case errno.EFBIG:
            size = f"{limit // 1024} KiB" if limit < 1024 * 1024 else f"{limit // (1024 * 1024)} MiB"
            return f"is larger than {size}", "split or shorten it"
        case errno.EISDIR:
            return "is a folder", "move the folder away and put a file there"
        case errno.EACCES | errno.EPERM:
            return "may not be read by you", "run chmod u+r on it and its folders"
        case errno.EINVAL:
            return "is not a regular file", "put a file there"
        case errno.ELOOP:
            return "is a link that leads nowhere", "put the file itself there"
        case _:
            return f"cannot be read: {error.strerror}", "check the file and its folders"
