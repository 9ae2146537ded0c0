"""The delegate `ydotool`: moves the mouse on a Wayland desktop, over any window."""

from __future__ import annotations

from flysidecars.sdk import Call, JsonObject, Probe, Sidecar, Unavailable

sidecar = Sidecar("ydotool")


@sidecar.probe
def probe(question: Probe) -> JsonObject:
    """Report at best degraded, because the target window cannot be checked."""
    from flysidecars.computer.wayland.pointer import REMEDY, require_service
    from flysidecars.computer.wayland.unchecked import tool_state
    from flysidecars.run_program import find_program

    if find_program("ydotool") is None:
        raise Unavailable("ydotool is not installed", REMEDY)
    require_service()
    return {"tools": {"computer.mouse": tool_state(question.config)}}


@sidecar.tool("computer.mouse")
def mouse(call: Call) -> JsonObject:
    """Use the pointer at a point of the screen."""
    from flysidecars.computer.input_program import exit_on_signal
    from flysidecars.computer.wayland.pointer import ACTIONS, require_service, use_pointer
    from flysidecars.computer.wayland.unchecked import accept_target

    action = call.choice("action", ACTIONS)
    accept_target(call)
    require_service()
    exit_on_signal()
    return use_pointer(call, action)
