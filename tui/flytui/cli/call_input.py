"""Reads the input of `flytui call` from a JSON object, from `key=value` words, or from standard input."""

from __future__ import annotations

from collections.abc import Callable

from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict

MAX_STDIN_BYTES = 4 * 1024 * 1024
Pairs = tuple[tuple[str, str], ...]
"""`key=value` words as written. The schema of the tool decides what type a value has."""


class CallInputError(ValueError):
    """The words are no input; the message says why and what to write."""


def read_input_words(
    words: tuple[str, ...], option: str | None, stdin: Callable[[int], bytes]
) -> JsonObject | Pairs:
    """The input that the command line names. `stdin` reads at most that many bytes. Raises CallInputError."""
    refuse_undecodable(*words, option or "")
    if option is not None and words:
        raise CallInputError("give the input once: either --input or after the tool's name")
    if option is not None:
        return _from_stdin(stdin) if option == "-" else _object(option.encode("utf-8"), "--input")
    if words == ("-",):
        return _from_stdin(stdin)
    if len(words) == 1 and words[0].lstrip()[:1] in ("{", "["):
        return _object(words[0].encode("utf-8"), "the input")
    pairs = tuple(_pair(word) for word in words)
    repeated = next((key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at])), None)
    if repeated is not None:
        raise CallInputError(f"{repeated!r} is given twice")
    return pairs


def refuse_undecodable(*words: str) -> None:
    """Raise CallInputError for a word whose bytes are no UTF-8, since JSON cannot contain it."""
    for word in words:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raise CallInputError(f"{word[:80]!r} is not UTF-8") from None


def typed_input(pairs: Pairs, schema: JsonObject) -> JsonObject:
    """The pairs as an object. A value stays text where the schema says that it is a string. Any other value
    is read as JSON where that works, and otherwise stays text."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return {key: _value(text, known.get(key)) for key, text in pairs}


def _value(text: str, field: Json) -> Json:
    if isinstance(field, dict) and field.get("type") == "string":
        return text
    try:
        return read_strict(text.encode("utf-8"))
    except StrictJsonError:
        return text


def _pair(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise CallInputError(
            f"{word!r} is neither a JSON object nor key=value: write for example path=README.md"
        )
    return key, value


def _from_stdin(stdin: Callable[[int], bytes]) -> JsonObject:
    data = stdin(MAX_STDIN_BYTES + 1)
    if len(data) > MAX_STDIN_BYTES:
        raise CallInputError(f"standard input holds more than {MAX_STDIN_BYTES} bytes")
    return _object(data, "standard input")


def _object(data: bytes, source: str) -> JsonObject:
    try:
        value = read_strict(data)
    except StrictJsonError as problem:
        raise CallInputError(f"{source} {problem.reason}") from None
    if not isinstance(value, dict):
        raise CallInputError(f'{source} is JSON, but no object: write for example {{"path": "README.md"}}')
    return value
