"""The delegate `wtype`: types on a Wayland desktop, into the window that has the focus."""

from __future__ import annotations

from flysidecars.sdk import Call, JsonObject, Probe, Sidecar, Unavailable

sidecar = Sidecar("wtype")


@sidecar.probe
def probe(question: Probe) -> JsonObject:
    """Report at best degraded, because the target window cannot be checked."""
    from flysidecars.computer.wayland.keyboard import REMEDY
    from flysidecars.computer.wayland.unchecked import tool_state
    from flysidecars.run_program import find_program

    if find_program("wtype") is None:
        raise Unavailable("wtype is not installed", REMEDY)
    return {"tools": {"computer.keyboard": tool_state(question.config)}}


@sidecar.tool("computer.keyboard")
def keyboard(call: Call) -> JsonObject:
    """Type text or press a key combination in the window that has the focus."""
    from flysidecars.computer.wayland.keyboard import press_keys, type_text
    from flysidecars.computer.wayland.unchecked import accept_target

    action = call.choice("action", ("type", "key"))
    accept_target(call)
    return type_text(call) if action == "type" else press_keys(call)
