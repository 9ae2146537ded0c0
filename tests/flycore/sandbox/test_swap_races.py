"""Somebody swaps files all the time while calls are approved and run: what runs is what was approved.

A thread flips one file between two versions, in place or by a rename, at random moments. Each version says
its name when it runs. Every card names a seal, each seal belongs to one version, and the version that answers
must be the one whose card was approved last. Calls may be refused; none may run the other version.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import ToolResult
from flycore.model.enums import Code, ReasonCode, RequestState, Status
from kits.kernel import PATIENCE, STARTS_DELEGATE, Root, a_caller, approve, kernel_of, request, tool

pytestmark = [pytest.mark.anyio, pytest.mark.suite]

ROUNDS = 500 if os.environ.get("FLYTUI_SUITES") == "full" else 25
VERSIONS = ("one", "two")
LONGEST_PAUSE = 0.02
"""Between two flips, seconds. A call takes about half of it: some see none, most see one somewhere."""

REFUSALS = (Code.SPAWN, Code.APPROVAL_STALE, ReasonCode.COMMAND_NOT_FOUND)
"""How a call ends that nothing was run for; a file that is replaced while it is followed is not there."""

SAY = '#!/bin/sh\nread -r request\nprintf \'{{"ok": true, "version": "{0}"}}\\n\'\n'
LOADS = """#!/bin/sh
read -r request
. "$(dirname "$0")/../lib/version.sh"
printf '{"ok": true, "version": "%s"}\\n' "$version"
"""


@dataclass(frozen=True)
class Scene:
    """One sidecar and the file that is swapped. `version` names the version a card stands for."""

    target: Path
    texts: dict[str, str]
    seal_of: Callable[[Ask], str]


def own_seal(ask: Ask) -> str:
    """What identifies the program on the card."""
    return ask.request.seal.digest


def delegate_seal(ask: Ask) -> str:
    """What identifies the delegate on the card."""
    return ask.request.delegates[0].seal.digest


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def versions(form: str) -> dict[str, str]:
    return {name: form.format(name) for name in VERSIONS}


def program(root: Root) -> Scene:
    return Scene(root.sidecar("it", SAY.format("one")), versions(SAY), own_seal)


def member(root: Root) -> Scene:
    folder = root.folder / "tools" / "packages" / "it"
    write(folder / "bin" / "run", LOADS)
    swapped = write(folder / "lib" / "version.sh", "version=one\n")
    root.sidecars["it"] = {"command": "./tools/packages/it/bin/run", "tools": [tool("it.do")]}
    root.write()
    return Scene(swapped, versions("version={0}\n"), own_seal)


def delegate(root: Root) -> Scene:
    swapped = write(root.folder / "tools" / "hand" / "run", SAY.format("one"))
    root.sidecar("it", STARTS_DELEGATE, delegates={"hand": {"command": "./tools/hand/run"}})
    return Scene(swapped, versions(SAY), delegate_seal)


def interpreter(root: Root) -> Scene:
    swapped = write(root.folder / "tools" / "interpreter" / "run", SAY.format("one"))
    root.sidecar("it", f"#!{swapped}\n")
    return Scene(swapped, versions(SAY), own_seal)


@contextmanager
def flipping(scene: Scene, seed: int) -> Iterator[Counter[str]]:
    """A thread that keeps swapping the file; how often it put each version there."""
    chance = random.Random(seed)
    stop = threading.Event()
    flips: Counter[str] = Counter()
    beside = scene.target.parent.parent / ".fresh"

    def flip() -> None:
        while not stop.wait(chance.uniform(0, LONGEST_PAUSE)):
            name = chance.choice(VERSIONS)
            if chance.random() < 0.5:
                with scene.target.open("r+") as opened:
                    opened.write(scene.texts[name])  # of the same length: never a piece of one
            else:
                os.replace(write(beside, scene.texts[name]), scene.target)
            flips[name] += 1

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield flips
    finally:
        stop.set()
        thread.join()


async def approve_all(kernel: Kernel, number: int) -> tuple[ToolResult, list[Ask]]:
    """One call whose every card is approved at once, and the cards, in order."""
    results: list[ToolResult] = []
    approved: list[Ask] = []
    caller = a_caller(f"agent{number}", 10_000 + number)

    async def run(scope: anyio.CancelScope) -> None:
        results.append(await kernel.call(request(kernel, "it.do", {"n": number}, caller=caller)))
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(run, group.cancel_scope)
        while True:
            await anyio.sleep(0.001)
            for ask in kernel.asks():
                known = any(ask.request.id == other.request.id for other in approved)
                if ask.request.caller == caller and ask.state is RequestState.WAITING and not known:
                    approved.append(ask)
                    await approve(kernel, ask)
    return results[0], approved


@pytest.mark.parametrize("scene_of", [program, member, delegate, interpreter])
async def test_what_runs_is_what_was_approved_whoever_swaps(
    scene_of: Callable[[Root], Scene], tmp_path: Path
) -> None:
    root = Root(tmp_path)
    scene = scene_of(root)
    ends: Counter[str] = Counter()
    async with kernel_of(root) as kernel:
        stands_for: dict[str, str] = {}
        for number, name in enumerate(VERSIONS):
            scene.target.write_text(scene.texts[name])
            result, [ask] = await approve_all(kernel, number)
            assert said(result) == name
            stands_for[scene.seal_of(ask)] = name
        assert len(stands_for) == len(VERSIONS)
        with anyio.fail_after(PATIENCE + ROUNDS), flipping(scene, ROUNDS) as flips:
            for number in range(ROUNDS):
                result, asks = await approve_all(kernel, number + len(VERSIONS))
                if result.status is Status.SUCCESS:
                    assert asks, "it ran without a card"
                    right = stands_for.get(scene.seal_of(asks[-1]))
                    ends["right" if said(result) == right else "wrong"] += 1
                else:
                    assert result.error is not None
                    assert result.error.code in REFUSALS, result
                    ends[str(result.error.code)] += 1
                ends["asked again"] += len(asks) > 1
    print(scene_of.__name__, dict(ends), dict(flips))
    assert ends["wrong"] == 0
    assert ends["right"] > 0
    assert min(flips[name] for name in VERSIONS) > 0


def said(result: ToolResult) -> object:
    assert isinstance(result.output, dict), result
    return result.output["version"]
