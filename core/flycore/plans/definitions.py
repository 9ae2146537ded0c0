"""The high-level tools: a table of the atomic call that each action of a plan stands for."""

from __future__ import annotations

from collections.abc import Mapping

from flycore.model.base import Value

WAIT = "wait"
"""The action that is no call: it waits for `ms` milliseconds."""
WAIT_FIELDS = ("ms",)


class ActionCall(Value, frozen=True, kw_only=True):
    """The atomic call that an action stands for."""

    tool: str
    action: str = ""
    """The value of the tool's own `action` field; empty where it has none."""
    fields: Mapping[str, str] = {}
    """The names of the action's fields, each with the tool's own name for it."""


class PlanDefinition(Value, frozen=True, kw_only=True):
    """The actions of one high-level tool."""

    actions: Mapping[str, ActionCall]
    """Every action but `wait`."""
    capture: str
    """The action that `captureAfter` adds."""


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _mouse(action: str, *more: str) -> ActionCall:
    return ActionCall(tool="computer.mouse", action=action, fields=_same("x", "y", *more, "window"))


def _keyboard(action: str, what: str) -> ActionCall:
    return ActionCall(tool="computer.keyboard", action=action, fields=_same(what, "window"))


def _browser(action: str, *names: str) -> ActionCall:
    return ActionCall(tool=f"browser.{action}", fields=_same(*names))


FOCUS = "focus_app"
"""The action whose window is that of the steps after it, unless they name one."""

PLANS: Mapping[str, PlanDefinition] = {
    "computer.use": PlanDefinition(
        actions={
            "capture": ActionCall(tool="screen.screenshot"),
            "click": _mouse("click"),
            "double_click": _mouse("double_click"),
            "right_click": _mouse("right_click"),
            "middle_click": _mouse("middle_click"),
            "drag": _mouse("drag", "toX", "toY"),
            "scroll": _mouse("scroll", "dx", "dy"),
            "type": _keyboard("type", "text"),
            "key": _keyboard("key", "keys"),
            FOCUS: ActionCall(tool="computer.window", action="focus", fields={"app": "window"}),
            "list_apps": ActionCall(tool="computer.window", action="list"),
        },
        capture="capture",
    ),
    "browser.use": PlanDefinition(
        actions={
            "open": _browser("open", "url"),
            "navigate": _browser("navigate", "url"),
            "snapshot": _browser("snapshot"),
            "screenshot": _browser("screenshot", "path", "fullPage"),
            "click": _browser("click", "target"),
            "type": _browser("type", "target", "text"),
            "evaluate": _browser("evaluate", "script"),
        },
        capture="screenshot",
    ),
}
"""The plan definitions by the name of the high-level tool."""
