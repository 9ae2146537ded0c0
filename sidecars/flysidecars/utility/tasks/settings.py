"""The settings of the tool: `config.tasks` of the entry."""

from __future__ import annotations

from flysidecars.sdk import JsonObject, ToolFailed, Unavailable

NO_TASKS_ALLOWED = (
    "no command is allowed to run in the background",
    'list the allowed beginnings of commands in config.tasks, as {"allow": [["make"], ["npm", "run"]]}',
)
"""Reason and remedy."""
DEFAULT_MAX_TASKS = 8
DEFAULT_LOG_BYTES = 256 * 1024


class TaskSettings:
    """The settings: allowed commands, the number of tasks, and the bytes of a log.

    Raises `Unavailable` if no command is allowed, and `ToolFailed` (`invalid-config`) for a wrong value.
    """

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
        """Raise `ToolFailed` (`not-allowed`) unless the command begins with an allowed list of words."""
        if not any(command[: len(prefix)] == prefix for prefix in self.allow):
            begins = [" ".join(prefix) for prefix in self.allow]
            raise ToolFailed(
                "not-allowed",
                f"config.tasks.allow of the entry does not allow this command of {command[0]}",
                allowed=begins,
            )


def _allowed(value: object) -> list[list[str]]:
    """The lists of words that commands may begin with. `"any"` is one empty list, which matches all."""
    if value == "any":
        return [[]]
    if value is None:
        return []
    message = 'config.tasks.allow: lists of words are needed, such as [["make"]], or "any"'
    if not isinstance(value, list):
        raise ToolFailed("invalid-config", message)
    for prefix in value:
        if not isinstance(prefix, list) or not prefix or not all(isinstance(word, str) for word in prefix):
            raise ToolFailed("invalid-config", message)
    return value


def _count(own: JsonObject, key: str, default: int, most: int) -> int:
    value = own.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ToolFailed("invalid-config", f"config.tasks.{key}: a whole number from 1 to {most} is needed")
    return value
