"""Readers and writers of json, jsonl, yaml, toml and text."""

from __future__ import annotations

import json
import re
import tomllib
from io import StringIO

from flysafe.patterns import repeated
from flysidecars.utility.convert.values import MAX_DEPTH, LossLog, Unreadable, Unrepresentable, as_json, below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ruamel.yaml.representer import SafeRepresenter

_LARGEST_TOML = 2**63
_TOML_STRING = re.compile(
    "|".join(
        (
            '"""' + repeated(r'[^"\\]|\\.|"(?!"")') + '(?:""")?',
            '"' + repeated(r'[^"\\\n]|\\[^\n]') + '"?',
            "'''" + repeated("[^']|'(?!'')") + "(?:''')?",
            r"'[^'\n]*+'?",
            r"#[^\n]*+",
        )
    ),
    re.DOTALL,
)
"""A string, or a comment. Linear in the text, also where a string has no end."""
_DEEP_KEY = re.compile(
    r"(?<![^\s=\[\]{},])(?:[^\s.=\[\]{},]++[ \t]*+\.[ \t]*+){%d}" % MAX_DEPTH  # noqa: UP031 - braces
)
"""The beginning of a dotted key of more parts, in a text without strings."""
_OTHER_LINE_ENDS = re.compile("[\r\x85\u2028\u2029\ufeff]")
_ROUNDED_FROM = 16
"""Digits from which on a floating-point number may have been rounded."""


def read_json(text: str, lost: LossLog) -> object:
    """Parse one JSON document. Raises `Unreadable`, also for duplicate keys, NaN and infinity."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_number,
            parse_float=lambda digits: _float(digits, lost),
        )
    except json.JSONDecodeError as error:
        raise Unreadable("json", error.msg, error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise Unreadable("json", str(error) or "too deep") from error
    return as_json(value, lost)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} twice")
    return members


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def _float(digits: str, lost: LossLog) -> float:
    if len(digits) >= _ROUNDED_FROM:
        from decimal import Decimal

        if Decimal(digits) != Decimal(float(digits)) and Decimal(repr(float(digits))) != Decimal(digits):
            lost.note("numbers of many digits are rounded")
    return float(digits)


def write_json(value: object, _: LossLog) -> str:
    """Write JSON indented by two, with text that is not ASCII unescaped."""
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def read_jsonl(text: str, lost: LossLog) -> object:
    """Parse a document on each line into a list. Empty lines are skipped."""
    return [read_line(line, number, lost) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def read_line(line: str, number: int, lost: LossLog) -> object:
    """One line of jsonl."""
    try:
        return read_json(line, lost)
    except Unreadable as error:
        raise Unreadable("jsonl", error.message.partition(": ")[2], number) from error


def write_jsonl(value: object, lost: LossLog) -> str:
    """Write each item of a list as a line, and any other value as one line."""
    if not isinstance(value, list):
        lost.note("a single value becomes a list of one")
    items = value if isinstance(value, list) else [value]
    return "".join(f"{line_of(item)}\n" for item in items)


def line_of(value: object) -> str:
    """One line of jsonl."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_yaml(text: str, lost: LossLog) -> object:
    """Parse one document of YAML 1.2 without aliases. Raises `Unreadable`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        _check_events(text)
        documents = list(YAML(typ="safe", pure=True).load_all(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise Unreadable("yaml", error.problem or "cannot be read", line) from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise Unreadable("yaml", str(error).partition("\n")[0] or "too deep") from error
    if len(documents) > 1:
        raise Unreadable("one yaml document", f"{len(documents)} documents; convert them one by one")
    if "#" in text:
        lost.note("comments (#) are not kept")
    return as_json(documents[0] if documents else None, lost)


def _check_events(text: str) -> None:
    """Raise `Unreadable` for aliases and for too many levels, before any value is built: a few aliases can
    stand for more than the memory holds."""
    from ruamel.yaml import YAML
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        if isinstance(event, AliasEvent):
            raise Unreadable("plain yaml", "an alias (*name): write the value where it is meant")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise Unreadable("yaml", f"more than {MAX_DEPTH} levels deep")


def write_yaml(value: object, _: LossLog) -> str:
    """Write YAML in block style with the keys in their order. Text that looks like another type is quoted."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _representer()
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # its class says None
    yaml.width = 1 << 20
    buffer = StringIO()
    yaml.dump(value, buffer)
    return buffer.getvalue().removesuffix("...\n")


def _representer() -> type[SafeRepresenter]:
    """Quote texts with a line end other than the newline, which a reader would take for a space."""
    from ruamel.yaml.representer import SafeRepresenter

    class Quoting(SafeRepresenter):
        pass

    def represent(representer: Quoting, text: str) -> object:
        style = '"' if _OTHER_LINE_ENDS.search(text) else None
        return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Quoting.add_representer(str, represent)
    return Quoting


def read_toml(text: str, lost: LossLog) -> object:
    """Parse a document of TOML 1.0. Raises `Unreadable`."""
    # Each part of a dotted key is a table within a table, and the parser keeps the whole path of each: a key
    # of 60 KB would take gigabytes.
    if _DEEP_KEY.search(_TOML_STRING.sub(_as_word, text)):
        raise Unreadable("toml", f"a key has more than {MAX_DEPTH} parts")
    try:
        value = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unreadable("toml", str(error) or "too deep") from error
    if "#" in text:
        lost.note("comments (#) are not kept")
    return as_json(value, lost)


def _as_word(found: re.Match[str]) -> str:
    """A string as one word, since a key may be one; nothing for a comment."""
    return "" if found[0].startswith("#") else "s"


def write_toml(value: object, lost: LossLog) -> str:
    """Write an object as TOML. Members that are null are left out and noted; a null in a list raises
    `Unrepresentable`."""
    import tomli_w

    if not isinstance(value, dict):
        raise Unrepresentable("", "the top of a toml document is an object")
    return tomli_w.dumps(_for_toml(value, lost, ""))


def _for_toml(value: dict[str, object], lost: LossLog, place: str) -> dict[str, object]:
    kept: dict[str, object] = {}
    for key, item in value.items():
        if item is None:
            lost.note("null has no toml form and is left out", below(place, key))
        else:
            kept[key] = _item_for_toml(item, lost, below(place, key))
    return kept


def _item_for_toml(item: object, lost: LossLog, place: str) -> object:
    if item is None:
        raise Unrepresentable(place, "null in a list has no toml form")
    if isinstance(item, dict):
        return _for_toml(item, lost, place)
    if isinstance(item, list):
        return [_item_for_toml(inner, lost, below(place, at)) for at, inner in enumerate(item)]
    if isinstance(item, int) and not -_LARGEST_TOML <= item < _LARGEST_TOML:
        raise Unrepresentable(place, "a number beyond 64 bits has no toml form")
    return item


def read_text(text: str, _: LossLog) -> object:
    """Return the text itself."""
    return text


def write_text(value: object, _: LossLog) -> str:
    """Write a text as it is. Raises `Unrepresentable` for any other value."""
    if not isinstance(value, str):
        raise Unrepresentable("", "only a text can be written as text")
    return value
