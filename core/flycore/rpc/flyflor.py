"""The form of Flyflor for messages of `flyflor.ws.v1`: what its published clients send and read.

The table *Two dialects* in docs/protocol.md lists every difference from flytui's own form. A client chooses
the form: from its first message whose `at` is text, it gets answers and events in the form of Flyflor, with
flytui's keys beside Flyflor's where the names differ. `server.hello` comes before any message: over TCP, the
way of Flyflor's clients, it has both. Nothing here decides or runs anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from flycore.model.approval import Ask
from flycore.model.base import Value
from flycore.model.call import Activity
from flycore.model.described import Described, SourceKind
from flycore.model.enums import RequestState, Status
from flycore.model.json import Json, JsonObject

KITS_SCHEMA = 1
DEFAULT_TURNS = 20
"""Turns of a history that names no limit."""
MOST_TURNS = 200
"""Most turns of one history, whatever limit it names."""
MAX_TEXT_CHARS = 2_000
"""Longest text of a turn. `history.detail.get` gives the whole call."""
SEMANTIC_TYPES = ("ask", "data", "error", "event", "ping", "pong")
"""The groups of messages that the kernel serves. `input`, `stream` and `todo` belong to Flyflor's chat."""
EMPTY_READS: Mapping[str, tuple[str, Json]] = {
    "task.list": ("task.snapshot", []),
    "task.detail.get": ("task.snapshot", None),
    "fork.memory.get": ("fork.memory.snapshot", {"forks": []}),
    "fork.list": ("fork.snapshot", []),
    "fork.detail.get": ("fork.snapshot", None),
    "scope.list": ("scope.snapshot", []),
    "scope.detail.get": ("scope.snapshot", None),
    "blackboard.list": ("blackboard.snapshot", []),
    "blackboard.detail.get": ("blackboard.snapshot", None),
    "replay.list": ("replay.snapshot", []),
    "replay.detail.get": ("replay.snapshot", None),
    "thought.detail.get": ("thought.snapshot", None),
    "crystal.list": ("crystal.snapshot", []),
    "execution.job.list": ("execution.job.snapshot", []),
    "execution.job.detail.get": ("execution.job.snapshot", None),
}
"""Reads of Flyflor's memory, which flytui does not have: the type of the answer and its `data`."""


class KitCatalog(Value, frozen=True, kw_only=True):
    """Kits, and what else was found and is described, as Flyflor publishes them."""

    schema_version: int
    built_at: str
    """RFC 3339, UTC."""
    kits: tuple[JsonObject, ...]
    """Kits. `kind` is `cli`, `tui`, `gateway` or `capability`."""
    capabilities: tuple[JsonObject, ...]
    """Skills, plugins and MCP servers of other clients. The kernel describes them and never runs them."""


class ToolExecution(Value, frozen=True, kw_only=True):
    """The call of one turn of a history."""

    capability_kind: str
    key: str
    """Name of the tool."""
    ok: bool
    error: str = ""
    """Code and message of the failure; empty where the call succeeded or still runs."""


class HistoryTurn(Value, frozen=True, kw_only=True):
    """One call as a turn of a history."""

    event_id: str
    """Id of the call."""
    ts: int
    """Unix time in milliseconds at which the call arrived."""
    user_text: str
    """The tool and its input, with secrets masked."""
    assistant_text: str
    """How the call ended; its phase while it runs."""
    executive_tool_executions: tuple[ToolExecution, ...]
    metadata: JsonObject


class History(Value, frozen=True, kw_only=True):
    """The turns of a history in order of time, and the time before which earlier ones are to be asked for."""

    history: tuple[HistoryTurn, ...]
    next_before_ts: int | None = None


def rfc3339(seconds: float) -> str:
    """Return a Unix time as text, in UTC and with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def kit_catalog(described: Iterable[Described], built_at: float) -> KitCatalog:
    """Return kits and other described things, built at that Unix time."""
    kits: list[JsonObject] = []
    others: list[JsonObject] = []
    for item in described:
        document: JsonObject = msgspec.to_builtins(item)
        if item.kind is SourceKind.KIT:
            kits.append({**document, "kind": item.type or "capability"})
        else:
            others.append(document)
    return KitCatalog(
        schema_version=KITS_SCHEMA,
        built_at=rfc3339(built_at),
        kits=tuple(kits),
        capabilities=tuple(others),
    )


def gateway_status(clients: int, listening: Sequence[str], since: float) -> JsonObject:
    """Return the state of the kernel with the keys of Flyflor's gateway. It has no chat channel."""
    url = next((address for address in listening if address.startswith("ws://")), "")
    host, _, port = url.removeprefix("ws://").partition("/")[0].rpartition(":")
    return {
        "gatewayRunning": True,
        "host": host or "127.0.0.1",
        "port": int(port) if port.isdigit() else 0,
        **({"url": url} if url else {}),
        "startedAt": rfc3339(since),
        "channels": [],
        "clientCount": clients,
        "connectedCount": clients,
        "degradedCount": 0,
        "streamingCount": 0,
    }


