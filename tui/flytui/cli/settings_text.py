"""Lists the settings in force, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flycore.model.diagnostics import Diagnostic
from flycore.model.json import Json, pointer_join, unescape_key
from flycore.offline.console_files import ReadSettings
from flytui.cli.documents import ListedSetting
from flytui.console.key_table import ENTRIES
from flytui.console.user_settings import check_settings

POINTERS = {
    "approval_times": "/approvals/timeoutMs",
    "inline_wait_ms": "/approvals/inlineWaitMs",
    "queue_per_caller": "/approvals/queuePerCaller",
    "queue_total": "/approvals/queueTotal",
    "calls_per_minute": "/quota/callsPerMinute",
    "asked_per_minute": "/quota/askedPerMinute",
    "running": "/quota/running",
    "high_risk_per_session": "/quota/highRiskPerSession",
    "risk": "/risk",
    "sandbox_minimum": "/sandbox/minimum",
    "sandbox_network": "/sandbox/network",
    "audit_outputs": "/audit/outputs",
    "max_permissions": "/security/max_permissions",
    "idle_minutes": "/kernel/idleMinutes",
    "notify_command": "/notify/command",
    "keys": "/keys",
    "theme": "/theme",
    "agent_reads": "/agents/readOnly",
    "hide_degraded": "/agents/hideDegraded",
    "colours": "/colours",
    "pictures": "/pictures",
}
"""The JSON pointer of each field of Settings in the file."""
TABLES = ("approval_times", "risk", "sandbox_minimum", "sandbox_network", "keys")
"""Fields whose members are listed as settings of their own."""


def check_console_settings(read: ReadSettings) -> ReadSettings:
    """The settings with the keys and the theme that the console uses. What it refuses is added to the
    problems."""
    themes = frozenset({read.settings.theme})
    if read.settings.theme:
        # Textual, for which every command would wait.
        from flytui.console.themes import theme_names

        themes = theme_names()
    own = check_settings(read.settings.keys, read.settings.theme, themes, read.places)
    bound = {name: " ".join(own.keys.keys_for(name)) for name in ENTRIES}
    refused = {name: keys for name, keys in read.settings.keys.items() if name not in ENTRIES}
    settings = msgspec.structs.replace(read.settings, keys={**bound, **refused}, theme=own.theme)
    return read._replace(settings=settings, problems=(*read.problems, *own.problems))


def settings_problems(read: ReadSettings) -> tuple[Diagnostic, ...]:
    """All problems of the settings, those that the console finds included."""
    return check_console_settings(read).problems


def listed_settings(read: ReadSettings) -> tuple[ListedSetting, ...]:
    """Every setting, in the order of the documentation. A table is listed by its members."""
    return tuple(_listed_setting(read, pointer, value) for pointer, value in _values(read))


def _values(read: ReadSettings) -> Iterator[tuple[str, Json]]:
    for field, pointer in POINTERS.items():
        value = msgspec.to_builtins(getattr(read.settings, field))
        if field in TABLES and value:
            yield from ((pointer_join(pointer, key), item) for key, item in value.items())
        else:
            yield pointer, value


def _listed_setting(read: ReadSettings, pointer: str, value: Json) -> ListedSetting:
    # A setting that the file names and that was refused has its default value, and the problem says why.
    place = read.places.get(pointer)
    refused = next(
        (problem for problem in read.problems if problem.rule == "settings" and problem.pointer == pointer),
        None,
    )
    return ListedSetting(
        name=unescape_key(pointer.lstrip("/").replace("/", ".")),
        value=value,
        default=place is None or refused is not None,
        where=str(place) if place is not None else "",
        problem=refused.message if refused is not None else "",
    )
