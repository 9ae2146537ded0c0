"""The sidecar `browser.cdp`: tools for a browser that already runs, over the Chrome DevTools Protocol."""

from __future__ import annotations

from flysidecars.sdk import Call, JsonObject, Probe, Sidecar, ToolFailed, Unavailable, healthy, unavailable

sidecar = Sidecar("browser.cdp")

TOOLS = ("open", "navigate", "snapshot", "screenshot", "click", "type", "evaluate")


@sidecar.probe
def probe(question: Probe) -> JsonObject:
    """Report the same state for every tool: healthy if a browser answers at the endpoint."""
    from flysidecars.browser.endpoint import endpoint_of, require_browser

    state = healthy()
    try:
        require_browser(endpoint_of(question.config))
    except Unavailable as missing:
        state = unavailable(missing.message, missing.remedy)
    except ToolFailed as refused:
        state = unavailable(refused.message, str(refused.fields.get("remedy", "correct config.endpoint")))
    return {"tools": {f"browser.{tool}": state for tool in TOOLS}}


@sidecar.tool("browser.open")
def browser_open(call: Call) -> JsonObject:
    """Load an address in a new tab."""
    from flysidecars.browser.actions import open_tab

    return open_tab(call)


@sidecar.tool("browser.navigate")
def browser_navigate(call: Call) -> JsonObject:
    """Load an address in the current tab."""
    from flysidecars.browser.actions import navigate

    return navigate(call)


@sidecar.tool("browser.snapshot")
def browser_snapshot(call: Call) -> JsonObject:
    """Read the page as a tree of elements."""
    from flysidecars.browser.read_tools import snapshot

    return snapshot(call)


@sidecar.tool("browser.screenshot")
def browser_screenshot(call: Call) -> JsonObject:
    """Take a picture of the page."""
    from flysidecars.browser.read_tools import screenshot

    return screenshot(call)


@sidecar.tool("browser.click")
def browser_click(call: Call) -> JsonObject:
    """Click an element."""
    from flysidecars.browser.actions import click

    return click(call)


@sidecar.tool("browser.type")
def browser_type(call: Call) -> JsonObject:
    """Type into an element."""
    from flysidecars.browser.actions import type_text

    return type_text(call)


@sidecar.tool("browser.evaluate")
def browser_evaluate(call: Call) -> JsonObject:
    """Run a script in the page."""
    from flysidecars.browser.actions import evaluate

    return evaluate(call)
