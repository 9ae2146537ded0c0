"""The exceptions by which a tool reports a failure, and the answer document made of each.

ToolFailed            any failure; the caller finds `code` and the further fields in `details`
├── InvalidInput      the tool cannot use the input; names the field
├── Cancelled         the caller has cancelled the request; raised by `progress` and `log`
└── Unavailable       a program, service or setting that the tool needs is missing; carries the remedy
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ToolFailed(Exception):
    """A failure of a tool: reason code, message, and further fields that can be written as JSON."""

    def __init__(self, code: str, message: str, **fields: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fields = fields

    def answer(self) -> dict[str, object]:
        """The answer document of this failure."""
        # First, to lead the document; last, so that no further field can replace these three.
        own = {"ok": False, "code": self.code, "error": self.message}
        return own | self.fields | own


class InvalidInput(ToolFailed):
    """The tool cannot use the field `field` of the input."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__("invalid-input", f"{field}: {message}", field=field)


class Unavailable(ToolFailed):
    """Something that the tool needs is missing. `remedy` tells the reader what to do about it."""

    def __init__(self, reason: str, remedy: str, **fields: object) -> None:
        super().__init__("unavailable", reason, remedy=remedy, **fields)
        self.remedy = remedy


class Cancelled(ToolFailed):
    """The caller has cancelled the request."""

    def __init__(self) -> None:
        super().__init__("cancelled", "the request was cancelled")


def answer_of(work: Callable[[], dict[str, object]]) -> dict[str, object]:
    """The answer document: the fields that `work` returns, or the failure that it raises.

    An `OSError` becomes the code `os-error` with the name of its `errno`. Other exceptions pass.
    """
    try:
        # `ok` comes twice for the same reason as in `ToolFailed.answer`.
        return {"ok": True} | work() | {"ok": True}
    except ToolFailed as failure:
        return failure.answer()
    except OSError as failure:
        name = errno.errorcode.get(failure.errno or 0, "EIO")
        return ToolFailed("os-error", failure.strerror or type(failure).__name__, errno=name).answer()
