"""Reads a child's stdout: leading event lines, then one answer.

The answer is the rest of stdout as one JSON object; where the rest is not one, it is the first line that is a
JSON object with `ok`.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import msgspec

from flycore.model.enums import Code, ReasonCode, Status
from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict

EXCERPT = 400
"""How many characters are shown of an answer that cannot be read."""
LINES_TRIED = 1_000
"""How many lines of a malformed answer are parsed in search of the answer."""
LONGEST_EVENT = 65_536
"""Bytes of the longest event line."""
_LONGEST_MESSAGE = 2_000
LEVELS = ("debug", "info", "warning", "error")
"""The levels of a log event, the least urgent first."""


class SidecarEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A progress report of the child, or a line for the log."""

    message: str
    progress: float | None = None
    total: float | None = None
    level: str = ""
    """The level of a log event: debug, info, warning or error; empty for progress."""
    log: JsonObject | None = None
    """A log message of an MCP server, which only the caller gets; None for any other event."""


OnEvent = Callable[[SidecarEvent], None]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as status and code. `output` is used for success, the fields of the error for any other
    status."""

    status: Status
    code: str = ""
    message: str = ""
    hint: str = ""
    details: JsonObject = msgspec.field(default_factory=dict)
    output: JsonObject = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()


MOST_EVENTS = 50
"""Events of one child that are reported within `EVENT_SECONDS`; each of them is sent to the caller and to
every console. Further ones are counted."""
EVENT_SECONDS = 0.5


class EventBudget:
    """Says of each event of one child whether it is reported. `left_out` counts the others."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._until = 0.0
        self._reported = 0
        self.left_out = 0

    def admits(self) -> bool:
        """Count one event, and return whether it is reported."""
        now = self._monotonic()
        if now >= self._until:
            self._until, self._reported = now + EVENT_SECONDS, 0
        if self._reported >= MOST_EVENTS:
            self.left_out += 1
            return False
        self._reported += 1
        return True

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning that events were left out, where some were."""
        if not self.left_out:
            return ()
        most = f"at most {MOST_EVENTS} are reported within {EVENT_SECONDS} seconds"
        return (f"{self.left_out} events of the sidecar were left out: {most}",)


def may_be_event(line: bytes) -> bool:
    """Whether the line looks like an event. It is not parsed, which would take a hundred times as long."""
    text = line.strip()
    return (
        len(line) <= LONGEST_EVENT
        and text.startswith(b"{")
        and text.endswith(b"}")
        and b'"event"' in text
        and b'"ok"' not in text
    )


class EventFeed:
    """Takes stdout as it arrives and reports its leading event lines at once.

    `length` is the number of bytes that these lines have; the answer follows them.
    """

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self.budget = EventBudget()
        self._line = bytearray()
        self._done = False
        self.length = 0

    def take(self, data: bytes) -> None:
        """Take the next bytes of stdout."""
        if self._done:
            return
        # Only new bytes are searched for the end of a line: a child that writes byte by byte costs no more.
        scanned = len(self._line)
        self._line += data
        while not self._done:
            end = self._line.find(b"\n", scanned)
            if end < 0:
                self._done = len(self._line) > LONGEST_EVENT
                return
            self._take(bytes(self._line[:end]), end + 1)
            del self._line[: end + 1]
            scanned = 0

    def finish(self) -> None:
        """Take the end of stdout: a last line without a newline counts as a line."""
        if not self._done and self._line:
            self._take(bytes(self._line), len(self._line))

    def _take(self, line: bytes, size: int) -> None:
        # A child that writes events without end must not hold the event loop: what looks like one too many
        # is not parsed.
        if may_be_event(line) and not self.budget.admits():
            self.length += size
            return
        event = read_event(line)
        if event is None and line.strip():
            self._done = True
            return
        self.length += size
        if event is not None and self._on_event is not None:
            self._on_event(event)


def read_event(line: bytes) -> SidecarEvent | None:
    """The event that the line holds; None where it holds none. Fields of a wrong type are left out."""
    if len(line) > LONGEST_EVENT or b'"event"' not in line:
        return None
    try:
        value = read_strict(line)
    except StrictJsonError:
        return None
    return event_of(value) if isinstance(value, dict) and "ok" not in value else None


def event_of(value: JsonObject) -> SidecarEvent | None:
    """The event that a document without `ok` describes; None where it describes none."""
    text = value.get("message")
    message = text[:_LONGEST_MESSAGE] if isinstance(text, str) else ""
    if value.get("event") == "progress":
        return SidecarEvent(
            message=message, progress=_number(value.get("progress")), total=_number(value.get("total"))
        )
    if value.get("event") == "log":
        level = value.get("level")
        return SidecarEvent(
            message=message, level=level if isinstance(level, str) and level in LEVELS else "info"
        )
    return None


def read_answer(rest: bytes, exit_code: int, stderr_tail: str) -> Answer:
    """The answer that follows from `rest`, which is stdout without its leading events, and from the exit
    code."""
    document, fault, warnings = _find_document(rest)
    if document is not None and isinstance(document.get("ok"), bool):
        return answer_of(document, exit_code, stderr_tail, warnings)
    if exit_code != 0:
        return Answer(
            status=Status.FAILED,
            code=Code.EXIT,
            message=f"the sidecar {exit_words(exit_code)} without an answer",
            hint="its stderr may say why",
            details=exit_facts(exit_code, stderr_tail),
        )
    return Answer(
        status=Status.FAILED,
        code=Code.INVALID_OUTPUT,
        message=f"the answer {fault or 'has no ok that is true or false'}",
        hint="a sidecar prints one JSON object with ok on stdout, and everything else on stderr",
        details={**exit_facts(exit_code, stderr_tail), "excerpt": excerpt(rest)},
    )


def exit_words(exit_code: int) -> str:
    """The exit in words, such as `exited with 3` or `was ended by SIGSEGV`."""
    if exit_code >= 0:
        return f"exited with {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"


def _find_document(rest: bytes) -> tuple[JsonObject | None, str, tuple[str, ...]]:
    """The answer's object, or the reason why there is none, and warnings about ignored output."""
    if not rest or rest.isspace():
        return None, "is empty", ()
    try:
        whole = read_strict(rest)
    except StrictJsonError as reason:
        fault = str(reason)
    else:
        if isinstance(whole, dict):
            return whole, "", ()
        fault = "is not a JSON object"
    return _first_answering_line(rest, fault)


