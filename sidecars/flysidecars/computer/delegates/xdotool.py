"""The delegate `xdotool`: moves mouse and keyboard on an X11 desktop.

Before each action the target window must exist, be the approved one, not be a console that decides
approvals, and have the focus.
"""

from __future__ import annotations

from flysidecars.sdk import Call, JsonObject, Probe, Sidecar, healthy

KEYBOARD_ACTIONS = ("type", "key")

sidecar = Sidecar("xdotool")


@sidecar.probe
def probe(_: Probe) -> JsonObject:
    """Report healthy if an X server answers and xdotool is installed."""
    from flysidecars.computer.x11.xdotool import require_desktop, require_xdotool

    require_desktop()
    require_xdotool()
    return {"tools": {"computer.mouse": healthy(), "computer.keyboard": healthy()}}


@sidecar.tool("computer.keyboard")
def keyboard(call: Call) -> JsonObject:
    """Type text or press a key combination in the target window."""
    from flysidecars.computer.input_program import exit_on_signal
    from flysidecars.computer.x11.keyboard import press_keys, type_text
    from flysidecars.computer.x11.target import resolve_target
    from flysidecars.computer.x11.windows import Display

    action = call.choice("action", KEYBOARD_ACTIONS)
    exit_on_signal()
    with Display() as display:
        target = resolve_target(call, display)
        target.focus()
        return type_text(call, target) if action == "type" else press_keys(call, target)


@sidecar.tool("computer.mouse")
def mouse(call: Call) -> JsonObject:
    """Use the pointer inside the target window."""
    from flysidecars.computer.x11.mouse import ACTIONS, use_mouse
    from flysidecars.computer.x11.target import resolve_target
    from flysidecars.computer.x11.windows import Display

    action = call.choice("action", ACTIONS)
    with Display() as display:
        target = resolve_target(call, display)
        target.focus(raise_window=True)
        return use_mouse(call, target, action)
