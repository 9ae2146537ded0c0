"""Dialects: the fields that programs of another system read and answer in the place of those of known tools.

A dialect is data, one JSON file in `dialects/`, with an object for each known tool that its programs offer.
An entry names it (`"dialect": "flyflor"`), or its program does in the answer to a probe. Callers may send the
input in either form. The form of the known tool, the canonical one, is what policy judges, what the card
shows and what the digest covers; the program is sent its own fields, and what it answers is turned back.

What a program cannot do is no part of the tool that is offered: a field that it would ignore is refused, so
that no call ends with a success without the act.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import shlex
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from flycore.model.base import Value
from flycore.model.catalog import Capability
from flycore.model.json import Json, JsonObject
from flycore.model.json_path import at_path
from flycore.model.placeholders import Absence
from flycore.model.sidecar import SidecarEntry

_MOST_FILE_BYTES = 64 * 1024 * 1024
"""Decoded bytes of a file that a program answers within its JSON; more than any output may have."""


class _OutputField(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a field of ours is in the program's answer. `each` maps the items of a list."""

    path: str
    each: dict[str, str] = {}
    default: Json | msgspec.UnsetType = msgspec.UNSET


class _Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place in an answer with `ok: true` that is there only where nothing was done."""

    path: str
    text: str = ""


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"given": "with"}):
    """A field of theirs that is one text of words, as a shell reads them, in the place of a list of ours."""

    field: str
    given: JsonObject = {}
    """Fields of ours that hold where the caller has sent theirs."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the answer holds in base64; `field` is the field of ours that names it."""

    data: str
    format: str
    field: str
    name: str


class _Artifact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A field of ours that names a file that the call has made."""

    field: str
    mime_type: str = "application/octet-stream"


class _ArgumentRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words that do an action. The first row is what is sent; all are read. `{x}` stands for the field,
    `{-x}` for its negative."""

    when: dict[str, str]
    words: list[list[str]]
    over: dict[str, int] = {}
    under: dict[str, int] = {}
    none: list[str] = []


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of theirs with the arguments of a program that `config` names at `command`."""

    field: str
    command: str
    programs: dict[str, list[_ArgumentRule]]


class ToolDialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What differs for one tool."""

    description: str = ""
    """What a person and an agent have to know of it."""
    input: dict[str, str] = {}
    """Their name of a field, by ours."""
    unread: list[str] = []
    """Fields of ours that the programs do not read."""
    properties: dict[str, JsonObject] = {}
    """Schemas of our fields, where the programs take less."""
    extra: dict[str, JsonObject] = {}
    """Schemas of fields that only the programs have."""
    schema: JsonObject = {}
    """Further keys of the input schema; null takes a key away."""
    words: dict[str, _Words] = {}
    arguments: _Arguments | None = None
    lifted: list[str] = []
    """Objects in the answer whose fields are those of the output."""
    output: dict[str, _OutputField] = {}
    echo: dict[str, str] = {}
    """Fields of the output that are not in the answer, by the field of the input that they equal."""
    failures: list[_Failure] = []
    file: _File | None = None
    artifact: _Artifact | None = None
    output_schema: JsonObject | None = None


class DialectOutput(Value, frozen=True, kw_only=True):
    """What an answer means in the form of the known tool."""

    fields: JsonObject
    failure: str = ""
    """Why nothing was done although the program answered success; empty where nothing says so."""
    file: bytes = b""
    """The content of the file that the answer holds, where it holds one."""
    file_name: str = ""


@cache
def dialect_names() -> frozenset[str]:
    """Return the names of the dialects."""
    names = (item.name for item in Path(__file__).with_name("dialects").iterdir())
    return frozenset(name.removesuffix(".json") for name in names if name.endswith(".json"))


