"""The browser tools that act: open, navigate, click, type and evaluate."""

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

MAX_KEY_BY_KEY = 1000
"""The longest text, in characters, that is typed key by key. A longer one is inserted line by line."""
PROGRESS_CHARACTERS = 200
"""Characters in one part of a text; a progress event follows each."""
SCRIPT_S = 15.0
"""The longest time that a script may run, seconds."""
MAX_VALUE_BYTES = 1024 * 1024
MAX_DEPTH = 50
"""Levels of lists and objects in the value of a script."""
MAX_TEXT = 20_000
"""Characters of a text to type."""


def open_tab(call: Call) -> JsonObject:
    """Load an address in a new tab, which becomes the current one. If the load fails, the tab is closed."""
    url = web_address(call)
    endpoint = endpoint_of(call.config)
    tab = new_tab(endpoint)
    kept = False
    try:
        with attach(call, tab) as session:
            page = BrowserPage(session)
            page.load(url)
            kept = True
            return page.location()
    finally:
        if not kept:
            close_tab(endpoint, tab)


def navigate(call: Call) -> JsonObject:
    """Load an address in the current tab."""
    url = web_address(call)
    with current_page(call) as page:
        page.load(url)
        return page.location()


def click(call: Call) -> JsonObject:
    """Click the middle of an element that is visible and not covered by another one."""
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
    """Type a text into an element.

    Raises `InvalidInput` for a text that is too long or holds control characters, and `ToolFailed`
    (`focus-lost`, with the number of characters typed).
    """
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
            # The page may move the focus while we type: the rest would go into another field.
            if typed and not _focus_unchanged(page, element, settle=text[typed - 1] == "\n"):
                raise ToolFailed("focus-lost", "the focus went elsewhere while typing", typed=typed)
            _send_keys(page.session, part, by_keys=len(text) <= MAX_KEY_BY_KEY)
            before, typed = typed, typed + len(part)
            if typed // PROGRESS_CHARACTERS > before // PROGRESS_CHARACTERS:
                call.progress(typed, len(text), f"{typed} of {len(text)} characters")
        page.settle()
        return page.location()


def _parts(text: str) -> list[str]:
    """The text in parts of at most `PROGRESS_CHARACTERS`. Each newline is a part of its own."""
    parts: list[str] = []
    for index, line in enumerate(text.split("\n")):
        parts += ["\n"] if index else []
        parts += [line[at : at + PROGRESS_CHARACTERS] for at in range(0, len(line), PROGRESS_CHARACTERS)]
    return parts


def _focus_unchanged(page: BrowserPage, element: Element, *, settle: bool) -> bool:
    """Whether keys still go to the element of the same document."""
    before = page.loader
    if settle:  # Enter may have begun to load another page
        page.settle()
    else:
        page.read_state()
    return page.loader == before and element.has_focus()


def _send_keys(session: TabSession, part: str, *, by_keys: bool) -> None:
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
    """Run a script in the page and return the value of its last expression.

    Raises `ToolFailed`: `script-failed`, `script-error` (the script raised), `too-big`.
    """
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
        message = f"the script returned no value (the limit is {SCRIPT_S:g} s): {refused}"
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

    # Level by level and not by recursion: a page may return a value deeper than Python's stack.
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
