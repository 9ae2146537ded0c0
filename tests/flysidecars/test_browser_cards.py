"""Cards for a real Chromium: what the kernel saw there, and that nothing else is acted on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import ToolResult
from flycore.model.enums import Effective, Status
from kits.browser import Browser, PersistentBrowser, Site, browsing, serving
from kits.kernel import Root, answered_call, approve, approved_call, kernel_of, until, waiting_ask

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def hand(tmp_path: Path, browser: Browser) -> Iterator[PersistentBrowser]:
    """The person's own hand in the browser."""
    folder = tmp_path / "hand"
    folder.mkdir()
    argv = [str(Path(sys.executable).parent / "flytui-sidecar"), "browser.cdp"]
    with PersistentBrowser(
        argv, {"PATH": "/usr/bin:/bin", "HOME": str(folder)}, folder, browser.endpoint
    ) as process:
        yield process


@pytest.fixture
def root(tmp_path: Path, browser: Browser) -> Root:
    made = Root(tmp_path)
    made.sidecars["browser.cdp"] = {
        "command": "flytui-sidecar",
        "args": ["browser.cdp"],
        "config": {"endpoint": browser.endpoint},
        "permissions": {"network": True, "fs": {"write": ["screenshots"]}},
        "tools": [f"browser.{name}" for name in ("snapshot", "screenshot", "click", "type", "navigate")],
    }
    made.write()
    return made


async def ready(kernel: Kernel) -> None:
    def available() -> bool:
        views = {view.capability.name: view for view in kernel.catalog().capabilities}
        return views["browser.click"].stability.effective is Effective.AVAILABLE

    await until(available)


async def by_hand(hand: PersistentBrowser, tool: str, **input: Any) -> dict[str, Any]:
    answer = await anyio.to_thread.run_sync(partial(hand.call, tool, **input))
    assert answer["ok"], answer
    return answer


async def asked(
    kernel: Kernel, hand: PersistentBrowser, site: Site, **change: str
) -> tuple[list[Ask], ToolResult]:
    """A click on the shop's button, while the page is changed before the first card is approved."""
    cards: list[Ask] = []

    async def decide(ask: Ask) -> None:
        cards.append(ask)
        for tool, value in change.items():
            key = {"evaluate": "script", "navigate": "url", "open": "url"}[tool]
            await by_hand(hand, tool, **{key: value})
        await approve(kernel, ask)
        if change:
            cards.append(await waiting_ask(kernel))
            await approve(kernel, cards[-1])

    result = await answered_call(kernel, decide, "browser.click", {"target": "form button"})
    return cards, result


async def test_the_card_names_what_is_clicked_and_the_server_saw_it(
    root: Root, hand: PersistentBrowser, site: Site
) -> None:
    tab = (await by_hand(hand, "open", url=f"{site.url}/"))["tab"]
    async with kernel_of(root) as kernel:
        await ready(kernel)
        (card,), result = await asked(kernel, hand, site)
        shot = await approved_call(kernel, "browser.screenshot")
    assert result.status is Status.SUCCESS
    seen = card.request.subject.preview
    assert seen is not None
    assert (seen.role, seen.name, seen.url, seen.tab) == ("button", "Send", f"{site.url}/", tab)
    assert card.request.page_title == "Shop"
    assert [path for path in site.asked if path.startswith("/sent")]
    (picture,) = shot.artifacts
    assert picture.mime_type == "image/png"
    assert (await anyio.Path(picture.path).read_bytes()).startswith(b"\x89PNG")


async def test_an_address_that_changed_is_asked_anew(root: Root, hand: PersistentBrowser, site: Site) -> None:
    await by_hand(hand, "open", url=f"{site.url}/")
    async with kernel_of(root) as kernel:
        await ready(kernel)
        script = "history.pushState({}, '', '/pay'); document.title = 'Pay'"
        cards, result = await asked(kernel, hand, site, evaluate=script)
    assert cards[1].request.difference == (f'- /page/url: "{site.url}/"', f'+ /page/url: "{site.url}/pay"')
    assert cards[1].request.page_title == "Pay"
    assert result.status is Status.SUCCESS
    assert [path for path in site.asked if path.startswith("/sent")]


async def test_a_button_that_changed_its_name_is_asked_anew(
    root: Root, hand: PersistentBrowser, site: Site
) -> None:
    await by_hand(hand, "open", url=f"{site.url}/")
    async with kernel_of(root) as kernel:
        await ready(kernel)
        script = "document.querySelector('form button').textContent = 'Pay 500'"
        cards, result = await asked(kernel, hand, site, evaluate=script)
    assert cards[1].request.difference == ('- /page/name: "Send"', '+ /page/name: "Pay 500"')
    assert result.status is Status.SUCCESS


async def test_another_tab_in_front_changes_nothing(root: Root, hand: PersistentBrowser, site: Site) -> None:
    """What was meant when the call arrived is what is clicked, as with windows."""
    await by_hand(hand, "open", url=f"{site.url}/")

    async def look_elsewhere(ask: Ask) -> None:
        await by_hand(hand, "open", url=f"{site.url}/other")
        await approve(kernel, ask)

    async with kernel_of(root) as kernel:
        await ready(kernel)
        result = await answered_call(kernel, look_elsewhere, "browser.click", {"target": "form button"})
    assert result.status is Status.SUCCESS
    assert isinstance(result.output, dict)
    assert str(result.output["url"]).startswith(f"{site.url}/sent")
