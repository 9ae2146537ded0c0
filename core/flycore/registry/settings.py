"""The settings of a person in `config.jsonc`. For a setting with an error, the default is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Position, Severity, nearest
from flycore.model.enums import Level, Risk
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.registry.jsonc.parse import finding, read_jsonc
from flycore.registry.jsonc.spans import SpanIndex
from flycore.registry.paths import SETTINGS_FILE
from flycore.registry.read_file import read_text

Choice = TypeVar("Choice", Risk, Level)


class SettingError(Exception):
    """The value is not valid for the setting. The text says which values are."""


def integer(low: int, high: int) -> Callable[[Json], int]:
    """Return a check for an integer from `low` to `high`."""

    def check(value: Json) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise SettingError(f"must be a whole number from {low} to {high}")
        return value

    return check


def one_of(kind: type[Choice]) -> Callable[[Json], Choice]:
    """Return a check for the value of a member of `kind`, which gives the member."""

    def check(value: Json) -> Choice:
        for member in kind:
            if value == member.value:
                return member
        raise SettingError(f"must be one of {', '.join(kind)}")

    return check


def one_word_of(*words: str) -> Callable[[Json], str]:
    """Return a check for one of these strings."""

    def check(value: Json) -> str:
        if not isinstance(value, str) or value not in words:
            raise SettingError(f"must be one of {', '.join(words)}")
        return value

    return check


def boolean(value: Json) -> bool:
    """Return a boolean. Raises SettingError."""
    if not isinstance(value, bool):
        raise SettingError("must be true or false")
    return value


def text(value: Json) -> str:
    """Return a string. Raises SettingError."""
    if not isinstance(value, str):
        raise SettingError("must be a string")
    return value


def json_object(value: Json) -> JsonObject:
    """Return an object with any contents. Raises SettingError."""
    if not isinstance(value, dict):
        raise SettingError("must be an object")
    return value


def argument_list(value: Json) -> tuple[str, ...]:
    """Return a program and its arguments; a single string is the program. Raises SettingError."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise SettingError("must be the name of a program, or a list of the name and the arguments")
    return tuple(str(word) for word in words)


def tool_patterns(value: Json) -> tuple[str, ...]:
    """Return patterns of tool names. Raises SettingError."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise SettingError("must be a list of tool names, in which * stands for anything")
    return tuple(str(item) for item in value)


T = TypeVar("T")
COLOURS = ("auto", "24-bit", "256", "16")
"""How many colours the console draws: what the terminal promises, or one of these."""
PICTURES = ("auto", "kitty", "sixel", "blocks")
"""How the console draws pictures: as the terminal answers, or in one of these ways. `blocks` are ordinary
cells."""
MAX_TIMEOUT_MS = 7 * 24 * 3_600_000
DEFAULT_APPROVAL_MS = 600_000


class ApprovalTimes(Value, frozen=True, kw_only=True):
    """How long a request waits for a person, in milliseconds, for each risk."""

    low: int = DEFAULT_APPROVAL_MS
    medium: int = DEFAULT_APPROVAL_MS
    high: int = DEFAULT_APPROVAL_MS
    critical: int = DEFAULT_APPROVAL_MS

    def of(self, risk: Risk) -> int:
        """Return the milliseconds for a call of that risk."""
        return {
            Risk.LOW: self.low,
            Risk.MEDIUM: self.medium,
            Risk.HIGH: self.high,
            Risk.CRITICAL: self.critical,
        }[risk]


class Settings(Value, frozen=True, kw_only=True):
    """All settings. The defaults are those of a person without a file."""

    approval_times: ApprovalTimes = ApprovalTimes()
    """`approvals.timeoutMs`"""
    inline_wait_ms: int = 25_000
    """`approvals.inlineWaitMs`: how long a call waits for a person before its caller gets a ticket."""
    queue_per_caller: int = 5
    queue_total: int = 20
    calls_per_minute: int = 600
    asked_per_minute: int = 60
    running: int = 8
    high_risk_per_session: int = 50
    risk: dict[str, Risk] = msgspec.field(default_factory=dict)
    """The risk that the person assigns to a tool, by the name of the tool."""
    sandbox_minimum: dict[str, Level] = msgspec.field(default_factory=dict)
    """The weakest sandbox level at which a tool may run, by the name of the tool."""
    sandbox_network: dict[str, bool] = msgspec.field(default_factory=dict)
    """Whether the kernel's own tools that run programs have the network, by the name of the tool."""
    audit_outputs: bool = False
    max_permissions: JsonObject | None = None
    """`security.max_permissions`: the most that a tool made by an agent may be permitted; None where it is
    not set."""
    idle_minutes: int = 10
    """`kernel.idleMinutes`: how long a kernel that a command started stays after its last client has left."""
    notify_command: tuple[str, ...] = ()
    keys: dict[str, str] = msgspec.field(default_factory=dict)
    theme: str = ""
    colours: str = "auto"
    """How many colours the console draws."""
    pictures: str = "auto"
    """How the console draws pictures."""
    hide_degraded: tuple[str, ...] = ()
    """`agents.hideDegraded`: patterns of tools that agents are not shown while they are degraded."""
    agent_reads: bool = True
    """`agents.readOnly`: whether commands and reads of coding agents that only read within the project folder
    need nobody."""


