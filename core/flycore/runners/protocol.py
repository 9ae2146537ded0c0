"""The line protocol of persistent processes: a line is an answer, an event, or a violation of the
protocol."""

from __future__ import annotations

import json

import msgspec

from flycore.model.json import JsonObject, StrictJsonError, read_strict
from flycore.runners.output import LONGEST_EVENT, SidecarEvent, event_of, excerpt


class AnswerLine(msgspec.Struct, frozen=True):
    """The answer to the request: an object whose `ok` is true or false, without its `requestId`."""

    document: JsonObject


class BusyLine(msgspec.Struct, frozen=True):
    """The report of a process that work of its own goes on, such as a task in the background, or has
    ended."""

    busy: bool


class ProtocolViolation(msgspec.Struct, frozen=True):
    """A line that the protocol does not allow at this moment; `fault` is a sentence without its subject."""

    fault: str
    excerpt: str


LineMessage = AnswerLine | BusyLine | SidecarEvent | ProtocolViolation


def cancel_line(request_id: str) -> bytes:
    """The line that cancels a request."""
    return json.dumps({"cancel": request_id}).encode() + b"\n"


def read_line(line: bytes, request_id: str) -> LineMessage | None:
    """The meaning of `line` while the request `request_id` is under way; it is empty where none is. None for
    an empty line."""
    if not line.strip():
        return None
    try:
        value = read_strict(line)
    except StrictJsonError as reason:
        return ProtocolViolation(str(reason), excerpt(line))
    if not isinstance(value, dict):
        return ProtocolViolation("is not a JSON object", excerpt(line))
    if "ok" not in value:
        event = _event(value) if len(line) <= LONGEST_EVENT else None
        return event or ProtocolViolation("has no ok, and is no event", excerpt(line))
    if not request_id:
        return ProtocolViolation("came without a request", excerpt(line))
    if not isinstance(value["ok"], bool):
        return ProtocolViolation("has no ok that is true or false", excerpt(line))
    if value.get("requestId") != request_id:
        missing = "answers another request" if "requestId" in value else "names no requestId"
        return ProtocolViolation(missing, excerpt(line))
    return AnswerLine({key: field for key, field in value.items() if key != "requestId"})


def _event(value: JsonObject) -> SidecarEvent | BusyLine | None:
    busy = value.get("busy")
    if value.get("event") == "busy" and isinstance(busy, bool):
        return BusyLine(busy)
    return event_of(value)
