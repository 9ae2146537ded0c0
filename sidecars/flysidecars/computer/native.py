"""The sidecar `computer.native`: screenshots and windows, and mouse and keyboard through delegates.

Mouse and keyboard work only with a configured delegate; there is no fallback.
"""

from __future__ import annotations

import os

from flysidecars.sdk import Call, JsonObject, Probe, Sidecar, ToolFailed, Unavailable

sidecar = Sidecar("computer.native")

DELEGATED = {"computer.mouse": "mouse", "computer.keyboard": "keyboard"}
"""The name of each tool's delegate."""


@sidecar.probe
def probe(question: Probe) -> JsonObject:
    """Report the state of each tool in this session. Without a display all are unavailable."""
    from flysidecars.computer.probe import tool_states

    return {"tools": tool_states(question)}


@sidecar.tool("screen.screenshot")
def screenshot(call: Call) -> JsonObject:
    """Take a picture of the screen into `artifactDir`, or to `path` below the project."""
    from flysidecars.computer.screenshot import PNG_MAGIC, take_screenshot
    from flysidecars.computer.session_type import X11, session_type
    from flysidecars.sdk.paths import write_new

    path = call.optional_text("path")
    if path is not None and not path.lower().endswith(".png"):
        raise ToolFailed("invalid-input", "path: a name that ends with .png is needed", field="path")
    if path is None and not call.artifact_dir:
        raise ToolFailed("invalid-request", "the request names neither artifactDir nor a path")
    kind = session_type(call.config)
    if kind == X11:
        from flysidecars.computer.x11.windows import display_name

        display_name()
    picture = take_screenshot(call.artifact_dir or call.project_dir, kind)
    if path is None:
        file = write_new(call.artifact_dir, "screenshot.png", picture.png, PNG_MAGIC)
    else:
        file = write_new(call.project_dir, path, picture.png, PNG_MAGIC, call=call)
    artifact = {"path": file, "mimeType": "image/png", "bytes": len(picture.png)}
    answer: JsonObject = {"path": path or file, "width": picture.width, "height": picture.height}
    if picture.warnings:
        answer["warnings"] = list(picture.warnings)
    return {**answer, "engine": picture.engine, "artifacts": [artifact]}


@sidecar.tool("computer.window")
def window(call: Call) -> JsonObject:
    """List the windows on the screen, or give one the focus."""
    from flysidecars.computer.session_type import MACOS, WAYLAND, session_type

    action = call.choice("action", ("list", "focus"))
    kind = session_type(call.config)
    if kind == MACOS:
        from flysidecars.computer.macos import use_windows

        return use_windows(call, action)
    if kind == WAYLAND:
        from flysidecars.computer.probe import ONLY_X11, require_xwayland

        require_xwayland()
        return {**_x11_windows(call, action), "warnings": [ONLY_X11]}
    return _x11_windows(call, action)


def _x11_windows(call: Call, action: str) -> JsonObject:
    from flysidecars.computer.x11.target import resolve_target
    from flysidecars.computer.x11.windows import Display, window_row
    from flysidecars.computer.x11.xdotool import require_window_program

    with Display() as display:
        require_window_program()
        if action == "focus":
            target = resolve_target(call, display)
            target.focus(raise_window=True)
            return {"action": "focus", "window": window_row(target.window, focused=True)}
        focus = display.focused_window()
        focus_id = focus.id if focus else 0
        windows = [window_row(found, focused=found.id == focus_id) for found in display.visible_windows()]
        return {"action": "list", "windows": windows}


@sidecar.tool("computer.mouse")
def mouse(call: Call) -> JsonObject:
    """Pass the request to `delegates.mouse`."""
    return _hand_over(call)


@sidecar.tool("computer.keyboard")
def keyboard(call: Call) -> JsonObject:
    """Pass the request to `delegates.keyboard`."""
    return _hand_over(call)


def _hand_over(call: Call) -> JsonObject:
    """Replace this process by the delegate, which gets the same request on stdin and answers our caller.

    Does not return. Raises `Unavailable`, and `ToolFailed` (`delegate-failed`).
    """
    from flysidecars.computer.probe import no_delegate, require_input_session

    name = DELEGATED[call.tool]
    argv = call.delegate(name)
    if argv is None:
        raise Unavailable(*no_delegate(name), reasonCode="delegate-missing")
    if call.persistent:
        raise Unavailable(
            f"{call.tool} needs a process of its own for its delegate",
            'set "desktop": true in permissions of the entry',
        )
    require_input_session(call.config)
    from flysidecars.sdk.wire import encode

    request = os.memfd_create("request")
    with open(os.dup(request), "wb") as file:
        file.write(encode(call.raw))
    os.lseek(request, 0, os.SEEK_SET)
    os.dup2(request, 0)
    call.out.restore()
    # By exec and not as a child: the kernel's signals then reach the program that moves mouse or keyboard.
    try:
        os.execv(argv[0], argv)  # noqa: S606 - a shell is what must not be in between
    except OSError as failed:
        os.dup2(2, 1)
        raise ToolFailed(
            "delegate-failed", f"the delegate {argv[0]} cannot be started: {failed.strerror}", delegate=name
        ) from failed