_UNREAD = Settings(agent_reads=False)
"""The settings where the file cannot be read. What a person may have switched off is off."""


class ReadSettings(NamedTuple):
    """The settings, the problems of their file, and the positions of its values."""

    settings: Settings
    problems: tuple[Diagnostic, ...] = ()
    places: Mapping[str, Position] = MappingProxyType({})
    """Positions by JSON pointer, for the settings that the file has."""


def load_settings(config_dir: Path) -> tuple[Settings, tuple[Diagnostic, ...]]:
    """Read `<config dir>/config.jsonc` and return the settings and its problems. Raises nothing."""
    read = read_settings(config_dir)
    return read.settings, read.problems


def read_settings(config_dir: Path) -> ReadSettings:
    """Read `<config dir>/config.jsonc`, with the position of each value. Raises nothing."""
    shown = str(config_dir / SETTINGS_FILE)
    content, _, problem = read_text(config_dir, SETTINGS_FILE, shown)
    if content is None:
        return ReadSettings(_UNREAD, (problem,)) if problem is not None else ReadSettings(Settings())
    return parse_settings(content, shown)


def parse_settings(content: str, shown: str) -> ReadSettings:
    """Return the settings of a file with this content. `shown` is the name of the file in positions."""
    value, index, problems = read_jsonc(content, shown)
    if index is None:
        return ReadSettings(_UNREAD, problems)
    reader = _Reader(index, shown, list(problems))
    if not isinstance(value, dict):
        reader.add_error("", "must be an object", "write {}")
        return ReadSettings(_UNREAD, tuple(reader.problems))
    settings = reader.settings(value)
    return ReadSettings(settings, tuple(reader.problems), _positions(index, shown))


def _positions(index: SpanIndex, shown: str) -> dict[str, Position]:
    found = {pointer: index.position(span.start) for pointer, span in index.values.items()}
    return {key: Position(file=shown, line=line, column=column) for key, (line, column) in found.items()}


