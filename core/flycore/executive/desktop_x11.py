"""Reads an X11 display through xdotool, which every desktop sidecar needs anyway, and pictures through
`x11_look` in a process of its own. Reads only."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

import anyio
import msgspec

from flycore.executive.preview import Window
from flycore.executive.shots import DesktopUnreadable, Shot
from flycore.model.picture import Picture
from flycore.model.sidecar import Limits
from flycore.runners.run import ChildExit, RunLimits, run_child
from flycore.runners.spawn import SpawnSpec

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
PASSED = ("DISPLAY", "XAUTHORITY", "HOME", "LANG")
LOOK_MS = 3_000
LOOK_BYTES = 1_048_576
WINDOWS_AT_MOST = 200
LOOKER = (sys.executable, "-I", "-m", "flycore.executive.x11_look")
"""Isolated: neither a folder nor a variable of the project changes what it imports."""


class _Seen(msgspec.Struct, frozen=True):
    """The line `x11_look` prints."""

    under: tuple[int, ...] = ()
    width: int = 0
    height: int = 0
    cross: tuple[int, int] | None = None


class X11Desktop:
    """The display that the kernel's environment names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name: environ[name] for name in PASSED if name in environ}

    async def focused(self) -> Window | None:
        """See Desktop."""
        found = (await self._ask("getwindowfocus") or "").split()
        return await self.window(int(found[0])) if found and found[0].isdigit() else None

    async def windows(self) -> tuple[Window, ...]:
        """See Desktop."""
        listed = await self._ask("search", "--onlyvisible", "--name", ".")
        ids = [int(word) for word in (listed or "").split() if word.isdigit()][:WINDOWS_AT_MOST]
        seen: list[Window] = []
        for window_id in ids:
            window = await self.window(window_id)
            if window is not None:
                seen.append(window)
        return tuple(seen)

    async def window(self, window_id: int) -> Window | None:
        """See Desktop."""
        title = await self._ask("getwindowname", str(window_id))
        if title is None:
            return None
        pid = (await self._ask("getwindowpid", str(window_id)) or "").strip()
        return Window(id=window_id, title=title.rstrip("\n"), pid=int(pid) if pid.isdigit() else 0)

    async def under(self, x: int, y: int) -> tuple[Window, ...]:
        """See Desktop."""
        seen, _ = await self._look("under", x, y)
        found = [await self.window(number) for number in seen.under]
        return tuple(window for window in found if window is not None)

    async def shot_at(self, x: int, y: int) -> Shot:
        """See Desktop."""
        return self._shot(*await self._look("point", x, y))

    async def shot_of(self, window_id: int) -> Shot:
        """See Desktop."""
        return self._shot(*await self._look("window", window_id))

    def _shot(self, seen: _Seen, pixels: bytes) -> Shot:
        try:
            return Shot(picture=Picture(width=seen.width, height=seen.height, rgb=pixels), cross=seen.cross)
        except ValueError as error:
            raise DesktopUnreadable(str(error)) from error

    async def _look(self, *words: object) -> tuple[_Seen, bytes]:
        """What `x11_look` prints: its line, and what follows."""
        done = await self._run((*LOOKER, *map(str, words)))
        if done.exit_code != 0:
            said = done.stderr_tail.decode("utf-8", "replace").strip().split("\n")[0]
            raise DesktopUnreadable(said or "the display could not be looked at")
        line, _, pixels = done.stdout.partition(b"\n")
        try:
            return msgspec.json.decode(line, type=_Seen), pixels
        except msgspec.MsgspecError as error:
            raise DesktopUnreadable("the display could not be looked at") from error

    async def _ask(self, *args: str) -> str | None:
        """What xdotool prints; None where it finds nothing."""
        program = shutil.which("xdotool", path=SEARCH_PATH)
        if program is None:
            raise DesktopUnreadable(
                "xdotool is not installed, so no window can be seen (apt install xdotool)"
            )
        done = await self._run((program, *args))
        return done.stdout.decode("utf-8", "replace") if done.exit_code == 0 else None

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
        done = await run_child(spec, b"", RunLimits(timeout_ms=LOOK_MS, max_output_bytes=LOOK_BYTES), None)
        if done.spawn_error:
            raise DesktopUnreadable(f"{argv[0]} does not start: {done.spawn_error}")
        if done.timed_out:
            raise DesktopUnreadable("the display did not answer in time")
        await anyio.lowlevel.checkpoint()
        return done
