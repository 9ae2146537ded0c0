"""Why a call ends before it runs: a value that every step may return instead of going on."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import Code, Status
from flycore.model.json import Json, JsonObject


class Rejection(Value, frozen=True, kw_only=True):
    """The call ends here, with this status and error."""

    status: Status
    code: str
    message: str
    hint: str = ""
    details: JsonObject = {}  # noqa: RUF012 - msgspec gives each instance its own


def denied(code: Code, message: str, hint: str = "", **details: Json) -> Rejection:
    """A refusal: somebody or something said no."""
    return Rejection(status=Status.DENIED, code=code, message=message, hint=hint, details=dict(details))


def failed(code: Code, message: str, hint: str = "", **details: Json) -> Rejection:
    """A failure that is nobody's decision."""
    return Rejection(status=Status.FAILED, code=code, message=message, hint=hint, details=dict(details))
