"""The sidecar `web.search`: tools for search providers, pages and files of the public web."""

from __future__ import annotations

from flysidecars.sdk import Call, JsonObject, Probe, Sidecar, healthy

sidecar = Sidecar("web.search")

ALWAYS_AVAILABLE = ("web.fetch", "web.extract", "web.request", "web.download")
"""The tools that need no configuration."""


@sidecar.probe
def probe(question: Probe) -> JsonObject:
    """Report whether a search provider and its secret are set. With `--probe` the config is unknown and
    every tool is healthy."""
    tools: JsonObject = {name: healthy() for name in ALWAYS_AVAILABLE}
    if question.delegates is None:
        return {"tools": {**tools, "web.search": healthy()}}
    import os

    from flysidecars.web.probe import probe_search

    return {"tools": {**tools, "web.search": probe_search(question.config, os.environ)}}


@sidecar.tool("web.search")
def web_search(call: Call) -> JsonObject:
    """Ask the configured search providers."""
    call.permissions.require_network()
    from flysidecars.web.cache import CACHE
    from flysidecars.web.provider_query import web_search

    return CACHE.get_or_run(call, web_search)


@sidecar.tool("web.fetch")
def web_fetch(call: Call) -> JsonObject:
    """Load an address and give its body as text."""
    call.permissions.require_network()
    from flysidecars.web.cache import CACHE
    from flysidecars.web.fetch import web_fetch

    return CACHE.get_or_run(call, web_fetch)


@sidecar.tool("web.extract")
def web_extract(call: Call) -> JsonObject:
    """Load a page and keep its main text."""
    call.permissions.require_network()
    from flysidecars.web.cache import CACHE
    from flysidecars.web.extract import web_extract

    return CACHE.get_or_run(call, web_extract)


@sidecar.tool("web.request")
def web_request(call: Call) -> JsonObject:
    """Send an HTTP request."""
    call.permissions.require_network()
    from flysidecars.web.fetch import web_request

    return web_request(call)


@sidecar.tool("web.download")
def web_download(call: Call) -> JsonObject:
    """Save an address as a new file below the project."""
    call.permissions.require_network()
    from flysidecars.web.download import web_download

    return web_download(call)
