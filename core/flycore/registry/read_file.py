"""Reads a registry, policy or settings file of limited size below its anchor, without raising exceptions."""

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
    """Return the text and the bytes of a file; `(None, b"", None)` where there is no file.

    Any other reason why it cannot be read is a diagnostic, in which `shown` is the name of the file. `limit`
    is the most bytes it may have. Where the file cannot be read, the bytes are the text of the reason, so
    that a digest over them still changes.
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
    """Return an error about the file as a whole."""
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
        problem = f"byte 0x{data[error.start]:02x} is not UTF-8"
        return None, syntax_error(text, len(good), shown, problem, "save the file as UTF-8")


def unreadable(error: OSError, limit: int) -> tuple[str, str]:
    """Return why a file of at most `limit` bytes could not be read, and what the reader can do."""
    if isinstance(error, OutsideAnchor):
        return (
            "is a link that leads outside its folder",
            "put the file itself there, or a link that stays inside",
        )
    match error.errno:
        case errno.EFBIG:
            size = f"{limit // 1024} KiB" if limit < 1024 * 1024 else f"{limit // (1024 * 1024)} MiB"
            return f"is larger than {size}", "split or shorten it"
        case errno.EISDIR:
            return "is a folder", "move the folder away and put a file there"
        case errno.EACCES | errno.EPERM:
            return "you may not read it", "run chmod u+r on it and its folders"
        case errno.EINVAL:
            return "is not a regular file", "put a file there"
        case errno.ELOOP:
            return "is a link that leads nowhere", "put the file itself there"
        case _:
            return f"cannot be read: {error.strerror}", "check the file and its folders"
