"""The HTTP provider that an entry's config names.

A request is one POST of JSON in UTF-8: `{"tool", "input", "file": {"name", "mimeType", "bytes", "base64"}}`.
`input` has no `path`, and `file` is absent for a tool without one. The answer is a JSON object with a status
of 200 to 299. It has `text`, and `language` and `confidence` if they are known; for `audio.speak` it has a
WAV file in `base64`.
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
_RESERVED = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding"}
)
_URL_REMEDY = "write config.providerUrl as http://… or https://…, without user name and fragment"


class MediaProvider:
    """The address and the headers of a provider. `secure` means https, `target` is path and query. The
    headers contain secrets."""

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
        """The items of `config.allowPrivate`, unchecked."""

    @property
    def authority(self) -> str:
        """Host and port as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def read_provider(config: JsonObject, environ: Mapping[str, str] = os.environ) -> MediaProvider:
    """The provider of an entry's config.

    Raises `Unavailable`. Its text names keys of the config but contains no value, which may be secret.
    `reasonCode` is `secret-missing` if a `${NAME}` of a header is not set.
    """
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
        raise Unavailable("config.providerUrl is not a valid address", _URL_REMEDY)
    allowed = config.get("allowPrivate")
    return MediaProvider(
        secure=secure,
        host=host,
        port=port or (443 if secure else 80),
        target=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        headers=_headers(config.get("providerHeaders"), environ),
        allow_private=allowed if isinstance(allowed, list) else [],
    )


def _headers(raw: object, environ: Mapping[str, str]) -> dict[str, str]:
    if raw is None:
        return {}
    remedy = 'write config.providerHeaders as {"Name": "value"}'
    if not isinstance(raw, dict):
        raise Unavailable("config.providerHeaders is no object", remedy)
    headers: dict[str, str] = {}
    for name, value in raw.items():
        if not _HEADER.fullmatch(name) or name.lower() in _RESERVED or not isinstance(value, str):
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
