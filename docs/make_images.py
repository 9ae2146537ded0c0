"""Takes the pictures of docs/images from the real console: `make docs-images`.

It opens a kernel on a temporary root with this repository's registry, an X server with one terminal window,
and a caller that asks to type into that window. The values are the kernel's own; only the folders of the root
and of this installation and the times are replaced, so that a picture shows nothing of the machine that took
it.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from neutral import MIDDAY, NeutralClient, NeutralReader
from rich.cells import cell_len
from textual.pilot import Pilot

from flycore.client.attach import open_own_console
from flycore.client.serve import open_served_kernel
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, LeaseTerms, Outcome
from flycore.model.call import Caller, CallRequest
from flycore.model.enums import Choice, Effective, KernelRole, RequestState
from flycore.model.json import Json
from flycore.registry.paths import RootPaths, find_paths
from flycore.rpc.methods import Approver
from flysafe.unix_sockets import send_descriptor
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.forms.form_screen import FormScreen
from flytui.console.kernel_connection import OpenConnection
from flytui.console.screens.main import MainScreen
from flytui.console.screens.trust import TrustScreen
from flytui.console.state import ConsoleState

REPOSITORY = Path(__file__).resolve().parents[1]
IMAGES = Path(__file__).resolve().parent / "images"
SIZE = (120, 40)
TITLE = "~/shop"
PATIENCE = 60.0
AGENT = Caller(door="socket", program="agent", executable="/usr/bin/agent", pid=4121, started=1)
WINDOW = "notes"
LETTERS = (
    "-fa",
    "DejaVu Sans Mono",
    "-fs",
    "40",
    "-geometry",
    "10x4+300+120",
    "-bg",
    "#fdf6e3",
    "-fg",
    "#073642",
)
"""How the window writes: so large that its words can be read in a picture of half blocks."""
NOTES = r"printf '\033[30;46m NOTES    \033[0m\n- tea\n'; stty -echo; exec cat"
"""What the window shows before anything is typed into it."""
NEEDED = {"Xvfb": "xvfb", "xterm": "xterm", "xdotool": "xdotool"}
"""Maps each program that is needed to its Debian package."""


@dataclass
class HandClock:
    """The console's clock, on which arming depends. It moves only when `Stage.later` moves it."""

    at: float = 1_000.0

    def __call__(self) -> float:
        return self.at


@dataclass
class Stage:
    """The running console with its kernel, of which pictures are taken."""

    app: FlytuiApp
    pilot: Pilot[None]
    clock: HandClock
    kernel: Kernel
    approver: Approver
    """Decides what no picture shows, over the connection of the console."""

    async def until(self, what: str, found: Callable[[], object]) -> None:
        """Waits until `found` returns a true value. Raises TimeoutError after `PATIENCE` seconds."""
        with anyio.move_on_after(PATIENCE):
            while not found():
                await self.pilot.pause(0.02)
            return
        raise TimeoutError(f"did not appear: {what}")

    async def later(self, seconds: float = 5.0) -> None:
        """Moves the console's clock on, so that keys arm, and waits until they are drawn as armed."""
        self.clock.at += seconds
        await self.pilot.pause(0.3)

    async def keys(self, *keys: str) -> None:
        """Presses keys as a person does, a second apart, because keys in quick succession do not arm."""
        for key in keys:
            await self.later(1.0)
            await self.pilot.press(key)

    def shows(self, words: str) -> bool:
        """Returns whether these words are on screen, next to each other."""
        return words.replace(" ", "&#160;") in self.app.export_screenshot()

    async def picture(self, name: str) -> None:
        """Writes `docs/images/NAME.svg`, without the font that its template would fetch."""
        await self.pilot.pause(0.3)
        drawn = self.app.export_screenshot(title="flytui")
        drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
        drawn = re.sub(r"terminal-\d+", "terminal", drawn)
        drawn = _TEXT.sub(_unpadded, drawn)
        (IMAGES / f"{name}.svg").write_text(re.sub(r"[ \t]+$", "", drawn, flags=re.MULTILINE))


_TEXT = re.compile(
    r'(<text class="[^"]*") x="([\d.]+)"( y="[^"]*") textLength="[\d.]+"([^>]*)>([^<]*)</text>'
)
_CELL = 12.2
"""Width of a cell in the picture's units, as Rich draws it."""


def _unpadded(found: re.Match[str]) -> str:
    """Returns the text element from its first letter on, because some programs drop spaces at the ends."""
    head, left, top, clip, text = found.groups()
    plain = html.unescape(text)
    shown = plain.strip("\xa0")
    if not shown:
        return ""
    start = float(left) + _CELL * cell_len(plain[: plain.index(shown)])
    body = html.escape(shown, quote=False).replace("\xa0", "&#160;")
    return f'{head} x="{start:g}"{top} textLength="{_CELL * cell_len(shown):g}"{clip}>{body}</text>'


