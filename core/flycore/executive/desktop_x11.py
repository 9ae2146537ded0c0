"""Reads an X11 display through xdotool, which every desktop sidecar needs anyway. Reads only."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import anyio

from flycore.executive.preview import DesktopUnreadable, Window
from flycore.model.sidecar import Limits
from flycore.runners.run import RunLimits, run_child
from flycore.runners.spawn import SpawnSpec

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
PASSED = ("DISPLAY", "XAUTHORITY", "HOME", "LANG")
LOOK_MS = 3_000
LOOK_BYTES = 1_048_576
WINDOWS_AT_MOST = 200


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

    async def _ask(self, *args: str) -> str | None:
        """What xdotool prints; None where it finds nothing."""
        program = shutil.which("xdotool", path=SEARCH_PATH)
        if program is None:
            raise DesktopUnreadable(
                "xdotool is not installed, so no window can be seen (apt install xdotool)"
            )
        if "DISPLAY" not in self._environ:
            raise DesktopUnreadable("DISPLAY is not set, so there is no X11 display to look at")
        spec = SpawnSpec(
            argv=(program, *args),
            cwd="/",
            env={"PATH": SEARCH_PATH, **self._environ},
            call_id="",
            limits=Limits(),
        )
        done = await run_child(spec, b"", RunLimits(timeout_ms=LOOK_MS, max_output_bytes=LOOK_BYTES), None)
        if done.spawn_error:
            raise DesktopUnreadable(f"xdotool does not start: {done.spawn_error}")
        if done.timed_out:
            raise DesktopUnreadable("the display did not answer in time")
        await anyio.lowlevel.checkpoint()
        return done.stdout.decode("utf-8", "replace") if done.exit_code == 0 else None
