"""How a tool says that it did not do its work, and the answer that this becomes.

ToolFailed            any failure; `code` and the further fields reach the caller's `details`
├── InvalidInput      the input cannot be acted on; names the field
├── Cancelled         the caller does not wait any longer; raised by `progress` and `log`
└── Unavailable       what the tool stands on is not there; carries the remedy
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ToolFailed(Exception):
    """A failure as a value of the protocol: code, sentence and further fields, all JSON."""

    def __init__(self, code: str, message: str, **fields: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fields = fields

    def answer(self) -> dict[str, object]:
        """The answer document."""
        own = {"ok": False, "code": self.code, "error": self.message}
        return own | self.fields | own


class InvalidInput(ToolFailed):
    """The input is not something the tool can act on."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__("invalid-input", f"{field}: {message}", field=field)


class Unavailable(ToolFailed):
    """What the tool stands on is missing; `remedy` is the next action a person can take."""

    def __init__(self, reason: str, remedy: str, **fields: object) -> None:
        super().__init__("unavailable", reason, remedy=remedy, **fields)
        self.remedy = remedy


class Cancelled(ToolFailed):
    """The request was taken back."""

    def __init__(self) -> None:
        super().__init__("cancelled", "the request was taken back")


def answer_of(work: Callable[[], dict[str, object]]) -> dict[str, object]:
    """The answer document: what the work returns, or the failure that it names."""
    try:
        return {"ok": True} | work() | {"ok": True}
    except ToolFailed as failure:
        return failure.answer()
    except OSError as failure:
        name = errno.errorcode.get(failure.errno or 0, "EIO")
        return ToolFailed("os-error", failure.strerror or type(failure).__name__, errno=name).answer()
