"""Sidecars in the form of Flyflor's programs at a real desktop and a real browser: what was typed, clicked
and shown is looked at itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.model.enums import Code, Effective, ReasonCode, Status
from kits.browser import browsing
from kits.browser import serving as site_of
from kits.foreign_sidecars import BROWSER, NATIVE, program
from kits.kernel import Root, kernel_of, permitted_call, request, until
from kits.programs import needs
from kits.terminals import display, recorder, xdotool

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.timeout(180)]

HANDS = {"mouseCommand": "xdotool", "mouseArgs": [], "keyboardCommand": "xdotool", "keyboardArgs": []}
CAMERA = """#!/bin/sh
printf 'a picture' > "$2"
"""


@pytest.fixture
def screen() -> Iterator[str]:
    needs("Xvfb", "xdotool", "xterm")
    with display() as name:
        yield name


def native(base: Path, screen: str, config: dict[str, Any]) -> Root:
    root = Root(base)
    root.environ["DISPLAY"] = screen
    root.sidecar(
        "theirs",
        program(),
        *NATIVE,
        dialect="flyflor",
        probe={"mode": "off"},
        config=config,
        permissions={"desktop": True, "fs": {"write": [str(base)]}},
    )
    root.policy({"tool": "*", "decision": "allow", "because": "test"})
    return root


async def test_keys_and_clicks_arrive_whichever_form_they_are_sent_in(tmp_path: Path, screen: str) -> None:
    typed = tmp_path / "typed"
    root = native(tmp_path, screen, HANDS)
    with recorder(screen, "target", typed):
        async with kernel_of(root) as kernel:
            for given in ({"action": "type", "text": "-one "}, {"args": ["type", "two"]}):
                result = await permitted_call(kernel, "computer.keyboard", given)
                assert result.status is Status.SUCCESS, result
            await until(lambda: "-one two" in typed.read_text())
            point = {"action": "move", "x": 321, "y": 123}
            result = await permitted_call(kernel, "computer.mouse", point)
            assert result.status is Status.SUCCESS, result
            assert xdotool(screen, "getmouselocation").startswith("x:321 y:123 ")
            # A word that starts a program is no action of a mouse or a keyboard.
            words = {"args": ["key", "a", "exec", "touch", str(tmp_path / "made")]}
            refused = await permitted_call(kernel, "computer.keyboard", words)
            assert refused.error is not None
            assert refused.error.code == Code.INVALID_INPUT
            seen = await permitted_call(kernel, "computer.window", {"action": "list"})
            assert isinstance(seen.output, dict)
            assert seen.output["text"].strip() == "target"
            focus = {"action": "focus", "window": "target"}
            unable = await permitted_call(kernel, "computer.window", focus)
            assert unable.error is not None
            assert unable.error.code == Code.INVALID_INPUT, "it would answer success and focus nothing"
    assert not (tmp_path / "made").exists()


async def test_a_screenshot_is_a_file_or_is_said_to_be_impossible(tmp_path: Path, screen: str) -> None:
    root = native(tmp_path, screen, HANDS)
    if shutil.which("grim") or shutil.which("gnome-screenshot"):
        pytest.skip("a program for screenshots is installed")
    async with kernel_of(root) as kernel:
        unable = await permitted_call(kernel, "screen.screenshot")
        assert unable.error is not None
        assert (unable.status, unable.error.code) == (Status.UNAVAILABLE, ReasonCode.TOOL_UNAVAILABLE)
    root = native(tmp_path / "other", screen, HANDS)
    camera = root.folder / "tools" / "bin-theirs" / "gnome-screenshot"
    camera.write_text(CAMERA)
    camera.chmod(0o755)
    async with kernel_of(root) as kernel:
        result = await permitted_call(kernel, "screen.screenshot", {"path": "shot.png"})
    assert result.status is Status.SUCCESS, result
    assert (root.folder / "shot.png").read_text() == "a picture"
    assert [Path(item.path).name for item in result.artifacts] == ["shot.png"]


@pytest.mark.parametrize("command", ["", "cliclick"])
async def test_hands_whose_words_are_not_known_are_not_offered(
    tmp_path: Path, screen: str, command: str
) -> None:
    root = native(tmp_path, screen, {"mouseCommand": command, "keyboardCommand": command})
    async with kernel_of(root) as kernel:
        for tool in ("computer.mouse", "computer.keyboard"):
            view = kernel.catalog().capability(tool)
            assert view is not None
            assert view.stability.effective is Effective.UNAVAILABLE
            assert "xdotool" in view.stability.reasons[0].remedy
        other = kernel.catalog().capability("computer.window")
        assert other is not None
        assert other.stability.effective is Effective.AVAILABLE


async def test_a_browser_does_what_the_caller_says(tmp_path: Path) -> None:
    needs("chromium")
    with browsing(tmp_path) as browser, site_of() as site:
        site.pages["/form"] = (
            "<title>Form</title><input id=name><button id=go onclick=\"document.title='went'\">Go</button>"
        )
        root = Root(tmp_path)
        root.environ["FLYFLOR_BROWSER_CDP_URL"] = browser.endpoint
        root.sidecar(
            "theirs",
            program(),
            *BROWSER,
            dialect="flyflor",
            probe={"mode": "off"},
            passEnv=["FLYFLOR_BROWSER_CDP_URL"],
            permissions={"network": True, "fs": {"write": [str(tmp_path)]}},
        )
        root.policy({"tool": "*", "decision": "allow", "because": "test"})
        async with kernel_of(root) as kernel:

            async def value(script: str) -> Any:
                result = await kernel.call(request(kernel, "browser.evaluate", {"script": script}))
                assert isinstance(result.output, dict), result
                return result.output["value"]

            for tool, given in (
                ("browser.open", {"url": f"{site.url}/form"}),
                ("browser.navigate", {"url": f"{site.url}/form"}),
            ):
                result = await kernel.call(request(kernel, tool, given))
                assert (result.status, result.warnings) == (Status.SUCCESS, ()), result
            while await value("document.readyState + document.title") != "completeForm":
                pass
            typed = await kernel.call(request(kernel, "browser.type", {"target": "#name", "text": "abc"}))
            assert typed.status is Status.SUCCESS, typed
            assert await value("document.querySelector('#name').value") == "abc"
            clicked = await kernel.call(request(kernel, "browser.click", {"target": "#go"}))
            assert clicked.status is Status.SUCCESS, clicked
            assert await value("document.title") == "went"
            lost = await kernel.call(request(kernel, "browser.click", {"target": "#nowhere"}))
            assert lost.error is not None
            assert lost.error.code == Code.NOT_DONE
            gone = await kernel.call(request(kernel, "browser.navigate", {"url": "http://127.0.0.1:9/"}))
            assert gone.error is not None
            assert (gone.error.code, "ERR_" in gone.error.message) == (Code.NOT_DONE, True)
            shot = await kernel.call(request(kernel, "browser.screenshot"))
            assert (shot.status, shot.warnings) == (Status.SUCCESS, ()), shot
            picture = await anyio.Path(shot.artifacts[0].path).read_bytes()
            assert picture.startswith(b"\x89PNG")
            tree = await kernel.call(request(kernel, "browser.snapshot"))
            assert (tree.status, tree.warnings) == (Status.SUCCESS, ()), tree