@cache
def read_dialect(name: str) -> Mapping[str, ToolDialect]:
    """Return the dialect by tool; none of a name that is not known."""
    if name not in dialect_names():
        return {}
    data = Path(__file__).with_name("dialects").joinpath(f"{name}.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, ToolDialect])


def tool_dialect(name: str, tool: str) -> ToolDialect | None:
    """Return what the dialect says of a tool; None where it does not say anything."""
    return read_dialect(name).get(tool) if name else None


def in_dialect(known: Capability, name: str) -> Capability:
    """Return a known capability as programs of the dialect offer it; the same where it has none."""
    dialect = tool_dialect(name, known.name)
    if dialect is None:
        return known
    more = f" {dialect.description}" if dialect.description else ""
    schema = _input_schema(known.name, name)
    output = known.output_schema if dialect.output_schema is None else dialect.output_schema
    return msgspec.structs.replace(
        known,
        description=f"{known.description}{more}",
        input_schema=known.input_schema if schema is None else schema,
        output_schema=output,
        dialect=name,
    )


@lru_cache(maxsize=256)
def _input_schema(tool: str, name: str) -> JsonObject | None:
    """Return the input schema of the tool in the dialect; None where it is that of the known tool.

    It is made once, because validators are kept by the schema.
    """
    from flycore.catalog.builtin import KNOWN

    dialect, known = read_dialect(name)[tool], KNOWN[tool].input_schema
    changed = dialect.unread or dialect.properties or dialect.extra or dialect.schema
    ours = known.get("properties")
    if not changed or not isinstance(ours, dict):
        return None
    kept = {key: value for key, value in ours.items() if key not in dialect.unread}
    made: JsonObject = {**known, "properties": {**kept, **dialect.properties, **dialect.extra}}
    return {key: value for key, value in {**made, **dialect.schema}.items() if value is not None}


def arguments_problem(name: str, tool: str, entry: SidecarEntry) -> tuple[str, str]:
    """Return why the tool's actions cannot be written as arguments for the program that the entry's config
    names, and the key of that program; both empty where they can."""
    dialect = tool_dialect(name, tool)
    if dialect is None or dialect.arguments is None:
        return "", ""
    arguments = dialect.arguments
    command = entry.config.get(arguments.command)
    if not isinstance(command, str) or not command:
        return f"config.{arguments.command} names no program that does what {tool} says", arguments.command
    if _rules(arguments, entry.config):
        return "", ""
    known = " or ".join(sorted(arguments.programs))
    return (
        f"it is not known which arguments {posixpath.basename(command)} takes for {tool}; known is {known}",
        arguments.command,
    )


def _rules(arguments: _Arguments, config: JsonObject) -> list[_ArgumentRule]:
    command = config.get(arguments.command)
    return arguments.programs.get(posixpath.basename(command), []) if isinstance(command, str) else []


# The input of a caller, in either form, as the canonical one.


class NotCanonicalError(ValueError):
    """The input cannot be read as one of the known tool. Its text says why."""


def canonical_input(capability: Capability, input: JsonObject, config: JsonObject) -> JsonObject:
    """Return the input in the form of the known tool. Raises NotCanonicalError."""
    dialect = tool_dialect(capability.dialect, capability.name)
    if dialect is None:
        return input
    found = dict(input)
    for ours, theirs in dialect.input.items():
        if theirs in found and theirs not in dialect.input:
            _move(found, theirs, ours, found[theirs])
    for ours, words in dialect.words.items():
        text = found.get(words.field)
        if isinstance(text, str):
            _move(found, words.field, ours, [*_split(words.field, text)])
            found = {**words.given, **found}
    arguments = dialect.arguments
    if arguments is not None and arguments.field in found:
        found = _from_words(arguments, found, config)
    _refuse_unread(capability, dialect, found)
    return found


def _move(found: JsonObject, theirs: str, ours: str, value: Json) -> None:
    if ours in found:
        raise NotCanonicalError(f"{theirs} and {ours} are the same field: send one of them")
    del found[theirs]
    found[ours] = value


def _split(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as problem:
        raise NotCanonicalError(f"{name}: {problem}") from problem


def _refuse_unread(capability: Capability, dialect: ToolDialect, found: JsonObject) -> None:
    """Refuse fields that the program would ignore; a value that is the default says nothing."""
    from flycore.catalog.builtin import KNOWN

    known = KNOWN[capability.name].input_schema.get("properties")
    for key in dialect.unread:
        if key not in found:
            continue
        schema = known.get(key) if isinstance(known, dict) else None
        if isinstance(schema, dict) and "default" in schema and found[key] == schema["default"]:
            del found[key]
            continue
        raise NotCanonicalError(
            f"{key}: programs of the dialect {capability.dialect} do not read it, and would answer success "
            "without it"
        )


def _from_words(arguments: _Arguments, found: JsonObject, config: JsonObject) -> JsonObject:
    given = found.pop(arguments.field)
    if found:
        others = ", ".join(found)
        raise NotCanonicalError(f"{arguments.field} and {others} say the same: send one form of the input")
    words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    for rule in _rules(arguments, config):
        for row in rule.words:
            fields = _matched(row, words)
            if fields is not None and _applies(rule, made := {**rule.when, **fields}):
                return made
    # Other words may start programs or write files, and no card could say in a sentence what they do.
    raise NotCanonicalError(
        f"{arguments.field}: these words are no action of this tool: send action and its fields"
    )


def _matched(row: list[str], words: list[str]) -> JsonObject | None:
    """Return the fields that the placeholders of a row stand for in these words; None where they differ."""
    if len(row) != len(words):
        return None
    found: JsonObject = {}
    for place, (pattern, word) in enumerate(zip(row, words, strict=True)):
        if not pattern.startswith("{"):
            if pattern != word:
                return None
            continue
        name, negative = pattern[1:-1].removeprefix("-"), pattern.startswith("{-")
        if word.removeprefix("-").isascii() and word.removeprefix("-").isdecimal() and name not in _TEXTS:
            found[name] = -int(word) if negative else int(word)
        elif name in _TEXTS and (row[place - 1] == "--" or not word.startswith("-")):
            found[name] = word
        else:
            return None
    return found


_TEXTS = frozenset(("text", "keys"))
"""Placeholders of texts; all others are whole numbers."""


def _applies(rule: _ArgumentRule, input: Mapping[str, Json]) -> bool:
    return (
        all(input.get(key) == value for key, value in rule.when.items())
        and all(_number(input, key) > value for key, value in rule.over.items())
        and all(_number(input, key) < value for key, value in rule.under.items())
        and not any(input.get(key) for key in rule.none)
    )


def _number(input: Mapping[str, Json], key: str) -> int:
    value = input.get(key, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


# The canonical input, as the program reads it.


def program_input(capability: Capability, input: JsonObject, config: JsonObject) -> JsonObject:
    """Return the input in the form that the program reads. Raises NotCanonicalError where it has none."""
    dialect = tool_dialect(capability.dialect, capability.name)
    if dialect is None:
        return input
    if dialect.arguments is not None:
        return {dialect.arguments.field: [*_to_words(dialect.arguments, input, config)]}
    made = {dialect.input.get(key, key): value for key, value in input.items()}
    for ours, words in dialect.words.items():
        value = input.get(ours)
        if isinstance(value, list):
            made[words.field] = shlex.join(item for item in value if isinstance(item, str))
    return made


def _to_words(arguments: _Arguments, input: JsonObject, config: JsonObject) -> list[str]:
    for rule in _rules(arguments, config):
        if _applies(rule, input):
            return [_word(pattern, input) for pattern in rule.words[0]]
    raise NotCanonicalError("the program that does this tool's actions has no words for this one")


def _word(pattern: str, input: JsonObject) -> str:
    if not pattern.startswith("{"):
        return pattern
    name = pattern[1:-1]
    if name.startswith("-"):
        return str(-_number(input, name[1:]))
    return str(input.get(name, ""))


# The answer of the program, in the form of the known tool.


def canonical_output(capability: Capability, input: JsonObject, answer: JsonObject) -> DialectOutput:
    """Return what an answer with `ok: true` means. `input` is the canonical one."""
    dialect = tool_dialect(capability.dialect, capability.name)
    if dialect is None:
        return DialectOutput(fields=answer)
    if failure := _failure(dialect, answer):
        return DialectOutput(fields=answer, failure=failure)
    fields, content, name = dict(answer), b"", ""
    taken: set[str] = set()
    for path in dialect.lifted:
        inner = at_path(answer, path)
        if isinstance(inner, dict):
            taken.add(path.partition(".")[0])
            fields = {**{key: value for key, value in inner.items() if key != "ok"}, **fields}
    made: JsonObject = {}
    for ours, place in dialect.output.items():
        value = at_path(answer, place.path)
        if not isinstance(value, Absence):
            taken.add(place.path.partition(".")[0])
            made[ours] = _each(value, place.each)
        elif place.default is not msgspec.UNSET:
            taken.add(place.path.partition(".")[0])
            made[ours] = place.default
    fields = {key: value for key, value in fields.items() if key not in taken} | made
    fields = {**{ours: input[given] for ours, given in dialect.echo.items() if given in input}, **fields}
    if dialect.file is not None:
        fields, content, name = _taken_file(dialect.file, fields)
    artifact = dialect.artifact
    if artifact is not None and isinstance(fields.get(artifact.field), str):
        listed: JsonObject = {"path": fields[artifact.field], "mimeType": artifact.mime_type}
        fields.setdefault("artifacts", [listed])
    return DialectOutput(fields=fields, file=content, file_name=name)


def _failure(dialect: ToolDialect, answer: JsonObject) -> str:
    for path in dialect.lifted:
        inner = at_path(answer, path)
        if isinstance(inner, dict) and inner.get("ok") is False:
            said = inner.get("error")
            return said if isinstance(said, str) and said else "the program that it asked has failed"
    for failure in dialect.failures:
        found = at_path(answer, failure.path)
        if not isinstance(found, Absence) and found not in (None, ""):
            text = at_path(answer, failure.text) if failure.text else found
            return text if isinstance(text, str) and text else f"its answer has {failure.path}"
    return ""


def _each(value: Json, fields: Mapping[str, str]) -> Json:
    if not fields or not isinstance(value, list):
        return value
    items: list[Json] = []
    for item in value:
        found = {name: at_path(item, path) for name, path in fields.items()}
        items.append({name: part for name, part in found.items() if not isinstance(part, Absence)})
    return items


def _taken_file(file: _File, fields: JsonObject) -> tuple[JsonObject, bytes, str]:
    """Return the output without the base64 text, and the file's content and name; the output as it is where
    the text is none."""
    text, kind = fields.get(file.data), fields.get(file.format)
    ending = kind if isinstance(kind, str) and kind.isascii() and kind.isalnum() else "bin"
    if not isinstance(text, str) or len(text) > 2 * _MOST_FILE_BYTES:
        return fields, b"", ""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return fields, b"", ""
    kept = {key: value for key, value in fields.items() if key not in (file.data, file.format)}
    name = f"{file.name}.{ending}"
    listed: JsonObject = {"path": name, "mimeType": f"image/{ending}"}
    return {**kept, file.field: name, "artifacts": [listed]}, content, name
