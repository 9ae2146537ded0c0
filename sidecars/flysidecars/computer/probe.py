"""The states of the desktop tools in this session, for a probe."""

from __future__ import annotations

import os

from flysidecars.computer.session_type import UNTESTED, WAYLAND, X11, has_x11, session_type
from flysidecars.sdk import JsonObject, Probe, Unavailable, healthy, unavailable
from flysidecars.sdk.call import delegate_argv

ONLY_X11 = "on Wayland only windows of X11 programs (XWayland) are seen"
NO_WINDOWS = (
    "Wayland does not tell a program of another's windows",
    "log in to an X11 session; with XWayland (DISPLAY is set) at least windows of X11 programs are seen",
)
NO_INPUT_DELEGATE = (
    "no mouse and keyboard delegate comes with flytui for macOS",
    "name one of your own in delegates of the entry",
)
_DELEGATED = {"computer.mouse": "mouse", "computer.keyboard": "keyboard"}


def tool_states(question: Probe) -> JsonObject:
    """The state of each tool. Raises `Unavailable` without a display."""
    kind = session_type(question.config)
    if kind == X11:
        return _on_x11(question)
    if kind == WAYLAND:
        return _on_wayland(question)
    shot = _screenshot_state(kind)
    return {
        "screen.screenshot": shot if shot != healthy() else _degraded_state(UNTESTED),
        "computer.window": _degraded_state(UNTESTED),
        **{
            tool: _delegated_state(question, name, _degraded_state(UNTESTED), NO_INPUT_DELEGATE)
            for tool, name in _DELEGATED.items()
        },
    }


def _on_x11(question: Probe) -> JsonObject:
    from flysidecars.computer.x11.xdotool import require_desktop, require_window_program, require_xdotool

    require_desktop()
    tools: JsonObject = {"screen.screenshot": healthy()}
    try:
        require_window_program()
        tools["computer.window"] = healthy()
        require_xdotool()
    except Unavailable as missing:
        lost = unavailable(missing.message, missing.remedy)
        return {"computer.window": lost, **tools, **dict.fromkeys(_DELEGATED, lost)}
    for tool, name in _DELEGATED.items():
        tools[tool] = _delegated_state(question, name, healthy(), no_delegate(name))
    return tools


def _on_wayland(question: Probe) -> JsonObject:
    """The states in a Wayland session, at best degraded for mouse and keyboard.

    A delegate for X11 programs checks its target, one for Wayland cannot. This program does not know which
    of the two the configured delegate is.
    """
    from flysidecars.computer.wayland.unchecked import NOT_ACCEPTED, WARNING, is_allowed

    if is_allowed(question.config):
        acting = _degraded_state(WARNING)
    elif has_x11():
        acting = _degraded_state("on Wayland only windows of X11 programs (XWayland) can be acted in")
    else:
        acting = unavailable(*NOT_ACCEPTED)
    tools: JsonObject = {
        "screen.screenshot": _screenshot_state(WAYLAND),
        "computer.window": _xwayland_state(),
    }
    for tool, name in _DELEGATED.items():
        tools[tool] = _delegated_state(question, name, acting, no_delegate(name))
    return tools


def _screenshot_state(kind: str) -> JsonObject:
    from flysidecars.computer.screenshot import require_screenshot_program

    try:
        require_screenshot_program(kind)
    except Unavailable as missing:
        return unavailable(missing.message, missing.remedy)
    return healthy()


def _xwayland_state() -> JsonObject:
    try:
        require_xwayland()
    except Unavailable as missing:
        return unavailable(missing.message, missing.remedy)
    return _degraded_state(ONLY_X11)


def require_xwayland() -> None:
    """Raise `Unavailable` unless an X server runs inside the Wayland session, and xdotool or wmctrl is
    installed."""
    from flysidecars.computer.x11.xdotool import require_desktop, require_window_program

    if not has_x11():
        raise Unavailable(*NO_WINDOWS)
    require_desktop()
    require_window_program()


def require_input_session(config: JsonObject) -> None:
    """Raise `Unavailable` if no target can be checked and the entry does not accept that."""
    from flysidecars.computer.wayland.unchecked import NOT_ACCEPTED, is_allowed

    if session_type(config) == WAYLAND and not has_x11() and not is_allowed(config):
        raise Unavailable(*NOT_ACCEPTED)


def _delegated_state(question: Probe, name: str, state: JsonObject, missing: tuple[str, str]) -> JsonObject:
    configured = question.delegates is None or delegate_argv(question.delegates, name) is not None
    return state if configured else unavailable(*missing, "delegate-missing")


def _degraded_state(reason: str) -> JsonObject:
    remedy = "look closely at what it does" if reason == UNTESTED else "an X11 session has none of this"
    return {"status": "degraded", "reason": reason, "remedy": remedy}


def no_delegate(name: str) -> tuple[str, str]:
    """The reason and the remedy if the entry does not name the delegate."""
    programs = {"mouse": "ydotool", "keyboard": "wtype"}
    program = programs[name] if os.environ.get("WAYLAND_DISPLAY") and not has_x11() else "xdotool"
    example = f'{{"command": "flytui-sidecar", "args": ["{program}"]}}'
    return f"no {name} delegate is configured", f"set delegates.{name} of the entry, such as {example}"
