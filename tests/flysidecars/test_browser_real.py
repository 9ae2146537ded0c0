"""`browser.cdp` against Chromium and a page of the test's own."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kits.browser import Browser, PersistentBrowser, Site, browsing, serving

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

Do = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture(scope="module")
def staying(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[PersistentBrowser]:
    """The sidecar as a process that stays: its start is paid once."""
    folder = tmp_path_factory.mktemp("project")
    argv = [str(Path(sys.executable).parent / "flytui-sidecar"), "browser.cdp"]
    with PersistentBrowser(
        argv, {"PATH": "/usr/bin:/bin", "HOME": str(folder)}, folder, browser.endpoint
    ) as process:
        yield process


@pytest.fixture
def do(staying: PersistentBrowser) -> Do:
    """Call a tool of the sidecar."""
    return staying.call


@pytest.fixture
def shop(do: Do, site: Site) -> str:
    """The page opened in a tab of its own; its id."""
    answer = do("open", url=f"{site.url}/")
    assert (answer["ok"], answer["url"], answer["title"]) == (True, f"{site.url}/", "Shop")
    return str(answer["tab"])


def node(do: Do, role: str, name: str) -> dict[str, Any]:
    """The one element of that role and name in a new snapshot."""
    found = do("snapshot")
    (match,) = [node for node in found["nodes"] if (node["role"], node.get("name")) == (role, name)]
    return dict(match)


def test_read_type_click_and_the_server_saw_it(do: Do, shop: str, site: Site) -> None:
    nodes = do("snapshot")["nodes"]
    rows = [(row["role"], row.get("name")) for row in nodes]
    for row in (("heading", "Shop"), ("textbox", "Name"), ("button", "Send"), ("link", "Another page")):
        assert rows.count(row) == 1
    (heading,) = [row for row in nodes if row["role"] == "heading"]
    assert heading["states"] == ["level 1"]
    text = "Zoë 😀 $(id) `x` 'q' \"d\""
    assert do("type", target=node(do, "textbox", "Name")["target"], text=text)["ok"]
    typed = node(do, "textbox", "Name")
    assert (typed["value"], typed["states"]) == (text, ["focused"])
    after = do("click", target=node(do, "button", "Send")["target"])
    assert after["url"].startswith(f"{site.url}/sent?who=Zo%C3%AB")
    assert after["title"].startswith("/sent?who=")
    (asked,) = [path for path in site.asked if path.startswith("/sent")]
    assert "%F0%9F%98%80+%24%28id%29" in asked


def test_a_value_that_the_page_hides_stays_hidden(do: Do, shop: str) -> None:
    assert "hunter2" not in str(do("snapshot"))
    assert node(do, "textbox", "Secret")["value"] == "•" * 7


def test_what_is_in_a_frame_is_listed_and_clicked(do: Do, shop: str) -> None:
    assert do("click", target=node(do, "button", "Inside")["target"])["title"] == "inner"


def test_a_snapshot_of_one_element(do: Do, shop: str) -> None:
    nodes = do("snapshot", target="form")["nodes"]
    assert nodes[0]["role"] == "form"
    assert {row.get("name") for row in nodes if row["role"] == "button"} == {"Send"}
    assert do("snapshot", target="#away", limit=1)["nodes"] == [
        {"target": node(do, "link", "Another page")["target"], "role": "link", "name": "Another page"}
    ]
    assert [row["role"] for row in do("snapshot", limit=1)["nodes"]] == ["RootWebArea"]


def test_long_text_enter_and_tab_arrive_as_given(do: Do, shop: str) -> None:
    text = "first\tline\n" + "ä" * 1500 + "\r\nlast"
    assert do("type", target="textarea", text=text)["ok"]
    value = do("evaluate", script="document.querySelector('textarea').value")["value"]
    assert value == text.replace("\r\n", "\n")
    assert do("type", target="textarea", text="a\x1bb")["code"] == "invalid-input"


def test_keys_do_not_follow_a_focus_that_moves(do: Do, shop: str, site: Site) -> None:
    assert do("type", target="#jumpy", text="card number")["code"] == "not-focusable"
    assert do("evaluate", script="document.querySelector('[name=secret]').value")["value"] == "hunter2"
    sent = do("type", target="[name=who]", text="one\ntwo")
    assert (sent["code"], sent["typed"]) == ("focus-lost", 4)
    assert "/sent?who=one&secret=hunter2" in site.asked


def test_a_ref_of_another_page_is_refused(do: Do, shop: str, site: Site) -> None:
    ref = node(do, "button", "Send")["target"]
    assert do("click", target="#away")["url"] == f"{site.url}/other"
    assert do("click", target=ref)["code"] == "stale-target"
    do("navigate", url=f"{site.url}/")
    assert do("click", target=ref)["code"] == "stale-target"
    ref = node(do, "button", "Send")["target"]
    do("evaluate", script="document.querySelector('form').remove()")
    refused = do("click", target=ref)
    assert refused["code"] in ("stale-target", "not-visible")
    assert not [path for path in site.asked if path.startswith("/sent")]


def test_covered_hidden_unknown_and_ambiguous_targets_are_refused(do: Do, shop: str) -> None:
    covered = do("click", target="#under")
    assert covered["code"] == "covered"
    assert 'id="lid"' in covered["error"]
    assert do("click", target="#hidden")["code"] == "not-visible"
    assert do("click", target="#nothing")["code"] == "no-such-target"
    assert do("click", target="button")["code"] == "ambiguous-target"
    assert do("click", target="][")["code"] == "invalid-input"


def test_what_was_approved_is_what_is_clicked(do: Do, shop: str, site: Site) -> None:
    ref = node(do, "link", "Another page")["target"]
    seen = {"tab": shop, "url": f"{site.url}/", "ref": ref}
    for change in ({"url": f"{site.url}/bank"}, {"tab": "0" * 32}, {"ref": ref.replace("e", "e9")}):
        assert do("click", target="#away", seen={**seen, **change})["code"] == "target-changed"
    assert "/other" not in site.asked
    do("open", url=f"{site.url}/second")
    assert do("click", target="#away", seen=seen)["tab"] == shop
    assert "/other" in site.asked


def test_dialogs_are_answered_and_told(do: Do, shop: str) -> None:
    asked = do("click", target="#alert")
    assert asked["dialogs"] == [{"type": "alert", "message": "sure?", "accepted": True}]
    assert do("evaluate", script="document.title")["value"] == "Alerted"
    asked = do("click", target="#confirm")
    assert asked["dialogs"] == [{"type": "confirm", "message": "delete?", "accepted": False}]
    assert do("evaluate", script="[document.title, prompt('pin')]")["value"] == ["kept", None]


def test_a_dialog_nobody_answers_is_a_failure_and_another_tab_goes_on(
    do: Do, shop: str, site: Site, wait_for
) -> None:
    ask = "const x = new XMLHttpRequest(); x.open('GET', '/never', false); x.send(); alert(1)"
    do("evaluate", script=f"setTimeout(() => {{ {ask} }}, 0); 1")
    wait_for(lambda: "/never" in site.asked, "the page that is about to ask")
    site.held.set()
    answer = do("click", target="#away")
    assert answer.get("code") == "not-responding" or answer["dialogs"]
    assert do("open", url=f"{site.url}/")["ok"]


@pytest.mark.parametrize(
    ("script", "value", "kind"),
    [
        ("document.title", "Shop", "string"),
        ("var a = 1; ({a, b: [true, null]})", {"a": 1, "b": [True, None]}, "object"),
        ("Promise.resolve(7)", 7, "number"),
        ("0 / 0", "NaN", "number"),
        ("undefined", None, "undefined"),
    ],
)
def test_values(do: Do, shop: str, script: str, value: object, kind: str) -> None:
    answer = do("evaluate", script=script)
    assert (answer["value"], answer["type"]) == (value, kind)


def test_scripts_that_give_no_value(do: Do, shop: str) -> None:
    thrown = do("evaluate", script="\n  missing()")
    assert (thrown["code"], thrown["line"]) == ("script-error", 1)
    assert "missing is not defined" in thrown["error"]
    assert do("evaluate", script="'x'.repeat(2000000)")["code"] == "too-big"
    nested = "let n = []; for (let i = 0; i < 80; i++) n = [n]; n"
    assert do("evaluate", script=nested)["code"] == "too-big"
    assert do("evaluate", script="const c = {}; c.c = c; c")["code"] == "script-failed"


def png_size(path: str) -> tuple[int, int]:
    data = Path(path).read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_pictures(do: Do, shop: str, staying: PersistentBrowser) -> None:
    view = do("evaluate", script="[innerWidth, innerHeight, document.documentElement.scrollHeight]")["value"]
    (seen,) = do("screenshot")["artifacts"]
    assert png_size(seen["path"]) == (view[0], view[1])
    whole = do("screenshot", path="pictures/shop.png", fullPage=True)
    file = staying.folder / "pictures" / "shop.png"
    assert png_size(str(file)) == (whole["width"], whole["height"]) == (view[0], view[2])
    assert whole["artifacts"] == [{"path": str(file), "mimeType": "image/png", "bytes": file.stat().st_size}]
    assert do("screenshot", path="../shop.png")["code"] == "outside-project"
    assert do("screenshot", path="shop.txt")["code"] == "invalid-input"


def test_addresses(do: Do, shop: str, site: Site) -> None:
    for url in ("file:///etc/passwd", "javascript:alert(1)", "chrome://version", "data:text/html,x", "x"):
        assert do("navigate", url=url)["code"] == "invalid-input"
        assert do("open", url=url)["code"] == "invalid-input"
    gone = do("open", url="http://127.0.0.1:2/")
    assert gone["code"] == "navigation-failed"
    after = do("snapshot", limit=1)
    assert after.get("tab") == shop, after
    assert do("navigate", url="about:blank")["url"] == "about:blank"


def test_downloads_are_not_saved(do: Do, shop: str, site: Site, browser: Browser) -> None:
    assert do("click", target="#file")["url"] == f"{site.url}/"
    assert "/file.zip" in site.asked
    assert do("navigate", url=f"{site.url}/file.zip")["code"] == "navigation-failed"
    assert not list(browser.folder.rglob("*.zip*"))


def test_a_huge_page_is_cut_and_says_so(do: Do, site: Site) -> None:
    site.pages["/huge"] = "<title>huge</title>" + "".join(
        f"<button>{'b' * 60} {number}</button>" for number in range(1500)
    )
    do("open", url=f"{site.url}/huge")
    found = do("snapshot")
    assert found["truncated"] is True
    assert found["total"] > 1500 > len(found["nodes"]) > 100
    assert len(str(found)) < 131072
    few = do("snapshot", limit=5)
    assert (len(few["nodes"]), few["truncated"]) == (5, True)