def _first_answering_line(rest: bytes, fault: str) -> tuple[JsonObject | None, str, tuple[str, ...]]:
    tried = 0
    start = 0
    while start < len(rest) and tried < LINES_TRIED:
        end = rest.find(b"\n", start)
        end = len(rest) if end < 0 else end
        line = rest[start:end].strip()
        if line.startswith(b"{") and line.endswith(b"}") and b'"ok"' in line:
            tried += 1
            value = _object_or_none(line)
            if value is not None and "ok" in value:
                return value, "", _overlooked(rest[:start], rest[end:])
        start = end + 1
    return None, fault, ()


def _object_or_none(line: bytes) -> JsonObject | None:
    try:
        value = read_strict(line)
    except StrictJsonError:
        return None
    return value if isinstance(value, dict) else None


def _overlooked(before: bytes, after: bytes) -> tuple[str, ...]:
    return tuple(
        f"{len(text.strip())} bytes {where} the answer on stdout were ignored"
        for text, where in ((before, "before"), (after, "after"))
        if text.strip()
    )


def answer_of(
    answer: JsonObject, exit_code: int | None, stderr_tail: str, warnings: tuple[str, ...] = ()
) -> Answer:
    """The meaning of an answer, whose `ok` is true or false, together with the exit code, which is None for a
    process that goes on."""
    fields = {key: value for key, value in answer.items() if key != "ok"}
    if answer["ok"] is True and not exit_code:
        return Answer(status=Status.SUCCESS, output=fields, warnings=warnings)
    facts = exit_facts(exit_code, stderr_tail)
    details: JsonObject = {**fields, **facts}
    # What the program says of a child of its own stays beside what the kernel found of the program.
    if own := {key: fields[key] for key in facts if key in fields and fields[key] != facts[key]}:
        details["answer"] = own
    if answer["ok"] is True and exit_code:
        return Answer(
            status=Status.FAILED,
            code=Code.EXIT,
            message=f"the sidecar answered, but {exit_words(exit_code)}",
            hint="its stderr may say why",
            details=details,
            warnings=warnings,
        )
    details.pop("error", None)
    unavailable = fields.get("code") == "unavailable"
    return Answer(
        status=Status.UNAVAILABLE if unavailable else Status.FAILED,
        code=ReasonCode.TOOL_UNAVAILABLE if unavailable else Code.FAILED,
        message=_words(fields, "error") or "the sidecar gave no reason",
        hint=_words(fields, "remedy") or _words(fields, "hint"),
        details=details,
        warnings=warnings,
    )


def not_done(why: str, fields: JsonObject) -> Answer:
    """The answer of a program that says success and shows that it has not done what was asked. `fields` are
    those of its answer."""
    return Answer(
        status=Status.FAILED,
        code=Code.NOT_DONE,
        message=f"the sidecar answered success, but nothing shows that it was done: {why}",
        hint="look what has happened before you call again; the entry's program may read other fields",
        details=dict(fields),
    )


def exit_facts(exit_code: int | None, stderr_tail: str) -> JsonObject:
    """The facts that the kernel found itself, for the details of a failure. `exit_code` is None for a process
    that has not exited."""
    facts: JsonObject = {} if exit_code is None else {"exitCode": exit_code}
    if exit_code is not None and exit_code < 0:
        facts["signal"] = exit_words(exit_code).rpartition(" ")[2]
    if stderr_tail.strip():
        facts["stderr"] = stderr_tail.strip()[-_LONGEST_MESSAGE:]
    return facts


def excerpt(rest: bytes) -> str:
    """The beginning of output that cannot be read as an answer."""
    return rest[: 4 * EXCERPT].decode("utf-8", "replace")[:EXCERPT]


def _words(fields: JsonObject, key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