def history(calls: Iterable[Activity], limit: int | None, before_ms: int | None) -> History:
    """Return the newest calls that arrived at `before_ms` or earlier, as turns in order of time."""
    turns = sorted((_turn(call) for call in calls), key=lambda turn: turn.ts)
    if before_ms is not None:
        turns = [turn for turn in turns if turn.ts <= before_ms]
    most = min(DEFAULT_TURNS if limit is None else max(0, limit), MOST_TURNS)
    shown = turns[len(turns) - most :] if most < len(turns) else turns
    return History(history=tuple(shown), next_before_ts=shown[0].ts - 1 if shown else None)


def narrowed(
    calls: tuple[Activity, ...], turns: History, limit: int | None, before_ms: int | None
) -> tuple[Activity, ...]:
    """Return the calls of those turns; all calls where neither a limit nor a time was named."""
    if limit is None and before_ms is None:
        return calls
    shown = {turn.event_id for turn in turns.history}
    return tuple(call for call in calls if call.call_id in shown)


def _turn(call: Activity) -> HistoryTurn:
    result = call.result
    error = f"{result.error.code}: {result.error.message}"[:MAX_TEXT_CHARS] if result and result.error else ""
    return HistoryTurn(
        event_id=call.call_id,
        ts=round(call.started_at * 1000),
        user_text=f"{call.tool} {call.input_text}".strip()[:MAX_TEXT_CHARS],
        assistant_text=call.phase.value if result is None else error or result.status.value,
        executive_tool_executions=(
            ToolExecution(
                capability_kind="external",
                key=call.tool,
                ok=result is not None and result.status is Status.SUCCESS,
                error=error,
            ),
        ),
        metadata={"kind": "reply", "messageId": call.call_id},
    )


def confirms(asks: Iterable[Ask], limit: int) -> list[JsonObject]:
    """Return the approval requests as confirmations, newest first. They say what was decided, and by whom."""
    newest = sorted(asks, key=lambda ask: ask.request.asked_at, reverse=True)
    return [_confirm(ask) for ask in newest[: max(0, min(limit, MOST_TURNS))]]


def _confirm(ask: Ask) -> JsonObject:
    request = ask.request
    waiting = ask.state is RequestState.WAITING
    return {
        "askEventId": request.id,
        "snapshotId": request.call_id,
        "sourceKey": request.tool,
        "sourceSurface": "flytui",
        "status": "active" if waiting else "answered",
        "confirmAnswer": {
            "summary": f"{request.tool}: {ask.state.value}",
            "choiceIds": [] if waiting else [ask.state.value],
            "decidedBy": ask.decided_by,
        },
        "event": {"id": request.id, "type": "ask"},
    }


def ask_data(ask: JsonObject) -> JsonObject:
    """Return an approval request, as JSON, in the form of Flyflor's asks. It offers no choice."""
    request: Any = ask["request"]
    return {
        "status": "active" if ask["state"] == RequestState.WAITING.value else "answered",
        "ask": {"reason": "approval", "prompt": request["effect"], "freeform": False, "choices": []},
        "event": {"id": request["id"], "type": "ask"},
    }


def turn_data(calls: Sequence[Activity]) -> JsonObject | None:
    """Return the details of one call as those of a turn; None where there is no such call."""
    if not calls:
        return None
    turn = history(calls, 1, None).history[0]
    event: JsonObject = {"id": turn.event_id, "type": "event"}
    return {"turn": msgspec.to_builtins(turn), "event": event, "asks": [], "taskPlans": [], "replays": []}


def event_payload(payload: JsonObject, message_id: str) -> JsonObject:
    """Return the payload of `event.publish` with Flyflor's `event` beside flytui's keys."""
    at: Any = payload["at"]
    return {**payload, "event": {**payload, "id": message_id, "at": rfc3339(at)}}
