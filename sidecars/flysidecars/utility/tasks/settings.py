"""What the entry allows: `config.tasks`."""

from __future__ import annotations

from flysidecars.sdk import JsonObject, ToolFailed, Unavailable

NO_TASKS_ALLOWED = (
    "no command is allowed to run in the background",
    'set config.tasks of the entry, such as {"allow": [["make"], ["npm", "run"]]}: how commands may begin',
)
"""Why, and what to do."""
DEFAULT_MAX_TASKS = 8
DEFAULT_LOG_BYTES = 256 * 1024


class TaskSettings:
    """Raises `Unavailable` where nothing is allowed, `ToolFailed` (`invalid-config`) for what cannot be
    read."""

    def __init__(self, config: JsonObject) -> None:
        own = config.get("tasks")
        if own is None:
            raise Unavailable(*NO_TASKS_ALLOWED)
        if not isinstance(own, dict):
            raise ToolFailed("invalid-config", "config.tasks: an object is needed")
        self.allow = _allowed(own.get("allow"))
        self.max_tasks = _count(own, "most", DEFAULT_MAX_TASKS, 64)
        self.log_bytes = _count(own, "logBytes", DEFAULT_LOG_BYTES, 64 * 1024 * 1024)
        if not self.allow:
            raise Unavailable(*NO_TASKS_ALLOWED)

    def check(self, command: list[str]) -> None:
        """Raises `ToolFailed` (`not-allowed`) for a command that begins with none of what is allowed."""
        if not any(command[: len(prefix)] == prefix for prefix in self.allow):
            begins = [" ".join(prefix) for prefix in self.allow]
            raise ToolFailed(
                "not-allowed",
                f"config.tasks.allow of the entry does not hold {command[0]}",
                allowed=begins,
            )


def _allowed(value: object) -> list[list[str]]:
    """The beginnings; `"any"` is the empty one."""
    if value == "any":
        return [[]]
    if value is None:
        return []
    said = 'config.tasks.allow: lists of words are needed, such as [["make"]], or "any"'
    if not isinstance(value, list):
        raise ToolFailed("invalid-config", said)
    for prefix in value:
        if not isinstance(prefix, list) or not prefix or not all(isinstance(word, str) for word in prefix):
            raise ToolFailed("invalid-config", said)
    return value


def _count(own: JsonObject, key: str, default: int, most: int) -> int:
    value = own.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ToolFailed("invalid-config", f"config.tasks.{key}: a whole number from 1 to {most} is needed")
    return value
