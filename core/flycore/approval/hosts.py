"""The host that a web tool's input leads to, for leases that hold for one host only.

Where two readers could see two hosts in one address there is none, and then such a lease covers nothing.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from flycore.model.json import JsonObject

WEB_TOOLS = ("web.", "agent.fetch")
_PLAIN = re.compile(r"[!#-;=?-\[\]_a-z~]+", re.IGNORECASE)
"""Printable ASCII without what an address does not hold: no space, quote, backslash or control."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+")


def page_host(tool: str, input: JsonObject) -> str:
    """Host name or address of the input's `url`, lower case; empty for other tools, other schemes than
    http and https, and addresses that name a user or hold what programs read differently."""
    url = input.get("url")
    if not tool.startswith(WEB_TOOLS) or not isinstance(url, str) or not _PLAIN.fullmatch(url):
        return ""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not _NAME.fullmatch(host):
        return ""
    return host
