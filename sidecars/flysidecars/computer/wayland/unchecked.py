"""Checks that the entry accepts keys and clicks to a window that cannot be identified."""

from __future__ import annotations

import os

from flysidecars.sdk import Call, JsonObject, ToolFailed, Unavailable, unavailable

NO_DISPLAY = (
    "there is no Wayland session (WAYLAND_DISPLAY is not set)",
    "start flytui in a terminal of the desktop, and set permissions.desktop of the entry to true",
)
NOT_ACCEPTED = (
    "on Wayland nobody can check which window gets keys and clicks, nor that it is not the console's own",
    'accept that by "allowUncheckedTarget": true in config of the entry, or log in to an X11 session',
)
WARNING = "the target was not checked: on Wayland keys and clicks go to whatever window has the focus"


def is_allowed(config: JsonObject) -> bool:
    """Whether the entry accepts unchecked targets."""
    return config.get("allowUncheckedTarget") is True


def require_wayland() -> None:
    """Raise `Unavailable` outside a Wayland session."""
    if not os.environ.get("WAYLAND_DISPLAY"):
        raise Unavailable(*NO_DISPLAY)


def accept_target(call: Call) -> None:
    """Raise unless the call may act on the window that has the focus.

    Raises `Unavailable` outside Wayland or if the entry does not accept it, and `ToolFailed`
    (`target-unchecked`) if the call or its approval names a window, which cannot be found here.
    """
    require_wayland()
    if not is_allowed(call.config):
        raise Unavailable(*NOT_ACCEPTED)
    if call.input.get("window") is not None or call.raw.get("target") is not None:
        raise ToolFailed(
            "target-unchecked",
            "on Wayland no window can be found by its name: leave it out, and give it the focus yourself",
        )
    call.log(WARNING, "warning")


def tool_state(config: JsonObject) -> JsonObject:
    """The state, for a probe, of a tool that acts on the window that has the focus. Raises `Unavailable`
    outside Wayland."""
    require_wayland()
    if not is_allowed(config):
        return unavailable(*NOT_ACCEPTED)
    return {
        "status": "degraded",
        "reason": WARNING,
        "remedy": "check which window has the focus before you approve",
    }
