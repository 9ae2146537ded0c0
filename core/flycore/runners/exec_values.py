"""What a call of the kinds http, command and python runs: the templates of its entry with the call's values.

These are pure functions. A value that has no place where its placeholder stands makes the input invalid, and
nothing is run.
"""

from __future__ import annotations

import json
from urllib.parse import urlencode

import msgspec

from flycore.model.json import Json, JsonObject
from flycore.model.placeholders import Absence, Values, as_text, fill, names_in, pieces_of
from flycore.model.tool_exec import CommandExec, HttpExec, PythonExec, ToolExec
from flycore.model.url_template import encode_query, fill_url, parse_template
from flysafe.web_requests import Headers, HttpRequest, InvalidHeader, read_headers
from flysafe.web_urls import MAX_URL, InvalidWebUrl, UrlTarget

FORM = "application/x-www-form-urlencoded"
LONGEST_ARGUMENT = 131_071
"""Bytes of one argument; Linux starts no program with a longer one."""
END_OF_OPTIONS = "--"


class InvalidValue(ValueError):
    """A value has no place where the entry puts it. The text says why, and quotes no value."""

    def __init__(self, message: str, hint: str) -> None:
        self.hint = hint
        super().__init__(message)


class WebRequest(msgspec.Struct, frozen=True):
    """A request, and the origin that the entry writes out; None where its host comes from a value."""

    request: HttpRequest
    literal: tuple[str, str, int] | None


Filled = tuple[str, ...] | WebRequest | Json
"""The arguments of a command, a request, or the arguments of a function."""


def fill_exec(exec_: ToolExec, args: tuple[str, ...], values: Values) -> Filled:
    """Return what is run with these values. `args` are the entry's arguments. Raises InvalidValue."""
    if isinstance(exec_, HttpExec):
        return fill_request(exec_, values)
    if isinstance(exec_, CommandExec):
        return fill_arguments(args, values)
    return fill_function(exec_, values)


def fill_arguments(args: tuple[str, ...], values: Values) -> tuple[str, ...]:
    """Return the arguments; one whose placeholder has no value is left out. Each stays one argument.

    Raises InvalidValue for a value that the program would take for an option, and for one that no argument
    can hold.
    """
    filled: list[str] = []
    for template in args:
        value = fill(template, values)
        if isinstance(value, Absence):
            continue
        text = as_text(value)
        name = next(iter(names_in(template)), "")
        if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > LONGEST_ARGUMENT:
            said = f"{name} holds a NUL, or is too long for an argument"
            raise InvalidValue(said, "shorten it")
        # A number may have a minus sign; a text that begins with one could switch something on.
        begins = pieces_of(template)[:1]
        from_value = bool(begins and begins[0].name)
        is_text = from_value and isinstance(values.get(begins[0].name), str)
        if is_text and text.startswith("-") and END_OF_OPTIONS not in filled:
            said = f"{name} begins with -, and the program could take it for an option"
            hint = 'give another value, or write "--" before it, or --name=${…}, in the args of the tool'
            raise InvalidValue(said, hint)
        filled.append(text)
    return tuple(filled)


def fill_function(function: PythonExec, values: Values) -> Json:
    """Return the arguments with the types of their values; one without a value is left out."""
    filled = fill(function.args, values)
    return [] if isinstance(filled, Absence) else filled


def fill_request(exec_: HttpExec, values: Values) -> WebRequest:
    """Return the request. Raises InvalidValue."""
    try:
        template = parse_template(exec_.url)
        target = _with_query(fill_url(template, values), exec_.query, values)
    except InvalidWebUrl as refused:
        raise InvalidValue(f"the address cannot be made: {refused}", "give another value") from refused
    headers = _headers(exec_, values)
    body, content_type = _body(exec_, headers, values)
    if content_type and not any(name.lower() == "content-type" for name, _ in headers):
        headers = (*headers, ("Content-Type", content_type))
    return WebRequest(HttpRequest(target, exec_.method, headers, body), template.literal_origin)


def _with_query(target: UrlTarget, query: JsonObject, values: Values) -> UrlTarget:
    pairs: list[str] = []
    for name, template in query.items():
        value = fill(template, values)
        # What is absent or null has no text that a server would read alike.
        items = [] if isinstance(value, Absence) else value if isinstance(value, list) else [value]
        pairs += [encode_query(name, as_text(item)) for item in items if item is not None]
    if not pairs:
        return target
    path = target.path + ("&" if "?" in target.path else "?") + "&".join(pairs)
    if len(path) > MAX_URL:
        raise InvalidWebUrl(f"longer than {MAX_URL} characters")
    return UrlTarget(target.scheme, target.host, target.port, path)


def _headers(exec_: HttpExec, values: Values) -> Headers:
    filled: dict[str, str] = {}
    for name, template in exec_.headers.items():
        value = fill(template, values)
        if not isinstance(value, Absence):
            filled[name] = as_text(value)
    try:
        return read_headers(filled)
    except InvalidHeader as refused:
        hint = "a header is one line of printable ASCII"
        raise InvalidValue(f"a header cannot be made: {refused}", hint) from refused


def _body(exec_: HttpExec, headers: Headers, values: Values) -> tuple[bytes | None, str]:
    """Return the body, and the type of its content; empty where the headers decide or there is none."""
    if isinstance(exec_.body, msgspec.UnsetType):
        return None, ""
    value = fill(exec_.body, values)
    if isinstance(value, Absence):
        return None, ""
    stated = next((text for name, text in headers if name.lower() == "content-type"), "")
    try:
        if isinstance(value, dict) and stated.partition(";")[0].strip().lower() == FORM:
            return urlencode(_form(value)).encode("ascii"), ""
        if isinstance(value, str):
            return value.encode(), "text/plain; charset=utf-8"
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode(), "application/json"
    except (UnicodeEncodeError, ValueError) as broken:
        raise InvalidValue("the body holds half of a surrogate pair", "give another value") from broken


def _form(value: JsonObject) -> list[tuple[str, str]]:
    return [
        (name, as_text(item))
        for name, items in value.items()
        for item in (items if isinstance(items, list) else [items])
        if item is not None
    ]