class _Reader:
    """Reads and checks each setting, and collects the problems."""

    def __init__(self, index: SpanIndex, file: str, problems: list[Diagnostic]) -> None:
        self.index, self.file, self.problems = index, file, problems

    def settings(self, value: JsonObject) -> Settings:
        """Return all settings."""
        self.unknown("", value, (*_SECTIONS, "risk", "keys", *_DRAWING, "$schema", "schemaVersion"))
        sections = {name: self.section(value, name) for name in _SECTIONS}
        approvals, quota = sections["approvals"], sections["quota"]
        defaults = Settings()
        return Settings(
            approval_times=self.times(approvals),
            inline_wait_ms=self.take(
                approvals, "/approvals/inlineWaitMs", integer(0, MAX_TIMEOUT_MS), 25_000
            ),
            queue_per_caller=self.take(
                approvals, "/approvals/queuePerCaller", integer(1, 1_000), defaults.queue_per_caller
            ),
            queue_total=self.take(
                approvals, "/approvals/queueTotal", integer(1, 1_000), defaults.queue_total
            ),
            calls_per_minute=self.take(
                quota, "/quota/callsPerMinute", integer(1, 100_000), defaults.calls_per_minute
            ),
            asked_per_minute=self.take(
                quota, "/quota/askedPerMinute", integer(1, 100_000), defaults.asked_per_minute
            ),
            running=self.take(quota, "/quota/running", integer(1, 1_000), defaults.running),
            high_risk_per_session=self.take(
                quota, "/quota/highRiskPerSession", integer(0, 100_000), defaults.high_risk_per_session
            ),
            risk=self.table(value, "/risk", one_of(Risk)),
            sandbox_minimum=self.table(sections["sandbox"], "/sandbox/minimum", one_of(Level)),
            sandbox_network=self.table(sections["sandbox"], "/sandbox/network", boolean),
            audit_outputs=self.take(sections["audit"], "/audit/outputs", boolean, False),
            max_permissions=self.ceiling(sections["security"]),
            idle_minutes=self.take(
                sections["kernel"], "/kernel/idleMinutes", integer(0, 10_080), defaults.idle_minutes
            ),
            notify_command=self.take(sections["notify"], "/notify/command", argument_list, ()),
            keys=self.table(value, "/keys", text),
            theme=self.take(value, "/theme", text, ""),
            agent_reads=self.agent_reads(value, sections["agents"]),
            hide_degraded=self.take(sections["agents"], "/agents/hideDegraded", tool_patterns, ()),
            colours=self.take(value, "/colours", one_word_of(*COLOURS), "auto"),
            pictures=self.take(value, "/pictures", one_word_of(*PICTURES), "auto"),
        )

    def agent_reads(self, value: JsonObject, agents: JsonObject) -> bool:
        """Return `agents.readOnly`. With an error, nothing is allowed by it."""
        if not isinstance(value.get("agents", {}), dict):
            return False
        return self.take({"readOnly": True, **agents}, "/agents/readOnly", boolean, False)

    def ceiling(self, security: JsonObject) -> JsonObject | None:
        """Return `security.max_permissions`."""
        # A limit with an error permits nothing: without a limit, an error in it would permit everything.
        pointer = "/security/max_permissions"
        if "max_permissions" not in security:
            return None
        nothing: JsonObject = {}
        return self.take(security, pointer, json_object, nothing)

    def section(self, value: JsonObject, name: str) -> JsonObject:
        """Return one of the objects that group the settings."""
        section: JsonObject = self.take(value, f"/{name}", json_object, {})
        self.unknown(f"/{name}", section, _SECTIONS[name])
        return section

    def times(self, approvals: JsonObject) -> ApprovalTimes:
        """Return `approvals.timeoutMs`."""
        pointer = "/approvals/timeoutMs"
        table: JsonObject = self.take(approvals, pointer, json_object, {})
        self.unknown(pointer, table, tuple(Risk))
        read = {
            risk.value: self.take(table, f"{pointer}/{risk}", integer(1, MAX_TIMEOUT_MS), DEFAULT_APPROVAL_MS)
            for risk in Risk
        }
        return ApprovalTimes(**read)

    def table(self, holder: JsonObject, pointer: str, check: Callable[[Json], T]) -> dict[str, T]:
        """Return the valid members of an object, and report each invalid one."""
        table: JsonObject = self.take(holder, pointer, json_object, {})
        kept: dict[str, T] = {}
        for key, value in table.items():
            try:
                kept[key] = check(value)
            except SettingError as error:
                self.add_error(pointer_join(pointer, key), str(error), "correct it; until then it is ignored")
        return kept

    def take(self, holder: JsonObject, pointer: str, check: Callable[[Json], T], default: T) -> T:
        """Return the value of the last key of `pointer`, or the default where it is absent or invalid."""
        key = pointer.rpartition("/")[2]
        if key not in holder:
            return default
        try:
            return check(holder[key])
        except SettingError as error:
            self.add_error(pointer, str(error), "correct it; until then the default is used")
            return default

    def unknown(self, pointer: str, value: JsonObject, known: tuple[str, ...]) -> None:
        """Report keys that are not settings."""
        for key in value.keys() - set(known):
            near = nearest(key, known, count=1)
            remedy = f"did you mean {near[0]}?" if near else "remove it"
            self.add_warning(
                pointer_join(pointer, key), "unknown-key", "is not a setting", remedy, Severity.WARNING
            )

    def add_error(self, pointer: str, message: str, remedy: str) -> None:
        """Add an error."""
        self.add_warning(pointer, "settings", message, remedy, Severity.ERROR)

    def add_warning(self, pointer: str, rule: str, message: str, remedy: str, severity: Severity) -> None:
        """Add a finding with its position."""
        span = self.index.key(pointer) if rule == "unknown-key" else self.index.value(pointer)
        name = pointer.lstrip("/").replace("/", ".") or "the file"
        offset = span.start if span is not None else 0
        whole = f"{name} {message}"
        self.problems.append(finding(self.index, self.file, pointer, offset, rule, whole, remedy, severity))


_DRAWING = ("theme", "colours", "pictures")
"""Settings of the console that are single values."""
_SECTIONS: dict[str, tuple[str, ...]] = {
    "approvals": ("timeoutMs", "inlineWaitMs", "queuePerCaller", "queueTotal"),
    "quota": ("callsPerMinute", "askedPerMinute", "running", "highRiskPerSession"),
    "sandbox": ("minimum", "network"),
    "audit": ("outputs",),
    "agents": ("readOnly", "hideDegraded"),
    "security": ("max_permissions",),
    "notify": ("command",),
    "kernel": ("idleMinutes",),
}
