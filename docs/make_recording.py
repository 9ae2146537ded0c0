"""Records the main scene of the real console as docs/images/recording.svg: `make docs-recording`.

An agent asks for a tool of high risk, the card opens, a person reads and approves it, it runs, and the log
has it. As in `make_images.py` the values are the kernel's own, and nothing of this machine is shown.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import anyio
from make_images import AGENT, IMAGES, Stage, make_root, stage
from recording import SHOTS, Shot, animated

from flycore.model.call import CallRequest
from flycore.model.enums import Effective
from flycore.registry.paths import REGISTRY_FILE, RootPaths
from flycore.registry.starter import registry_of, starter_pieces
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.screens.main import MainScreen
from flytui.console.screens.trust import TrustScreen
from flytui.console.widgets.virtual_list import VirtualList

SIZE = (100, 28)
TITLE = "flytui asks a person before an agent's command runs"
ENTRIES = ("utility.local", "utility.files", "media.local", "web.search", "web.pages", "web.files")
"""The entries of the starter registry that the project has: those that need no desktop and no browser."""
TOOL, COMMAND = "shell.run", "rm -rf build"


class Recorder:
    """Collects the pictures of the shots, in their order."""

    def __init__(self, scene: Stage) -> None:
        self._scene = scene
        self._shots = list(SHOTS)
        self.pictures: list[tuple[Shot, str]] = []

    async def take(self, name: str) -> None:
        """Takes the picture of the next shot. Raises RuntimeError where that is another one."""
        await self._scene.pilot.pause(0.3)
        shot = self._shots.pop(0)
        if shot.name != name:
            raise RuntimeError(f"the next shot is {shot.name}, not {name}")
        self.pictures.append((shot, self._scene.app.export_screenshot()))


async def record(places: RootPaths) -> str:
    """Plays the scene, and returns the recording."""
    async with stage(places, SIZE) as scene, anyio.create_task_group() as group:
        recorder = Recorder(scene)
        await scene.until("the trust question", lambda: isinstance(scene.app.screen, TrustScreen))
        waiting = scene.kernel.pending_trust()
        await scene.approver.trust(tuple((item.sidecar, item.digest) for item in waiting))
        await scene.until("the catalog", lambda: isinstance(scene.app.screen, MainScreen))
        await show_catalog(scene, recorder)
        group.start_soon(call_tool, scene)
        await decide(scene, recorder)
        await look_back(scene, recorder)
        group.cancel_scope.cancel()
    return animated(recorder.pictures, *SIZE, TITLE)


async def call_tool(scene: Stage) -> None:
    """Makes the agent's call."""
    request = CallRequest(
        call_id=scene.kernel.new_call_id(),
        tool=TOOL,
        input={"command": COMMAND},
        caller=AGENT,
        said="start the build from nothing",
    )
    await scene.kernel.call(request)


async def show_catalog(scene: Stage, recorder: Recorder) -> None:
    """Shows the catalog once every sidecar was asked."""

    def probed() -> bool:
        view = scene.app.state.catalog and scene.app.state.catalog.capability("file.hash")
        return bool(view and view.stability.effective is Effective.AVAILABLE)

    await scene.until("the probes", probed)
    await scene.later()
    await recorder.take("catalog")


async def decide(scene: Stage, recorder: Recorder) -> None:
    """Reads the card as it opens, and approves it with the letter that it shows."""
    await scene.until("the card", lambda: isinstance(scene.app.screen, RequestScreen))
    await recorder.take("asked")
    for key in ("end", "home"):
        await scene.later(1.0)
        await scene.pilot.press(key)
    await scene.later(2.0)
    await recorder.take("card")
    [ask] = scene.app.state.waiting
    await scene.keys("a")
    await recorder.take("letter")
    await scene.keys(ask.request.letter)
    await scene.until("the decision", lambda: not scene.app.state.waiting)
    await recorder.take("decided")


async def look_back(scene: Stage, recorder: Recorder) -> None:
    """Shows the call in Activity, and its lines in the log."""
    await scene.until("the end", lambda: any(item.result for item in scene.app.state.activity))
    if not isinstance(scene.app.screen, MainScreen):
        await scene.keys("escape")
    await scene.keys("3")
    await scene.until("the call", lambda: scene.shows(TOOL))
    await scene.keys("enter")
    await scene.pilot.pause(0.5)
    await recorder.take("ran")
    await scene.keys("escape", "5")
    await scene.until("the log", lambda: scene.app.screen.query_one("#audit-rows", VirtualList).row_count)
    await scene.pilot.pause(1.0)
    await recorder.take("log")


def main() -> None:
    """Records the scene."""
    with tempfile.TemporaryDirectory(prefix="flytui-recording-") as base:
        places, environ = make_root(Path(base), "")
        pieces = [piece for piece in starter_pieces(places.app_root, {}) if piece.id in ENTRIES]
        (places.app_root / REGISTRY_FILE).write_text(registry_of(pieces))
        (places.app_root / "build").mkdir()
        (places.app_root / "build" / "shop.js").write_text("// built\n")
        # The kernel takes the environment of this process.
        os.environ.clear()
        os.environ.update(environ, TZ="UTC", COLORTERM="truecolor")
        del os.environ["DISPLAY"]
        (IMAGES / "recording.svg").write_text(anyio.run(record, places))


if __name__ == "__main__":
    main()
