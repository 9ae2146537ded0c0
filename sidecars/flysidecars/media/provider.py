"""The HTTP provider that an entry's config names, and what is said to it.

One POST of JSON, UTF-8: `{"tool", "input": {…, without path}, "file": {"name", "mimeType", "bytes",
"base64"}}`; `file` is absent where the tool is given none. The answer is JSON with a status of 200 to 299:
an object with `text`, and `language` and `confidence` where known; for `audio.speak` `base64` of a WAV file.
"""

from __future__ import annotations

import os
import re

from flysidecars.sdk import JsonObject, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OURS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding"}
)
_URL_REMEDY = "write config.providerUrl as http://… or https://…, without user name and fragment"


class MediaProvider:
    """Where to send: `secure` is https; `target` is path and query; `headers` hold secrets."""

    __slots__ = ("allow_private", "headers", "host", "port", "secure", "target")

    def __init__(
        self,
        *,
        secure: bool,
        host: str,
        port: int,
        target: str,
        headers: dict[str, str],
        allow_private: list[object],
    ) -> None:
        self.secure = secure
        self.host = host
        self.port = port
        self.target = target
        self.headers = headers
        self.allow_private = allow_private
        """`config.allowPrivate` as it stands there."""

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def read_provider(config: JsonObject, environ: Mapping[str, str] = os.environ) -> MediaProvider:
    """The provider of the entry's config. Raises `Unavailable`, with the place in the config and never a
    value from it: `reasonCode` is `secret-missing` for a `${NAME}` of a header that is not set."""
    from urllib.parse import urlsplit

    url = config.get("providerUrl")
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, port = parts.hostname or "", parts.port
    except ValueError as broken:
        raise Unavailable("config.providerUrl is no URL", _URL_REMEDY) from broken
    secure = parts.scheme == "https"
    readable = url.isascii() and url.isprintable() and " " not in url if isinstance(url, str) else False
    if (
        not readable
        or parts.scheme not in ("http", "https")
        or not host
        or "@" in parts.netloc
        or parts.fragment
    ):
        raise Unavailable("config.providerUrl is not what it has to be", _URL_REMEDY)
    allowed = config.get("allowPrivate")
    return MediaProvider(
        secure=secure,
        host=host,
        port=port or (443 if secure else 80),
        target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        headers=_headers(config.get("providerHeaders"), environ),
        allow_private=allowed if isinstance(allowed, list) else [],
    )


def _headers(given: object, environ: Mapping[str, str]) -> dict[str, str]:
    if given is None:
        return {}
    remedy = 'write config.providerHeaders as {"Name": "value"}'
    if not isinstance(given, dict):
        raise Unavailable("config.providerHeaders is no object", remedy)
    headers: dict[str, str] = {}
    for name, value in given.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS or not isinstance(value, str):
            raise Unavailable("config.providerHeaders holds a header that cannot be sent", remedy)
        filled = _VARIABLE.sub(lambda found: _secret(found[1], environ), value)
        if not filled.isascii() or not filled.isprintable():
            raise Unavailable(f"the header {name} would hold a character that no header can", remedy)
        headers[name] = filled
    return headers


def _secret(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "")
    if not value:
        remedy = (
            f'write "secrets": ["{name}"] in permissions of the entry, and set {name} where flytui starts'
        )
        raise Unavailable(
            f"{name} is not set, which a header of the provider needs", remedy, reasonCode="secret-missing"
        )
    return value
