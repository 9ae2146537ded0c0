"""What the kernel itself reads of a page before a browser tool is asked about, and what that binds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask, LeaseTerms, Preview
from flycore.model.call import ToolResult
from flycore.model.enums import Choice, Code, Status
from flycore.pipeline.targets.page import read_page
from flytui.text.card import render_card
from kits.kernel import (
    Root,
    answered_call,
    approve,
    approved_call,
    approver_of,
    kernel_of,
    request,
    waiting_ask,
)
from kits.tables import each_row

pytestmark = pytest.mark.anyio

SIDECAR = """#!/bin/sh
read -r request
case $request in
*'"tool": "browser.snapshot"'*)
  printf '%s\\n' "$request" >> FOLDER/looks
  case $request in
  *'"target": {"tab"'*) test -e FOLDER/gone && cat FOLDER/gone && exit ;;
  esac
  cat FOLDER/page ;;
*)
  printf '%s\\n' "$request" >> FOLDER/acts
  echo '{"ok": true, "url": "http://shop/", "title": "", "tab": "T1", "value": 1, "type": "number"}' ;;
esac
"""
TOOLS = ("browser.snapshot", "browser.click", "browser.navigate", "browser.evaluate")
LOOKING = {"tool": "browser.snapshot", "decision": "allow", "because": "it only reads"}
SEND = {"target": "e5-00c0ffee", "role": "button", "name": "Send"}


class Shop(Root):
    """A root with a browser of paper: `show` says what its page is from now on."""

    def __init__(self, base: Path, *rules: dict[str, Any]) -> None:
        super().__init__(base)
        self.sidecar("web", SIDECAR.replace("FOLDER", str(base)), *TOOLS)
        self.policy(*(rules or (LOOKING,)))
        self.show()

    def show(self, url: str = "http://shop/", tab: str = "T1", title: str = "Shop", **node: str) -> None:
        page = {"ok": True, "url": url, "title": title, "tab": tab, "nodes": [{**SEND, **node}]}
        self.answer(json.dumps(page))

    def answer(self, text: str) -> None:
        (self.base / "page").write_text(text + "\n")

    def said(self, what: str) -> list[dict[str, Any]]:
        """The requests the sidecar got: `looks` or `acts`."""
        file = self.base / what
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def drawn(ask: Ask) -> str:
    return "\n".join(line.text for line in render_card(ask.request, 300))


async def test_the_card_shows_the_element_and_only_it_may_be_clicked(shop: Shop) -> None:
    cards: list[Ask] = []

    async def look_at_the_card(ask: Ask) -> None:
        cards.append(ask)
        shop.show(title="(1) Shop")  # titles change by themselves
        await approve(kernel, ask)

    async with kernel_of(shop) as kernel:
        result = await answered_call(kernel, look_at_the_card, "browser.click", {"target": "#send"})
    assert result.status is Status.SUCCESS
    seen = Preview(tab="T1", url="http://shop/", ref="e5-00c0ffee", role="button", name="Send")
    assert cards[0].request.subject.preview == seen
    assert "button “Send” (element e5-00c0ffee)" in drawn(cards[0])
    assert "page “Shop” at http://shop/ (tab T1)" in drawn(cards[0])
    first, again = shop.said("looks")
    assert first["input"] == again["input"] == {"target": "#send", "limit": 1}
    assert ("target" in first, again["target"]) == (False, {"tab": "T1"})
    (act,) = shop.said("acts")
    assert act["target"] == {"tab": "T1", "url": "http://shop/", "ref": "e5-00c0ffee"}
    looked = [line for line in shop.audit() if line["event"] == "KERNEL_LOOKED"]
    assert [(line["callId"], line["tool"], line["look"]) for line in looked] == [
        (result.call_id, "browser.click", "browser.snapshot")
    ] * 2


async def changed_while_it_waits(shop: Shop, **page: str) -> tuple[Ask, ToolResult]:
    """The second card, and how the call ended that was approved on both."""
    cards: list[Ask] = []

    async def change_then_approve(ask: Ask) -> None:
        shop.show(**page)
        await approve(kernel, ask)
        cards.append(await waiting_ask(kernel))
        await approve(kernel, cards[0])

    async with kernel_of(shop) as kernel:
        result = await answered_call(kernel, change_then_approve, "browser.click", {"target": "#send"})
    return cards[0], result


@pytest.mark.parametrize(
    ("key", "pointer", "was", "now"),
    [
        ("url", "url", "http://shop/", "http://elsewhere/"),
        ("name", "name", "Send", "Delete everything"),
        ("role", "role", "button", "link"),
        ("target", "ref", "e5-00c0ffee", "e5-0badf00d"),
    ],
)
async def test_what_changed_while_the_card_waited_is_asked_anew(
    shop: Shop, key: str, pointer: str, was: str, now: str
) -> None:
    card, result = await changed_while_it_waits(shop, **{key: now})
    assert card.request.difference == (f'- /page/{pointer}: "{was}"', f'+ /page/{pointer}: "{now}"')
    assert result.status is Status.SUCCESS
    (stale,) = [line for line in shop.audit() if line["event"] == "APPROVAL_STALE"]
    assert stale["changes"] == ["page"]
    (act,) = shop.said("acts")
    assert now in drawn(card)
    assert act["target"] == {"tab": "T1", "url": "http://shop/", "ref": "e5-00c0ffee"} | (
        {pointer: now} if pointer in ("url", "ref") else {}
    )


async def test_a_tab_that_was_closed_is_asked_anew_with_the_one_there_is(shop: Shop) -> None:
    (shop.base / "gone").write_text('{"ok": false, "error": "gone", "code": "target-changed"}')
    card, result = await changed_while_it_waits(shop, tab="T2")
    assert card.request.difference == ('- /page/tab: "T1"', '+ /page/tab: "T2"')
    assert result.status is Status.SUCCESS
    assert shop.said("acts")[0]["target"]["tab"] == "T2"


async def test_what_keeps_changing_is_denied(shop: Shop) -> None:
    async def change_twice(ask: Ask) -> None:
        for url in ("http://shop/1", "http://shop/2"):
            shop.show(url=url)
            await approve(kernel, ask)
            if url.endswith("1"):
                ask = await waiting_ask(kernel)

    async with kernel_of(shop) as kernel:
        result = await answered_call(kernel, change_twice, "browser.evaluate", {"script": "1"})
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.DENIED, Code.APPROVAL_STALE)
    assert shop.said("acts") == []


async def test_a_lease_is_no_leave_to_act_on_what_nobody_saw(shop: Shop) -> None:
    """Under a lease nobody is asked, and still only what was looked at is acted on."""
    terms = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=9))

    async def lease(ask: Ask) -> None:
        outcome = await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, terms)
        assert outcome.accepted, outcome.why_not

    async with kernel_of(shop) as kernel:
        await answered_call(kernel, lease, "browser.click", {"target": "#send"})
        shop.show(url="http://shop/next", target="e9-0badf00d")
        result = await kernel.call(request(kernel, "browser.click", {"target": "#next"}))
    assert result.status is Status.SUCCESS
    wanted = {"tab": "T1", "url": "http://shop/next", "ref": "e9-0badf00d"}
    assert shop.said("acts")[1]["target"] == wanted


async def test_an_edited_target_is_looked_at_before_it_is_approved(shop: Shop) -> None:
    async def edit(ask: Ask) -> None:
        shop.show(target="e7-00c0ffee", name="Cancel")
        edited = await approver_of(kernel).edit(ask.request.id, ask.request.subject_digest, {"target": "#no"})
        assert edited.accepted, edited.why_not
        fresh = await waiting_ask(kernel)
        assert "button “Cancel” (element e7-00c0ffee)" in drawn(fresh)
        await approve(kernel, fresh)

    async with kernel_of(shop) as kernel:
        result = await answered_call(kernel, edit, "browser.click", {"target": "#send"})
    assert result.status is Status.SUCCESS
    (act,) = shop.said("acts")
    assert (act["input"], act["target"]["ref"]) == ({"target": "#no"}, "e7-00c0ffee")


@pytest.mark.parametrize(
    ("tool", "input"),
    [("browser.navigate", {"url": "http://elsewhere/"}), ("browser.evaluate", {"script": "1"})],
)
async def test_a_tool_for_the_whole_page_shows_the_page(shop: Shop, tool: str, input: dict[str, str]) -> None:
    async with kernel_of(shop) as kernel:
        result = await approved_call(kernel, tool, input)
    assert result.status is Status.SUCCESS
    assert shop.said("looks")[0]["input"] == {"limit": 1}
    assert shop.said("acts")[0]["target"] == {"tab": "T1", "url": "http://shop/"}


NOBODY_ASKED = {"tool": "browser.click", "because": "mine"}


@pytest.mark.parametrize(("decision", "acts"), [("allow", 1), ("deny", 0)])
async def test_nothing_is_looked_at_where_nobody_is_asked(tmp_path: Path, decision: str, acts: int) -> None:
    shop = Shop(tmp_path, LOOKING, {**NOBODY_ASKED, "decision": decision})
    async with kernel_of(shop) as kernel:
        await kernel.call(request(kernel, "browser.click", {"target": "#send"}))
    assert (len(shop.said("looks")), len(shop.said("acts"))) == (0, acts)
    assert all("target" not in act for act in shop.said("acts"))


async def unseen(shop: Shop, kernel: Kernel) -> str:
    """Why the card says that the target is not known; the call runs all the same once it was approved."""
    cards: list[Ask] = []

    async def keep(ask: Ask) -> None:
        cards.append(ask)
        await approve(kernel, ask)

    result = await answered_call(kernel, keep, "browser.click", {"target": "#send"})
    assert result.status is Status.SUCCESS
    assert "target" not in shop.said("acts")[0]
    preview = cards[0].request.subject.preview
    assert preview is not None
    assert preview == Preview(unseen=preview.unseen)
    assert f"what it would act on is not known: {preview.unseen}" in drawn(cards[0])
    return preview.unseen


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"tool": "nothing", "decision": "allow", "because": ""}, "without an approval"),
        ({**LOOKING, "decision": "ask"}, "without an approval"),
        ({**LOOKING, "decision": "deny"}, "cannot be called"),
        ({**LOOKING, "decision": "deny", "when": {"required": ["target"]}}, "policy denies"),
    ],
)
async def test_a_look_needs_what_policy_gives(tmp_path: Path, rule: dict[str, Any], why: str) -> None:
    shop = Shop(tmp_path, rule)
    async with kernel_of(shop) as kernel:
        assert why in await unseen(shop, kernel)
    assert shop.said("looks") == []
    assert "KERNEL_LOOKED" not in [line["event"] for line in shop.audit()]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"ok": false, "code": "no-such-target", "error": "no element matches"}', "no element matches"),
        ('{"ok": true, "url": 5}', "does not fit its schema"),
        ('{"ok": true, "url": "http://shop/", "tab": "T1", "nodes": []}', "does not list the element"),
        ("no JSON", "JSON"),
        pytest.param("x" * 200_000, "bytes", id="too much"),
    ],
)
async def test_a_look_that_fails_says_why(shop: Shop, answer: str, why: str) -> None:
    shop.answer(answer)
    async with kernel_of(shop) as kernel:
        assert why in await unseen(shop, kernel)


@pytest.mark.parametrize("change", [{"permissions": {"desktop": True}}, {"tools": [*TOOLS[1:]]}])
async def test_another_entry_or_one_with_the_desktop_is_not_run_for_a_look(
    shop: Shop, change: dict[str, Any]
) -> None:
    shop.sidecars["web"].update(change)
    shop.write()
    async with kernel_of(shop) as kernel:
        await unseen(shop, kernel)
    assert shop.said("looks") == []


@each_row(
    "answer",
    [None, [], {}, {"url": "http://a/"}, {"tab": "T", "url": ""}, {"tab": 1, "url": "http://a/"}],
)
@each_row("element", [True, False])
def test_an_answer_without_a_tab_is_none(answer: Any, element: bool) -> None:
    assert isinstance(read_page(answer, element=element), str)
