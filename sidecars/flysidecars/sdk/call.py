"""A request, with typed access to the fields that the caller sent."""

from __future__ import annotations

from flysidecars.sdk.failures import Cancelled, InvalidInput, ToolFailed, Unavailable
from flysidecars.sdk.permissions import Permissions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from flysidecars.sdk.wire import AnswerWriter

JsonObject = dict[str, object]


class Call:
    """A parsed request.

    The input comes from outside and is not trusted: the accessors check type and range and raise
    `InvalidInput`, which names the field. The constructor raises `ToolFailed` (`invalid-request`).
    """

    __slots__ = (
        "artifact_dir",
        "cancelled",
        "config",
        "delegates",
        "input",
        "out",
        "permissions",
        "persistent",
        "project_dir",
        "raw",
        "request_id",
        "tool",
    )

    def __init__(self, raw: JsonObject, out: AnswerWriter) -> None:
        self.raw = raw
        """The request as it was read."""
        self.out = out
        self.tool = _text_field(raw, "tool")
        self.input = object_field(raw, "input")
        self.config = object_field(raw, "config")
        self.delegates = object_field(raw, "delegates")
        self.permissions = Permissions(raw.get("permissions"), self.input)
        self.project_dir = _text_field(raw, "projectDir")
        self.artifact_dir = _text_field(raw, "artifactDir")
        self.request_id = _text_field(raw, "requestId")
        self.persistent = raw.get("persistent") is True
        """Whether this process stays for further requests."""
        # Set by the thread that reads stdin, in a persistent process, while the tool runs.
        self.cancelled = False
        """Whether the caller has cancelled the request. A slow tool checks this, or reports progress."""
        if not self.tool:
            raise ToolFailed("invalid-request", "the request names no tool")

    @property
    def is_probe(self) -> bool:
        """Whether the request only asks if the tool works."""
        return self.input == {"probe": True}

    def text(self, key: str) -> str:
        """A required string."""
        value = self.input.get(key)
        if not isinstance(value, str):
            raise InvalidInput(key, "a string is needed")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string, or None if the key is absent or null."""
        return None if self.input.get(key) is None else self.text(key)

    def texts(self, key: str) -> list[str]:
        """A required list of strings that is not empty."""
        value = self.input.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
            raise InvalidInput(key, "a list of strings is needed")
        return value

    def choice(self, key: str, options: Collection[str], default: str | None = None) -> str:
        """A string out of `options`; `default` if the key is absent."""
        value = self.input.get(key, default)
        if not isinstance(value, str) or value not in options:
            raise InvalidInput(key, f"one of {', '.join(options)} is needed")
        return value

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number from `low` to `high`; `default` if the key is absent."""
        value = self.input.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidInput(key, f"a whole number from {low} to {high} is needed")
        return value

    def delegate(self, name: str) -> tuple[str, ...] | None:
        """The resolved command of a delegate, or None if none is configured."""
        return delegate_argv(self.delegates, name)

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Send the caller a progress event. Raises `Cancelled` if the request was cancelled."""
        self.raise_if_cancelled()
        event: JsonObject = {"event": "progress", "progress": progress}
        if total is not None:
            event["total"] = total
        if message:
            event["message"] = message
        self.out.send(event)

    def log(self, message: str, level: str = "info") -> None:
        """Send the caller a log event. Raises `Cancelled` if the request was cancelled."""
        self.raise_if_cancelled()
        self.out.send({"event": "log", "level": level, "message": message})

    def raise_if_cancelled(self) -> None:
        """Raise `Cancelled` if the request was cancelled."""
        if self.cancelled:
            raise Cancelled

    def busy(self, busy: bool) -> None:
        """Report that work continues after the answer (`busy` true), or that it has ended.

        The kernel does not end a busy process for idleness. Report true before the answer; another thread
        may report false later. Raises `Unavailable` in a process that serves one call only.
        """
        if not self.persistent:
            raise Unavailable(
                "work that goes on after the answer needs a process that stays",
                'set "kind": "process-json-persistent" of the entry, without secrets or desktop',
            )
        self.out.send({"event": "busy", "busy": busy})


def delegate_argv(delegates: JsonObject, name: str) -> tuple[str, ...] | None:
    """The `argv` of the delegate `name` in a request's `delegates`; None if there is none.

    Raises `ToolFailed` (`invalid-request`) if `argv` is not a list of strings or is empty.
    """
    entry = delegates.get(name)
    if entry is None:
        return None
    argv = entry.get("argv") if isinstance(entry, dict) else None
    if not isinstance(argv, list) or not argv or not all(_is_argument(part) for part in argv):
        raise ToolFailed("invalid-request", f"delegates.{name}.argv is not a list of strings")
    return tuple(argv)


def _is_argument(part: object) -> bool:
    return isinstance(part, str) and "\0" not in part


def object_field(raw: JsonObject, key: str) -> JsonObject:
    """The object at `key`, empty if it is absent or null. Raises `ToolFailed` (`invalid-request`) for any
    other value."""
    value = raw.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ToolFailed("invalid-request", f"`{key}` of the request is not an object")
    return value


def _text_field(raw: JsonObject, key: str) -> str:
    value = raw.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ToolFailed("invalid-request", f"`{key}` of the request is not a string")
    return value