@contextmanager
def desktop() -> Iterator[str]:
    """Runs an X server with one focused terminal window, and yields the name of its display."""
    missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if missing:
        sys.exit(f"the pictures need an X server with a window: apt install {' '.join(missing)}")
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x800x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=(writing,), stderr=subprocess.DEVNULL)
    os.close(writing)
    try:
        display = f":{os.read(reading, 16).decode().strip()}"
        environ = {**os.environ, "DISPLAY": display}
        window = subprocess.Popen(["xterm", "-T", WINDOW, *LETTERS, "-e", "sh", "-c", NOTES], env=environ)
        try:
            search = ["xdotool", "search", "--sync", "--onlyvisible", "--name", WINDOW]
            subprocess.run([*search, "windowfocus", "--sync"], env=environ, check=True, timeout=PATIENCE)
            yield display
        finally:
            window.terminate()
            window.wait()
    finally:
        os.close(reading)
        server.terminate()
        server.wait()


def make_root(base: Path, display: str) -> tuple[RootPaths, dict[str, str]]:
    """Makes a project with this repository's registry, and returns its paths and the environment for them."""
    root = base / "shop"
    (root / "tools").mkdir(parents=True)
    registry = "tools/external.tools.jsonc"
    shutil.copy(REPOSITORY / registry, root / registry)
    (root / "README.md").write_text("# shop\n")
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(base), "LANG": "C.UTF-8"}
    for name in ("config", "state", "data", "cache", "runtime"):
        (base / name).mkdir(mode=0o700)
        environ[f"XDG_{name.upper()}_{'DIR' if name == 'runtime' else 'HOME'}"] = str(base / name)
    return find_paths(str(root), None, environ, root), {**environ, "DISPLAY": display}


@asynccontextmanager
async def stage(places: RootPaths, size: tuple[int, int] = SIZE) -> AsyncIterator[Stage]:
    """Opens a kernel and a console in which nothing has been decided yet."""
    folders = {
        str(places.app_root): TITLE,
        str(places.app_root.parent): "~",
        str(Path(sys.prefix)): "~/flytui/.venv",
        str(Path(sys.base_prefix)): "/usr",
        str(REPOSITORY): "~/flytui",
    }
    supervisor, consoles = socket.socketpair()
    opening = open_served_kernel(places, on_wait=lambda *_: None, role=KernelRole.CONSOLE, consoles=consoles)
    async with opening as kernel:
        ours, theirs = socket.socketpair()
        with supervisor, theirs:
            send_descriptor(supervisor, str(os.getpid()).encode(), theirs.fileno())
        async with open_own_console(places, ours) as (client, approver):
            clock = HandClock()
            state = ConsoleState(
                connection=OpenConnection(NeutralClient(client, folders), approver),
                title=TITLE,
                clock=clock,
                now=lambda: MIDDAY + 12,
                audit_reader=NeutralReader(places, folders),
            )
            app = FlytuiApp(state)
            async with app.run_test(size=size) as pilot:
                yield Stage(app, pilot, clock, kernel, approver)


async def take_pictures(places: RootPaths) -> None:
    """Takes all pictures in one session, in the order in which a new user sees the screens."""
    async with stage(places) as scene, anyio.create_task_group() as group:

        def call(tool: str, purpose: str = "", **tool_input: Json) -> None:
            request = CallRequest(
                call_id=scene.kernel.new_call_id(), tool=tool, input=tool_input, caller=AGENT, said=purpose
            )
            group.start_soon(scene.kernel.call, request)

        await picture_trust(scene)
        await picture_catalog(scene)
        await picture_form(scene)
        await picture_doctor(scene)
        call("computer.keyboard", "note what is open", action="type", text="- milk\n", window=WINDOW)
        await picture_card(scene)
        await picture_activity(scene, call)
        await picture_screenshot(scene, call)
        await picture_forms(scene, call)
        await picture_grants(scene)
        group.cancel_scope.cancel()


async def picture_trust(scene: Stage) -> None:
    """Takes the trust question of the first start, then answers it."""
    await scene.until("the trust question", lambda: isinstance(scene.app.screen, TrustScreen))
    while not scene.shows("keys ready"):
        await scene.pilot.press("end")
        await scene.later(1.0)
    await scene.pilot.press("home")
    await scene.later(1.0)
    await scene.picture("trust")
    await scene.keys("end", "a")
    await scene.until("the catalog", lambda: isinstance(scene.app.screen, MainScreen))


async def picture_catalog(scene: Stage) -> None:
    """Takes the catalog after the probes, with the cursor on a tool that does not work."""

    def probed() -> bool:
        view = scene.app.state.catalog and scene.app.state.catalog.capability("mock.echo")
        return bool(view and view.stability.effective is Effective.DEGRADED)

    await scene.until("the probes", probed)
    while not scene.shows("there is no such file"):
        await scene.pilot.press("down")
    await scene.picture("catalog")
    await scene.later()


