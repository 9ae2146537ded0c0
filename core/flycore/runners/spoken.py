"""What one line of a process that stays means: an answer to what it was asked, an event, or a breach."""

from __future__ import annotations

import json
from dataclasses import dataclass

from flycore.model.json import JsonObject, NotStrict, read_strict
from flycore.runners.answer import LONGEST_EVENT, SidecarEvent, event_of, excerpt


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer that was waited for: an object whose `ok` is true or false, without its `requestId`."""

    document: JsonObject


@dataclass(frozen=True, slots=True)
class Busy:
    """Whether work of its own goes on in the process, such as a task in the background."""

    busy: bool


@dataclass(frozen=True, slots=True)
class Breach:
    """Nothing that may be said now; `fault` is a sentence without its subject."""

    fault: str
    excerpt: str


Spoken = Answered | Busy | SidecarEvent | Breach


def cancel_line(request_id: str) -> bytes:
    """The line that takes a request back."""
    return json.dumps({"cancel": request_id}).encode() + b"\n"


def read_line(line: bytes, request_id: str) -> Spoken | None:
    """What `line` says while `request_id` is waited for (empty: nothing is). None for an empty line."""
    if not line.strip():
        return None
    try:
        value = read_strict(line)
    except NotStrict as reason:
        return Breach(str(reason), excerpt(line))
    if not isinstance(value, dict):
        return Breach("is not a JSON object", excerpt(line))
    if "ok" not in value:
        event = _event(value) if len(line) <= LONGEST_EVENT else None
        return event or Breach("has no ok, and is no event", excerpt(line))
    if not request_id:
        return Breach("came while nothing was asked", excerpt(line))
    if not isinstance(value["ok"], bool):
        return Breach("has no ok that is true or false", excerpt(line))
    if value.get("requestId") != request_id:
        missing = "answers another request" if "requestId" in value else "names no requestId"
        return Breach(missing, excerpt(line))
    return Answered({key: field for key, field in value.items() if key != "requestId"})


def _event(value: JsonObject) -> SidecarEvent | Busy | None:
    busy = value.get("busy")
    if value.get("event") == "busy" and isinstance(busy, bool):
        return Busy(busy)
    return event_of(value)
