"""The tools that act: open, navigate, click, type, evaluate."""

from __future__ import annotations

from flysidecars.browser.element import Element, find_element
from flysidecars.browser.endpoint import close_tab, endpoint_of, new_tab
from flysidecars.browser.page import BrowserPage, current_page, web_address
from flysidecars.browser.session import CommandFailed, TabSession, attach
from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.sdk.call import object_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BY_KEYS = 1000
"""Characters up to which a text is typed key by key; a longer one goes in line by line."""
PROGRESS_CHARACTERS = 200
SCRIPT_S = 15.0
MAX_VALUE_BYTES = 1024 * 1024
MAX_DEPTH = 50
MAX_TEXT = 20_000


def open_tab(call: Call) -> JsonObject:
    """Load an address in a new tab, which is the current one from then on; without success there is none."""
    url = web_address(call)
    endpoint = endpoint_of(call.config)
    tab = new_tab(endpoint)
    kept = False
    try:
        with attach(call, tab) as session:
            page = BrowserPage(session)
            page.go(url)
            kept = True
            return page.location()
    finally:
        if not kept:
            close_tab(endpoint, tab)


def navigate(call: Call) -> JsonObject:
    """Load an address in the current tab."""
    url = web_address(call)
    with current_page(call) as page:
        page.go(url)
        return page.location()


def click(call: Call) -> JsonObject:
    """Click the middle of an element that is really there and not covered."""
    with current_page(call) as page:
        element = find_element(call, page)
        x, y = element.point()
        for kind, buttons in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)):
            count = 0 if kind == "mouseMoved" else 1
            page.session.command(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left" if count else "none",
                buttons=buttons,
                clickCount=count,
            )
        page.settle()
        return page.location()


def type_text(call: Call) -> JsonObject:
    """Type a text into an element; the focus is looked at before each part."""
    text = call.text("text").replace("\r\n", "\n")
    if len(text) > MAX_TEXT:
        raise InvalidInput("text", f"at most {MAX_TEXT} characters are typed")
    if any(ord(character) < 32 and character not in "\n\t" for character in text) or "\x7f" in text:
        raise InvalidInput("text", "control characters other than newline and tab are not typed")
    with current_page(call) as page:
        element = find_element(call, page)
        element.focus()
        typed = 0
        for part in _parts(text):
            call.raise_if_cancelled()
            if typed and not _still_there(page, element, settle=text[typed - 1] == "\n"):
                raise ToolFailed("focus-lost", "the focus went elsewhere while typing", typed=typed)
            _put(page.session, part, by_keys=len(text) <= BY_KEYS)
            before, typed = typed, typed + len(part)
            if typed // PROGRESS_CHARACTERS > before // PROGRESS_CHARACTERS:
                call.progress(typed, len(text), f"{typed} of {len(text)} characters")
        page.settle()
        return page.location()


def _parts(text: str) -> list[str]:
    """The text in pieces of at most 200 characters; each newline is one of its own."""
    parts: list[str] = []
    for index, line in enumerate(text.split("\n")):
        parts += ["\n"] if index else []
        parts += [line[at : at + PROGRESS_CHARACTERS] for at in range(0, len(line), PROGRESS_CHARACTERS)]
    return parts


def _still_there(page: BrowserPage, element: Element, *, settle: bool) -> bool:
    """Whether keys still go there. `settle`: the last one may have begun to load another page."""
    before = page.loader
    if settle:
        page.settle()
    else:
        page.read_state()
    return page.loader == before and element.has_focus()


def _put(session: TabSession, part: str, *, by_keys: bool) -> None:
    if part == "\n":
        enter: dict[str, Any] = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        session.command("Input.dispatchKeyEvent", type="keyDown", text="\r", **enter)
        session.command("Input.dispatchKeyEvent", type="keyUp", **enter)
        return
    if not by_keys or "\t" in part:
        session.command("Input.insertText", text=part)
        return
    for character in part:
        session.command("Input.dispatchKeyEvent", type="keyDown", key=character, text=character)
        session.command("Input.dispatchKeyEvent", type="keyUp", key=character)


def evaluate(call: Call) -> JsonObject:
    """Run a script in the page; the value of its last expression as JSON."""
    with current_page(call) as page:
        answer = _run(page.session, call.text("script"))
        thrown = answer.get("exceptionDetails")
        if isinstance(thrown, dict):
            raise _script_error(page, thrown)
        result = object_field(answer, "result")
        value = result.get("value", result.get("unserializableValue"))
        _check_size(value)
        found: JsonObject = {"value": value, "type": str(result.get("type", ""))}
        return found | page.location()


def _run(session: TabSession, script: str) -> JsonObject:
    try:
        return session.command(
            "Runtime.evaluate",
            limit_s=SCRIPT_S + 2,
            expression=script,
            returnByValue=True,
            awaitPromise=True,
            timeout=SCRIPT_S * 1000,
        )
    except CommandFailed as refused:
        message = f"the script gave no value; one that runs longer than {SCRIPT_S:g} s is ended: {refused}"
        raise ToolFailed("script-failed", message) from refused


def _script_error(page: BrowserPage, thrown: JsonObject) -> ToolFailed:
    raised = object_field(thrown, "exception")
    words = raised.get("description") or raised.get("value") or thrown.get("text") or "thrown"
    return ToolFailed(
        "script-error",
        f"the script raised: {str(words)[:2000]}",
        line=thrown.get("lineNumber"),
        column=thrown.get("columnNumber"),
        dialogs=page.session.dialogs,
    )


def _check_size(value: object) -> None:
    import json

    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
        ]
    if level:
        raise ToolFailed("too-big", f"the value is nested deeper than {MAX_DEPTH}")
    if len(json.dumps(value)) > MAX_VALUE_BYTES:
        raise ToolFailed("too-big", "the value is larger than 1 MiB; ask for less of it")