async def picture_form(scene: Stage) -> None:
    """Takes the form of a test call, with a value that does not fit."""
    await scene.keys(":", *"vision.ocr", "enter", "t")
    await scene.until("the form", lambda: isinstance(scene.app.screen, FormScreen))
    await scene.keys(*"scan.png", "tab", *"e!")
    await scene.until("the check", lambda: scene.shows("problem"))
    await scene.picture("form")
    await scene.keys("escape")
    await scene.until("the catalog again", lambda: isinstance(scene.app.screen, MainScreen))


async def picture_doctor(scene: Stage) -> None:
    """Takes the screen Doctor."""
    await scene.keys("7")
    await scene.until("the checks", lambda: scene.shows("to look at"))
    await scene.picture("doctor")
    await scene.keys("1")
    await scene.later()


async def picture_card(scene: Stage) -> None:
    """Takes an armed card, then approves it with the letter that it shows."""
    await scene.until("the card", lambda: isinstance(scene.app.screen, RequestScreen))
    while not scene.shows("keys ready"):
        await scene.later(1.0)
    await scene.picture("card")
    [ask] = scene.app.state.waiting
    await scene.keys("end", "a", ask.request.letter)
    await scene.until("the decision", lambda: not scene.app.state.waiting)
    await scene.until("the typing", lambda: any(item.result for item in scene.app.state.activity))
    await scene.until("free hands", lambda: not scene.app.state.desktop_controlled)


async def picture_activity(scene: Stage, call: Callable[..., None]) -> None:
    """Takes Activity with finished, denied and running calls."""
    call("file.hash", path="README.md")
    call("example.missing")
    await answer(scene, lambda: call("computer.window", action="list"), Choice.DENY, "not on my desktop")
    await answer(scene, lambda: call("mock.echo", message="hello", fail="crash"), Choice.APPROVE_ONCE)
    await answer(scene, lambda: call("mock.echo", message="hello", delayMs=60_000), Choice.APPROVE_ONCE)
    if not isinstance(scene.app.screen, MainScreen):
        await scene.keys("escape")
    await scene.keys("3")
    await scene.until("progress", lambda: any(item.progress for item in scene.app.state.activity))
    await scene.keys("home", "down")
    await scene.picture("activity")


async def picture_forms(scene: Stage, call: Callable[..., None]) -> None:
    """Takes two forms of a card: a rule, and the edited input."""
    call("mock.echo", "to see how it feels", message="hello again")
    await scene.until("the request", lambda: scene.app.state.waiting)
    await scene.keys("ctrl+o")
    await scene.until("the card", lambda: isinstance(scene.app.screen, RequestScreen))
    for key, name in (("u", "rule"), ("e", "edit")):
        await scene.keys(key)
        await scene.until("the form", lambda: not isinstance(scene.app.screen, RequestScreen))
        await scene.picture(name)
        await scene.keys("escape")
        await scene.until("the card again", lambda: isinstance(scene.app.screen, RequestScreen))
    await scene.keys("escape")


async def picture_screenshot(scene: Stage, call: Callable[..., None]) -> None:
    """Takes the page of a call that made a screenshot."""
    await answer(scene, lambda: call("screen.screenshot"), Choice.APPROVE_ONCE)
    await scene.until("the screenshot", lambda: scene.shows("screen.screenshot"))
    await scene.keys("3", "/", *"screenshot", "enter", "enter")
    await scene.until("the picture", lambda: "▀" in scene.app.export_screenshot())
    await scene.picture("screenshot")
    await scene.keys("escape", "escape")


async def picture_grants(scene: Stage) -> None:
    """Takes the screen Grants with a lease, then the screen after everything was stopped."""
    request = scene.app.state.waiting[0].request
    lease = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=15, calls=20))
    await scene.approver.decide(request.id, request.subject_digest, lease)
    await scene.until("the lease", lambda: scene.app.state.leases)
    await scene.keys("4")
    await scene.picture("grants")
    await scene.keys("2", "ctrl+x")
    await scene.later(0.5)
    await scene.pilot.press("ctrl+x")
    await scene.until("the stop", lambda: scene.app.state.panic_active)
    await scene.picture("stopped")


async def answer(scene: Stage, ask: Callable[[], None], choice: Choice, reason: str = "") -> None:
    """Makes a call, and decides about its request. Raises RuntimeError if the answer is not accepted."""
    ask()
    await scene.until("the request", lambda: scene.kernel.asks()[0].state is RequestState.WAITING)
    request = scene.kernel.asks()[0].request
    outcome: Outcome = await scene.approver.decide(
        request.id, request.subject_digest, Answer(choice=choice, reason=reason)
    )
    if not outcome.accepted:
        raise RuntimeError(outcome.why_not)
    await scene.pilot.pause(0.3)


def main() -> None:
    """Takes all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="flytui-images-") as base, desktop() as display:
        places, environ = make_root(Path(base), display)
        # The kernel takes the environment of this process.
        os.environ.clear()
        os.environ.update(environ, TZ="UTC", COLORTERM="truecolor")
        anyio.run(take_pictures, places)


if __name__ == "__main__":
    main()
