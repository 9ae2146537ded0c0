"""Turns a typed function into a tool: its annotations give the input's schema, and each input is checked
against that.

The annotations may be `str`, `int`, `float`, `bool`, `object`, `list[...]`, `dict[str, ...]` and
`Literal[...]`, each also with `| None`. They are read as text and never evaluated.
"""

from __future__ import annotations

from flysidecars.sdk.call import Call, JsonObject
from flysidecars.sdk.failures import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable
    from types import FunctionType

_ONLY_SYNTAX = 0x400  # ast.PyCF_ONLY_AST, without the import
_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_NAMES |= {"list": "array", "dict": "object", "JsonObject": "object"}
_TYPE_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def input_schema(function: FunctionType) -> JsonObject:
    """The JSON Schema of the function's input.

    Raises `TypeError` for a parameter with no annotation, or with one that is not supported.
    """
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults: JsonObject = dict(function.__kwdefaults__ or {})
    values = function.__defaults__ or ()
    defaults |= dict(zip(names[code.co_argcount - len(values) : code.co_argcount], values, strict=True))
    properties: JsonObject = {}
    for name in names:
        annotation = function.__annotations__.get(name)
        if annotation is Call or annotation == "Call":
            continue
        schema = _schema(_annotation_text(annotation), f"{function.__name__}({name})")
        if defaults.get(name) is not None:
            schema["default"] = defaults[name]
        properties[name] = schema
    required = [name for name in properties if name not in defaults]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def as_tool(function: FunctionType, schema: JsonObject) -> Callable[[Call], JsonObject]:
    """A tool that checks the input, calls the function, and puts a result that is no object into the field
    `result`."""
    call_names = [name for name, kind in function.__annotations__.items() if kind is Call or kind == "Call"]

    def tool(call: Call) -> JsonObject:
        check(call.input, schema, "")
        result = function(**call.input, **dict.fromkeys(call_names, call))
        return result if isinstance(result, dict) else {"result": result}

    return tool


def check(value: object, schema: JsonObject, field: str) -> None:
    """Raise `InvalidInput`, which names the field, if the value does not match a schema of
    `input_schema`."""
    options = schema.get("enum")
    if isinstance(options, list) and value not in options:
        raise InvalidInput(field, f"one of {', '.join(map(str, options))} is needed")
    kinds = schema.get("type", [])
    types = [str(kind) for kind in kinds] if isinstance(kinds, list) else [str(kinds)]
    if types and not any(_has_type(value, kind) for kind in types):
        raise InvalidInput(field, f"{' or '.join(_TYPE_NAMES[kind] for kind in types)} is needed")
    items, extra = schema.get("items"), schema.get("additionalProperties")
    if isinstance(value, list) and isinstance(items, dict):
        for number, item in enumerate(value):
            check(item, items, f"{field}[{number}]")
    if isinstance(value, dict):
        _check_fields(value, schema, extra, field)


def _check_fields(value: JsonObject, schema: JsonObject, extra: object, field: str) -> None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return
    for name in required:
        if name not in value:
            raise InvalidInput(f"{field}{name}", f"{_field_description(properties[name])} is needed")
    for name, item in value.items():
        inside = properties.get(name, extra)
        if inside is False:
            raise InvalidInput(f"{field}{name}", "there is no such input")
        if isinstance(inside, dict):
            check(item, inside, f"{field}{'.' if field else ''}{name}")


def _field_description(schema: JsonObject) -> str:
    kind = schema.get("type")
    return _TYPE_NAMES[kind] if isinstance(kind, str) else "a value"


def _has_type(value: object, kind: str) -> bool:
    # First: in Python a bool is an int, too.
    if isinstance(value, bool):
        return kind == "boolean"
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int)
        case "number":
            return isinstance(value, int | float)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return kind == "null" and value is None


def _annotation_text(annotation: object) -> str:
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if type(annotation) is type else str(annotation)


def _schema(text: str, where: str) -> JsonObject:
    found = _node_schema(compile(text, where, "eval", _ONLY_SYNTAX).body)
    if found is None:
        raise TypeError(
            f"{where}: the annotation {text} is not supported; use str, int or list[str], for example"
        )
    return found


def _node_schema(node: ast.expr) -> JsonObject | None:
    """The schema of an annotation's syntax tree; None if it is not supported."""
    # By the node's class name: an import of `ast` would slow the start of every call.
    match type(node).__name__, node:
        case "Name" | "Attribute", _:
            name = getattr(node, "id", None) or getattr(node, "attr", "")
            return {} if name in ("object", "Any") else {"type": _NAMES[name]} if name in _NAMES else None
        case "BinOp", _:
            left, right = _node_schema(node.left), node.right  # type: ignore[attr-defined]
            is_null = getattr(right, "value", "") is None
            kind = left.get("type") if left else None
            return {**left, "type": [kind, "null"]} if left and is_null and isinstance(kind, str) else None
        case "Subscript", _:
            return _subscript_schema(node.value, node.slice)  # type: ignore[attr-defined]
        case _:
            return None


def _subscript_schema(value: ast.expr, inside: ast.expr) -> JsonObject | None:
    name = getattr(value, "id", None) or getattr(value, "attr", "")
    parts = getattr(inside, "elts", [inside])
    if name == "Literal":
        return {"enum": [getattr(part, "value", None) for part in parts]}
    schema = _node_schema(parts[-1])
    if schema is None or name not in ("list", "dict"):
        return None
    if name == "list":
        return {"type": "array", "items": schema}
    return {"type": "object", "additionalProperties": schema or True}
