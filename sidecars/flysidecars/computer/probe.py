"""How each tool of the desktop stands in the session that there is, asked without acting."""

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
NO_HANDS = (
    "no mouse and keyboard delegate comes with flytui for macOS",
    "name one of your own in delegates of the entry",
)
_DELEGATED = {"computer.mouse": "mouse", "computer.keyboard": "keyboard"}


def tool_states(question: Probe) -> JsonObject:
    """Tool to its state in a probe's answer. Raises `Unavailable` without a display."""
    kind = session_type(question.config)
    if kind == X11:
        return _on_x11(question)
    if kind == WAYLAND:
        return _on_wayland(question)
    shot = _screenshot(kind)
    return {
        "screen.screenshot": shot if shot != healthy() else _degraded(UNTESTED),
        "computer.window": _degraded(UNTESTED),
        **{
            tool: _delegated(question, name, _degraded(UNTESTED), NO_HANDS)
            for tool, name in _DELEGATED.items()
        },
    }


def _on_x11(question: Probe) -> JsonObject:
    from flysidecars.computer.x11.xdotool import require_desktop, require_xdotool

    require_desktop()
    tools: JsonObject = {"screen.screenshot": healthy()}
    try:
        require_xdotool()
    except Unavailable as missing:
        lost = unavailable(missing.message, missing.remedy)
        return {**tools, "computer.window": lost, **dict.fromkeys(_DELEGATED, lost)}
    tools["computer.window"] = healthy()
    for tool, name in _DELEGATED.items():
        tools[tool] = _delegated(question, name, healthy(), no_delegate(name))
    return tools


def _on_wayland(question: Probe) -> JsonObject:
    """Keys and clicks: a delegate for X11 programs checks its target, one for Wayland cannot. Which it is the
    delegate knows and this program does not, so that at best both are degraded."""
    from flysidecars.computer.wayland.unchecked import REFUSED, WARNING, is_allowed

    if is_allowed(question.config):
        acting = _degraded(WARNING)
    elif has_x11():
        acting = _degraded("on Wayland only windows of X11 programs (XWayland) can be acted in")
    else:
        acting = unavailable(*REFUSED)
    tools: JsonObject = {"screen.screenshot": _screenshot(WAYLAND), "computer.window": _xwayland()}
    for tool, name in _DELEGATED.items():
        tools[tool] = _delegated(question, name, acting, no_delegate(name))
    return tools


def _screenshot(kind: str) -> JsonObject:
    from flysidecars.computer.screenshot import require_way

    try:
        require_way(kind)
    except Unavailable as missing:
        return unavailable(missing.message, missing.remedy)
    return healthy()


def _xwayland() -> JsonObject:
    try:
        require_xwayland()
    except Unavailable as missing:
        return unavailable(missing.message, missing.remedy)
    return _degraded(ONLY_X11)


def require_xwayland() -> None:
    """Raise `Unavailable` unless an X server runs inside the Wayland session, and xdotool is there."""
    from flysidecars.computer.x11.xdotool import require_desktop, require_xdotool

    if not has_x11():
        raise Unavailable(*NO_WINDOWS)
    require_desktop()
    require_xdotool()


def require_input_session(config: JsonObject) -> None:
    """Raise `Unavailable` where nobody can check a target and the entry does not accept that."""
    from flysidecars.computer.wayland.unchecked import REFUSED, is_allowed

    if session_type(config) == WAYLAND and not has_x11() and not is_allowed(config):
        raise Unavailable(*REFUSED)


def _delegated(question: Probe, name: str, state: JsonObject, missing: tuple[str, str]) -> JsonObject:
    configured = question.delegates is None or delegate_argv(question.delegates, name) is not None
    return state if configured else unavailable(*missing, "delegate-missing")


def _degraded(reason: str) -> JsonObject:
    remedy = "look closely at what it does" if reason == UNTESTED else "an X11 session has none of this"
    return {"status": "degraded", "reason": reason, "remedy": remedy}


def no_delegate(name: str) -> tuple[str, str]:
    """Reason and remedy where the entry names no such delegate."""
    programs = {"mouse": "ydotool", "keyboard": "wtype"}
    program = programs[name] if os.environ.get("WAYLAND_DISPLAY") and not has_x11() else "xdotool"
    example = f'{{"command": "flytui-sidecar", "args": ["{program}"]}}'
    return f"no {name} delegate is configured", f"set delegates.{name} of the entry, such as {example}"
