"""Reads an X11 display through `x11_look`, one process a question. Reads only."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import anyio
import msgspec

from flycore.executive import x11_look
from flycore.executive.preview import Window
from flycore.executive.shots import DesktopUnreadable, Screenshot
from flycore.model.picture import Picture
from flycore.model.sidecar import Limits
from flycore.runners.run import ChildExit, RunLimits, run_child
from flycore.runners.spawn import SpawnSpec

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
PASSED = ("DISPLAY", "XAUTHORITY", "HOME", "LANG")
HELPER_MS = 3_000
HELPER_BYTES = 8 * 1_048_576
"""Holds as many windows as are listed, each with the longest title that is."""
HELPER = (sys.executable, "-I", "-m", x11_look.__name__)
"""Isolated: neither a folder nor a variable of the project changes what it imports."""


class _HelperAnswer(msgspec.Struct, frozen=True):
    """The line `x11_look` prints."""

    windows: tuple[Window, ...] = ()
    width: int = 0
    height: int = 0
    cross: tuple[int, int] | None = None


class X11Desktop:
    """The display that the kernel's environment names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name: environ[name] for name in PASSED if name in environ}

    async def focused(self) -> Window | None:
        """See Desktop."""
        return _first((await self._look("focused"))[0].windows)

    async def windows(self) -> tuple[Window, ...]:
        """See Desktop."""
        return (await self._look("listed"))[0].windows

    async def window(self, window_id: int) -> Window | None:
        """See Desktop."""
        return _first((await self._look("known", window_id))[0].windows)

    async def under(self, x: int, y: int) -> tuple[Window, ...]:
        """See Desktop."""
        return (await self._look("under", x, y))[0].windows

    async def shot_at(self, x: int, y: int) -> Screenshot:
        """See Desktop."""
        return self._shot(*await self._look("point", x, y))

    async def shot_of(self, window_id: int) -> Screenshot:
        """See Desktop."""
        return self._shot(*await self._look("window", window_id))

    def _shot(self, seen: _HelperAnswer, pixels: bytes) -> Screenshot:
        try:
            return Screenshot(
                picture=Picture(width=seen.width, height=seen.height, rgb=pixels), cross=seen.cross
            )
        except ValueError as error:
            raise DesktopUnreadable(str(error)) from error

    async def _look(self, *words: object) -> tuple[_HelperAnswer, bytes]:
        """What `x11_look` prints: its line, and what follows."""
        done = await self._run((*HELPER, *map(str, words)))
        if done.exit_code != 0:
            said = done.stderr_tail.decode("utf-8", "replace").strip().split("\n")[0]
            raise DesktopUnreadable(said or "the display could not be looked at")
        line, _, pixels = done.stdout.partition(b"\n")
        try:
            return msgspec.json.decode(line, type=_HelperAnswer), pixels
        except msgspec.MsgspecError as error:
            raise DesktopUnreadable("the display could not be looked at") from error

    async def _run(self, argv: tuple[str, ...]) -> ChildExit:
        """Run a program that looks, within its time."""
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
