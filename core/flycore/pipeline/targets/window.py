"""The window that a pointer or keyboard tool would act on, as a target, with a screenshot of it for the
card."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Protocol

import anyio
import msgspec

from flycore.model.approval import ApprovalRequest, Preview
from flycore.model.base import Value
from flycore.model.call import Picture
from flycore.model.enums import Code
from flycore.model.json import JsonObject
from flycore.model.sidecar import Limits, SidecarEntry
from flycore.pipeline.call import Rejection, failed
from flycore.pipeline.targets import x11_helper
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.child.spawn import SpawnSpec
from flysafe.procfs import PROC, ProcFolder, environment_value, read_process

POINTER_TOOL = "computer.mouse"


class Screenshot(Value, frozen=True, kw_only=True):
    """A picture of a part of the screen; `cross` is the pixel that the pointer would act on."""

    picture: Picture
    cross: tuple[int, int] | None = None


class DesktopUnreadable(Exception):
    """The display cannot be read; the message says why and what to install."""


class ScreenCamera(Protocol):
    """Takes pictures of the display. Every method raises DesktopUnreadable."""

    async def shot_at(self, x: int, y: int) -> Screenshot:
        """The part of the screen around the point."""
        ...

    async def shot_of(self, window_id: int) -> Screenshot:
        """The part of the screen that the window covers, with whatever lies over it."""
        ...


def point_of(input: JsonObject, x: str = "x", y: str = "y") -> tuple[int, int] | None:
    """The point of the screen that the input has under these keys; None where it has no integers there."""
    across, down = input.get(x), input.get(y)
    return (across, down) if type(across) is int and type(down) is int else None


async def with_screenshots(camera: ScreenCamera, request: ApprovalRequest) -> ApprovalRequest:
    """The request with its pictures; where none can be taken, with the reason why not."""
    # Pixels change by themselves, so pictures are no part of the subject. They may show anything on the
    # screen, so only paired consoles get them, and no file does.
    subject = request.subject
    if subject.preview is None or subject.preview.of_page or subject.preview.file:
        return request
    if subject.preview.unchecked:
        return msgspec.structs.replace(request, no_crop="on Wayland no program can read other windows")
    try:
        shots = await _screenshots(camera, request.tool, subject.input, subject.preview)
    except DesktopUnreadable as error:
        return msgspec.structs.replace(request, no_crop=str(error))
    first, *rest = shots
    request = msgspec.structs.replace(request, crop=first.picture, cross=first.cross)
    if rest:
        request = msgspec.structs.replace(request, crop_to=rest[0].picture, cross_to=rest[0].cross)
    return request


async def _screenshots(
    camera: ScreenCamera, tool: str, input: JsonObject, preview: Preview
) -> list[Screenshot]:
    """The screen around the point, for a drag around both points; without a point, the window."""
    start = point_of(input) if tool == POINTER_TOOL else None
    if start is None:
        return [await camera.shot_of(int(preview.window_id))]
    end = point_of(input, "toX", "toY")
    return [await camera.shot_at(*point) for point in (start, end) if point is not None]


# What a pointer or keyboard action would hit: taken by the kernel before anyone is asked.


WINDOW_TOOLS = (POINTER_TOOL, "computer.keyboard")
"""Tools whose effect depends on which window is in front."""


_DISPLAY_NUMBER = re.compile(r":(\d{1,9})(?:\.\d*)?$")
_MULTIPLEXERS = ("tmux: server", "SCREEN")
"""The names of processes that hold terminals without a window. Their clients have windows."""


class Window(Value, frozen=True, kw_only=True):
    """A window of the display."""

    id: int
    title: str
    pid: int = 0
    behind: tuple[Window, ...] = ()
    """For the window with the focus: the windows behind it in which a person could work, front-most first."""


class ProtectedWindows(Value, frozen=True, kw_only=True):
    """The windows and processes of the open consoles, which no tool may act on."""

    window_ids: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()
    displays: dict[int, tuple[str, ...]] = {}  # noqa: RUF012 - msgspec gives each instance its own
    """The displays that a window may be on, by its id. A window that is not listed may be on any."""

    def contains(self, window: Window) -> bool:
        """Whether the window belongs to a console."""
        return window.id in self.window_ids or (window.pid != 0 and window.pid in self.pids)

    def on_display(self, display: str) -> ProtectedWindows:
        """Those on the display of that name: two displays give the same id to different windows."""
        on_it = [
            number
            for number in self.window_ids
            if any(may_be_same_display(display, other) for other in self.displays.get(number, ("",)))
        ]
        return ProtectedWindows(window_ids=tuple(on_it), pids=self.pids)


def may_be_same_display(one: str, other: str) -> bool:
    """Whether two values of DISPLAY may name the same X server: unless their numbers differ, they may."""
    # The host and the screen are not compared: `:0`, `unix:0.1` and `localhost:0` may be one server.
    found = [_DISPLAY_NUMBER.search(name) for name in (one, other)]
    numbers = [int(number[1]) for number in found if number is not None]
    return len(numbers) < 2 or numbers[0] == numbers[1]


def window_displays(
    window_ids: Iterable[int], pids: Iterable[int], proc: ProcFolder = PROC
) -> dict[int, tuple[str, ...]]:
    """The displays that each window of a console may be on, if its processes tell. `pids` are the console
    and its ancestors, the program that opened the window among them."""
    carriers = {pid: environment_value(pid, "WINDOWID", proc) for pid in pids}
    found: dict[int, tuple[str, ...]] = {}
    for number in window_ids:
        inside = [pid for pid, word in carriers.items() if word == str(number)]
        displays = {_display_of_window(pid, carriers, proc) for pid in inside}
        if known := sorted(name for name in displays if name is not None):
            found[number] = tuple(known)
    return found


def _display_of_window(pid: int, carriers: Mapping[int, str], proc: ProcFolder) -> str | None:
    """The display of the program that opened the window in which that process runs, empty where nobody can
    tell; None where the process runs in no window, but below the server of tmux or screen."""
    # Every process in the window has its id, but may name another display, for the tools to act on. So the
    # display is that of the nearest program around it that does not run in the window itself.
    process = read_process(pid, proc)
    while process is not None and process.name not in _MULTIPLEXERS:
        outer = read_process(process.parent, proc) if process.parent in carriers else None
        if outer is None or outer.terminal != process.terminal or carriers[outer.pid] != carriers[pid]:
            if outer is not None and outer.name in _MULTIPLEXERS:
                return None
            around = environment_value(outer.pid, "DISPLAY", proc) if outer is not None else ""
            return around or environment_value(process.pid, "DISPLAY", proc)
        process = outer
    return None


class Desktop(ScreenCamera, Protocol):
    """Reads the display. Every method raises DesktopUnreadable."""

    async def focused(self) -> Window | None:
        """The window that has the keyboard focus."""
        ...

    async def window(self, window_id: int) -> Window | None:
        """The window with that id; None where it is gone."""
        ...

    async def under(self, x: int, y: int) -> tuple[Window, ...]:
        """The windows that contain a point of the screen, outermost first."""
        ...

    async def windows(self) -> tuple[Window, ...]:
        """All visible windows that have a title."""
        ...


def find_window(named: str, windows: tuple[Window, ...]) -> Window | str:
    """The window that `named` means: an id, an exact title, or a part of just one title; else a sentence that
    says why there is none."""
    wanted = named.strip()
    by_id = [window for window in windows if wanted in (str(window.id), hex(window.id))]
    exact = [window for window in windows if window.title == named]
    part = [window for window in windows if named and named in window.title]
    for found in (by_id, exact, part):
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(f"{window.id} {window.title[:60]}" for window in found[:5])
            return f"{len(found)} windows match: name one by its id ({listed})"
    return "no visible window has that title or id"


def accepts_unchecked(entry: SidecarEntry, environ: Mapping[str, str]) -> bool:
    """Whether the entry may act on whatever has the focus: its `config.allowUncheckedTarget`, which is part
    of what was trusted, says so, and the session is Wayland, where no program can read the windows of
    others."""
    config = entry.config
    wayland = bool(environ.get("WAYLAND_DISPLAY")) and config.get("session") != "x11"
    return wayland and config.get("allowUncheckedTarget") is True


async def take_preview(
    desktop: Desktop,
    protected: ProtectedWindows,
    tool: str,
    input: JsonObject,
    earlier: Preview | None = None,
    *,
    unchecked: bool = False,
) -> Preview | Rejection | None:
    """The target of a pointer or keyboard action; None for tools that have none.

    `earlier` is the target that was read when the call arrived: then the same window is read again. A
    console's own window as the target, or no window at all, ends the call before a person is asked. With
    `unchecked` no window is read, and the preview says so.
    """
    if tool not in WINDOW_TOOLS:
        return None
    if unchecked:
        return Preview(unchecked=True)
    named = input.get("window")
    try:
        point = point_of(input) if tool == POINTER_TOOL else None
        if earlier is None and not isinstance(named, str):
            window = await _unnamed_window(desktop, protected, point)
        else:
            window = await _target_window(desktop, str(named), earlier)
        over = await _windows_over(desktop, window, point, earlier) if isinstance(window, Window) else ()
    except DesktopUnreadable as error:
        return failed(Code.FAILED, str(error), "flytui doctor shows what this machine lacks")
    if isinstance(window, str):
        return failed(Code.INVALID_INPUT, f"name a window: {window}", "computer.window lists them")
    # A tool that acts on a console's window could press the keys that approve its next call.
    if protected.contains(window):
        return failed(
            Code.INVALID_INPUT,
            "name another window: this one is the console's own, which no tool may act on",
            "computer.window lists the others",
        )
    if any(protected.contains(other) for other in over):
        return failed(
            Code.INVALID_INPUT,
            "the console's own window lies over that point",
            "bring the target window to the front first: computer.window, focus",
        )
    front = next((other for other in reversed(over) if other.title), None)
    return Preview(
        window_id=str(window.id),
        title=window.title,
        pid=window.pid,
        over_id=str(front.id) if front else "",
        over=front.title if front else "",
    )


async def _windows_over(
    desktop: Desktop, window: Window, point: tuple[int, int] | None, earlier: Preview | None
) -> tuple[Window, ...]:
    """The windows that lie over the target window at the point; empty where none does."""
    # The person who approved has brought the console to the front, so what lies over the point now says
    # nothing about the action, before which the target window is raised. Only the window seen at first is
    # read again.
    if earlier is not None:
        again = await desktop.window(int(earlier.over_id)) if earlier.over_id else None
        return (again,) if again is not None else ()
    if point is None:
        return ()
    under = await desktop.under(*point)
    return () if any(other.id == window.id for other in under) else under


async def _target_window(desktop: Desktop, named: str, earlier: Preview | None) -> Window | str:
    # The focus counts only when the call arrives: the person who approved has just used the console's window.
    if earlier is not None:
        return await desktop.window(int(earlier.window_id)) or "the one that was meant is gone"
    return find_window(named, await desktop.windows())


async def _unnamed_window(
    desktop: Desktop, protected: ProtectedWindows, point: tuple[int, int] | None
) -> Window | str:
    """The window that a call without `window` means: the one with the focus; where that is a console's, in
    which a person has just decided, the front-most one behind it, and for a point the one that is there."""
    window = await desktop.focused()
    if window is None:
        return "no window has the focus"
    if not protected.contains(window):
        return window
    there = None if point is None else {one.id for one in await desktop.under(*point)}
    for other in window.behind:
        if not protected.contains(other) and (there is None or other.id in there):
            return other
    return "the console has the focus, and no tool may act on it"


SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
PASSED = ("DISPLAY", "XAUTHORITY", "HOME", "LANG")
HELPER_MS = 3_000
HELPER_BYTES = 8 * 1_048_576
"""Room for as many windows as the helper lists, each with the longest title."""
# Isolated mode: neither a folder of the project nor an environment variable changes what the helper imports.
HELPER = (sys.executable, "-I", "-m", x11_helper.__name__)


class _HelperAnswer(msgspec.Struct, frozen=True):
    """The line that `x11_helper` prints."""

    windows: tuple[Window, ...] = ()
    width: int = 0
    height: int = 0
    cross: tuple[int, int] | None = None


class X11Desktop:
    """Reads the X11 display that the kernel's environment names, one helper process for each question."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name: environ[name] for name in PASSED if name in environ}

    async def focused(self) -> Window | None:
        """The window that has the keyboard focus."""
        return _first((await self._look("focused"))[0].windows)

    async def windows(self) -> tuple[Window, ...]:
        """All visible windows that have a title."""
        return (await self._look("listed"))[0].windows

    async def window(self, window_id: int) -> Window | None:
        """The window with that id; None where it is gone."""
        return _first((await self._look("known", window_id))[0].windows)

    async def under(self, x: int, y: int) -> tuple[Window, ...]:
        """The windows that contain a point of the screen, outermost first."""
        return (await self._look("under", x, y))[0].windows

    async def shot_at(self, x: int, y: int) -> Screenshot:
        """The part of the screen around the point."""
        return self._shot(*await self._look("point", x, y))

    async def shot_of(self, window_id: int) -> Screenshot:
        """The part of the screen that the window covers."""
        return self._shot(*await self._look("window", window_id))

    def _shot(self, seen: _HelperAnswer, pixels: bytes) -> Screenshot:
        try:
            return Screenshot(
                picture=Picture(width=seen.width, height=seen.height, rgb=pixels), cross=seen.cross
            )
        except ValueError as error:
            raise DesktopUnreadable(str(error)) from error

    async def _look(self, *words: object) -> tuple[_HelperAnswer, bytes]:
        """The helper's answer: its line, and the pixels after it."""
        done = await self._run((*HELPER, *map(str, words)))
        if done.exit_code != 0:
            message = done.stderr_tail.decode("utf-8", "replace").strip().split("\n")[0]
            raise DesktopUnreadable(message or "the display could not be read")
        line, _, pixels = done.stdout.partition(b"\n")
        try:
            return msgspec.json.decode(line, type=_HelperAnswer), pixels
        except msgspec.MsgspecError as error:
            raise DesktopUnreadable("the display could not be read") from error

    async def _run(self, argv: tuple[str, ...]) -> ChildExit:
        """Run the helper within its time limit."""
        if "DISPLAY" not in self._environ:
            raise DesktopUnreadable("DISPLAY is not set, so there is no X11 display to look at")
        spec = SpawnSpec(
            argv=argv,
            cwd="/",
            env={"PATH": SEARCH_PATH, **self._environ},
            call_id="",
            limits=Limits(),
        )
        done = await run_child(
            spec, b"", RunLimits(timeout_ms=HELPER_MS, max_output_bytes=HELPER_BYTES), None
        )
        if done.spawn_error:
            raise DesktopUnreadable(f"{argv[0]} does not start: {done.spawn_error}")
        if done.timed_out:
            raise DesktopUnreadable("the display did not answer in time")
        await anyio.lowlevel.checkpoint()
        return done


def _first(windows: tuple[Window, ...]) -> Window | None:
    return windows[0] if windows else None
