"""A typed function as a tool: its annotations are the input's schema, and what comes is checked by them.

Understood are `str`, `int`, `float`, `bool`, `object`, `list[…]`, `dict[str, …]`, `Literal[…]`, each also
`| None`, as written or as types. The annotations are read as text, so that `typing` need not be imported;
none is ever evaluated.
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
_WORDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def input_schema(function: FunctionType) -> JsonObject:
    """JSON Schema of its input. Raises TypeError for a parameter without an annotation that is understood."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults: JsonObject = dict(function.__kwdefaults__ or {})
    given = function.__defaults__ or ()
    defaults |= dict(zip(names[code.co_argcount - len(given) : code.co_argcount], given, strict=True))
    properties: JsonObject = {}
    for name in names:
        annotation = function.__annotations__.get(name)
        if annotation is Call or annotation == "Call":
            continue
        schema = _schema(_written(annotation), f"{function.__name__}({name})")
        if defaults.get(name) is not None:
            schema["default"] = defaults[name]
        properties[name] = schema
    required = [name for name in properties if name not in defaults]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def as_tool(function: FunctionType, schema: JsonObject) -> Callable[[Call], JsonObject]:
    """The function as a tool: its input checked, a result that is no object put into `result`."""
    wants = [name for name, kind in function.__annotations__.items() if kind is Call or kind == "Call"]

    def tool(call: Call) -> JsonObject:
        check(call.input, schema, "")
        result = function(**call.input, **dict.fromkeys(wants, call))
        return result if isinstance(result, dict) else {"result": result}

    return tool


def check(value: object, schema: JsonObject, field: str) -> None:
    """Raises `InvalidInput`, naming the field, where the value does not fit a schema made here."""
    options = schema.get("enum")
    if isinstance(options, list) and value not in options:
        raise InvalidInput(field, f"one of {', '.join(map(str, options))} is needed")
    kinds = schema.get("type", [])
    wanted = [str(kind) for kind in kinds] if isinstance(kinds, list) else [str(kinds)]
    if wanted and not any(_is(value, kind) for kind in wanted):
        raise InvalidInput(field, f"{' or '.join(_WORDS[kind] for kind in wanted)} is needed")
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
            raise InvalidInput(f"{field}{name}", f"{_needed(properties[name])} is needed")
    for name, item in value.items():
        inside = properties.get(name, extra)
        if inside is False:
            raise InvalidInput(f"{field}{name}", "there is no such input")
        if isinstance(inside, dict):
            check(item, inside, f"{field}{'.' if field else ''}{name}")


def _needed(schema: JsonObject) -> str:
    kind = schema.get("type")
    return _WORDS[kind] if isinstance(kind, str) else "a value"


def _is(value: object, kind: str) -> bool:
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


def _written(annotation: object) -> str:
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if type(annotation) is type else str(annotation)


def _schema(text: str, where: str) -> JsonObject:
    found = _of(compile(text, where, "eval", _ONLY_SYNTAX).body)
    if found is None:
        raise TypeError(f"{where}: the annotation {text} is not understood; use str, int, list[str], …")
    return found


def _of(node: ast.expr) -> JsonObject | None:
    """The schema of an annotation's syntax; None where it is not understood."""
    match type(node).__name__, node:
        case "Name" | "Attribute", _:
            name = getattr(node, "id", None) or getattr(node, "attr", "")
            return {} if name in ("object", "Any") else {"type": _NAMES[name]} if name in _NAMES else None
        case "BinOp", _:
            left, right = _of(node.left), node.right  # type: ignore[attr-defined]
            is_null = getattr(right, "value", "") is None
            kind = left.get("type") if left else None
            return {**left, "type": [kind, "null"]} if left and is_null and isinstance(kind, str) else None
        case "Subscript", _:
            return _of_subscript(node.value, node.slice)  # type: ignore[attr-defined]
        case _:
            return None


def _of_subscript(value: ast.expr, inside: ast.expr) -> JsonObject | None:
    name = getattr(value, "id", None) or getattr(value, "attr", "")
    parts = getattr(inside, "elts", [inside])
    if name == "Literal":
        return {"enum": [getattr(part, "value", None) for part in parts]}
    schema = _of(parts[-1])
    if schema is None or name not in ("list", "dict"):
        return None
    return (
        {"type": "array", "items": schema}
        if name == "list"
        else {
            "type": "object",
            "additionalProperties": schema or True,
        }
    )
