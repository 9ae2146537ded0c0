"""Addresses with placeholders: what of them is written out, and what a call's values may put where.

A value never changes the structure of an address: in the path and the query it is percent-encoded, in the
host it is letters, digits, dots and hyphens. Only an address that is one placeholder is a value as a whole.
"""

from __future__ import annotations

import re
from urllib.parse import quote

import msgspec

from flycore.model.placeholders import Absence, Values, as_text, fill_text, names_in, whole_name
from flysafe.web_urls import InvalidWebUrl, UrlTarget, parse_url

_TEMPLATE = re.compile(r"(https?)://([^/?#\\]*)(/[^?#]*)?(\?[^#]*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|(?:[^\[\]:@{}$]|\$\{[^{}]*\})+)(?::([0-9]{1,5}))?")
_HOST_VALUE = re.compile(r"[A-Za-z0-9.-]{1,253}")
_PLACEHOLDER_STAND_IN = "x"


class UrlTemplate(msgspec.Struct, frozen=True):
    """The parts of an address; each may hold placeholders but the scheme and the port."""

    whole: str = ""
    """The name of the placeholder that the whole address is; empty where it is written out."""
    scheme: str = ""
    host: str = ""
    port: str = ""
    path: str = ""
    query: str = ""

    @property
    def literal_host(self) -> str:
        """The host, where it is written out; else empty."""
        if self.whole or names_in(self.host):
            return ""
        return self.host.strip("[]").lower()

    @property
    def literal_origin(self) -> tuple[str, str, int] | None:
        """Scheme, host and port, where the host is written out."""
        if not self.literal_host:
            return None
        target = parse_url(f"{self.scheme}://{self.host}{self.port}/")
        return target.scheme, target.host, target.port


def parse_template(text: str) -> UrlTemplate:
    """Return the parts of an address with placeholders. Raises InvalidWebUrl."""
    if name := whole_name(text):
        return UrlTemplate(whole=name)
    if "#" in text:
        raise InvalidWebUrl("has a fragment, which is never sent")
    parts = _TEMPLATE.fullmatch(text)
    if parts is None:
        raise InvalidWebUrl("not an http or https address, nor one placeholder")
    place = _AUTHORITY.fullmatch(parts[2])
    if place is None:
        raise InvalidWebUrl("its host and port cannot be read; credentials belong into a header")
    found = UrlTemplate(
        scheme=parts[1].lower(),
        host=place[1],
        port=f":{place[2]}" if place[2] else "",
        path=parts[3] or "/",
        query=parts[4] or "",
    )
    # The same rules as for an address without placeholders, with a harmless value in the place of each.
    filled = (_with_stand_ins(part) for part in (found.host, found.port, found.path, found.query))
    parse_url(f"{found.scheme}://{''.join(filled)}")
    return found


def literal_host(text: str) -> str:
    """Return the host that an address writes out; empty where a placeholder decides it."""
    try:
        return parse_template(text).literal_host
    except InvalidWebUrl:
        return ""


def _with_stand_ins(template: str) -> str:
    names = dict.fromkeys(names_in(template), _PLACEHOLDER_STAND_IN)
    filled = fill_text(template, names)
    return "" if isinstance(filled, Absence) else filled


def fill_url(template: UrlTemplate, values: Values) -> UrlTarget:
    """Return the address with every placeholder filled in. Raises InvalidWebUrl for a value that has no place
    in it, and for a placeholder without a value."""
    if template.whole:
        value = values.get(template.whole)
        if not isinstance(value, str):
            raise InvalidWebUrl(f"{template.whole} is no text, so it is no address")
        return parse_url(value)
    host = _filled(template.host, values, "host")
    path = _filled_path(template.path, values)
    query = _filled(template.query, values, "query")
    target = parse_url(f"{template.scheme}://{host}{template.port}{path}{query}")
    if template.literal_origin not in (None, (target.scheme, target.host, target.port)):
        raise InvalidWebUrl("a value would change the host")
    return target


def _filled(template: str, values: Values, where: str) -> str:
    encode = _host_part if where == "host" else _encoded
    filled = fill_text(template, values, encode)
    if isinstance(filled, Absence):
        missing = next(name for name in names_in(template) if name not in values)
        raise InvalidWebUrl(f"{missing} has no value, and the {where} needs it")
    return filled


def _filled_path(template: str, values: Values) -> str:
    segments = []
    for segment in template.split("/"):
        filled = _filled(segment, values, "path")
        # Servers take these two as steps, also where they are percent-encoded.
        if names_in(segment) and filled.replace("%2E", ".").replace("%2e", ".") in ("", ".", ".."):
            raise InvalidWebUrl("a value would leave out or climb a step of the path")
        segments.append(filled)
    return "/".join(segments)


def _encoded(text: str) -> str:
    return quote(text, safe="", errors="replace")


def _host_part(text: str) -> str:
    if _HOST_VALUE.fullmatch(text) is None:
        raise InvalidWebUrl("a value of the host has characters that no host name has")
    return text


def encode_query(name: str, value: str) -> str:
    """Return one parameter of a query."""
    return f"{_encoded(name)}={_encoded(as_text(value))}"
