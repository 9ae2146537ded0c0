"""Makes the input that is sent from the fields of a form, and finds what is wrong with it, field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

from flycore.catalog.schemas import Violation, check_input, check_schema, input_needs_process
from flycore.model.json import Json, JsonObject, canonical_json, pointer_join, pointer_keys
from flycore.model.large_values import is_large
from flytui.console.forms.json_editor import read_object
from flytui.console.forms.schema_fields import MISSING, FieldKind, Missing, SchemaField
from flytui.console.forms.values import (
    ArrayValue,
    ChoiceValue,
    FormValue,
    ObjectValue,
    Path,
    PathStep,
    TextValue,
    UnionValue,
    is_empty,
    is_initial,
    json_text_value,
    pointer_of,
    value_from_json,
)

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_DIGITS = 4_300
"""The most digits that Python turns into an integer; `sys.set_int_max_str_digits` explains it."""
_REQUIRED_SUFFIX = " is a required property"
"""The end of the validator's message on a missing key, after the name as JSON."""
_MAX_DEFAULT_PASSES = 64
"""How often defaults are filled in, because a default may itself contain objects with defaults."""


class InputProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong with an input, and the JSON pointer to its place."""

    pointer: str
    message: str
    broken: bool = False
    """Whether no input can be made at all because of it."""
    missing: bool = False
    """Whether a required field is empty and nothing else is wrong."""


class FormResult(msgspec.Struct, frozen=True):
    """The exact input that would be sent, with defaults filled in, and its problems."""

    input: JsonObject
    problems: tuple[InputProblem, ...] = ()

    @property
    def broken(self) -> InputProblem | None:
        """The problem because of which nothing can be sent; None where the input can be sent."""
        return next((problem for problem in self.problems if problem.broken), None)


def read_form(field: SchemaField, form_value: FormValue, schema: Json) -> FormResult:
    """The input in the fields of a form."""
    reader = _FormReader()
    value = reader.read(field, form_value, (), True)
    if reader.problems and any(problem.broken for problem in reader.problems):
        return FormResult({}, tuple(reader.problems))
    if not isinstance(value, dict):
        return FormResult({}, (InputProblem("", "the input of a tool is an object: { … }", broken=True),))
    return validated(value, schema, reader.problems)


def value_for(field: SchemaField, value: JsonObject) -> FormValue:
    """The form's value for an input; JSON text where the fields would send another input."""
    form_value = value_from_json(field, value)
    reader = _FormReader()
    return form_value if reader.read(field, form_value, (), True) == value else json_text_value(value)


def read_json(text: str, schema: Json) -> FormResult:
    """The input that a JSON text spells."""
    value = read_object(text)
    if isinstance(value, str):
        return FormResult({}, (InputProblem("", value, broken=True),))
    return validated(value, schema)


def validated(value: JsonObject, schema: Json, known: Sequence[InputProblem] = ()) -> FormResult:
    """The input as the kernel would run it, and every problem that the kernel would find. What takes long is
    not looked for here, while somebody types: the kernel reports it once the input is sent."""
    try:
        canonical_json(value)
    except (ValueError, RecursionError):
        words = "contains a value that JSON does not have, such as half a character or an infinite number"
        return FormResult({}, (*known, InputProblem("", words, broken=True)))
    whole = schema if isinstance(schema, dict) else {} if schema is True else {"not": {}}
    filled, violations = value, tuple[Violation, ...]()
    # This also builds its validator, without which no check counts as quick.
    usable = not check_schema(whole)
    for _ in range(_MAX_DEFAULT_PASSES):
        if is_large(filled) or (usable and input_needs_process(whole, filled)):
            violations = ()
            break
        before, (filled, violations) = filled, check_input(whole, filled)
        if before == filled:
            break
    # The schema alone decides whether an empty field is a problem: a default may have filled it in.
    known = [
        problem
        for problem in known
        if not problem.missing or (violations and not _exists_at(filled, problem.pointer))
    ]
    lacking = {problem.pointer for problem in known if problem.missing}
    problems = (_problem_of(item) for item in violations)
    others = (item for item in problems if not (item.missing and item.pointer in lacking))
    return FormResult(filled, (*known, *dict.fromkeys(others)))


def _exists_at(value: Json, pointer: str) -> bool:
    """Whether the input has a value there, since a default may fill in an empty field."""
    for name in pointer_keys(pointer):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return False
    return True


def _problem_of(item: Violation) -> InputProblem:
    """The problem that a violation reports. A missing key is reported at the place of the key."""
    quoted_name, suffix, _ = item.message.partition(_REQUIRED_SUFFIX)
    try:
        name = json.loads(quoted_name) if suffix else None
    except ValueError:
        name = None
    if not isinstance(name, str):
        return InputProblem(item.pointer, item.message)
    return InputProblem(pointer_join(item.pointer, name), "is required", missing=True)


class _FormReader:
    """Reads the values of a form. It collects problems and goes on."""

    def __init__(self) -> None:
        self.problems: list[InputProblem] = []

    def read(self, field: SchemaField, form_value: FormValue, path: Path, required: bool) -> Json | Missing:
        """Read the value at the path; MISSING where there is none."""
        value: Json | Missing = MISSING
        match form_value:
            case TextValue():
                value = self._leaf(field, form_value, path, required)
            case ChoiceValue():
                value = field.options[form_value.at] if form_value.at >= 0 else MISSING
            case ObjectValue():
                return self._group(field, form_value, path, required)
            case ArrayValue():
                return self._items(field, form_value, path, required)
            case UnionValue() if form_value.at >= 0:
                branch = field.branches[form_value.at]
                needed = required or branch.kind in (FieldKind.OBJECT, FieldKind.ARRAY)
                return self.read(branch, form_value.inner, (*path, PathStep.BRANCH), needed)
        if isinstance(value, Missing) and required:
            self._report_missing(path)
        return value

    def _report_missing(self, path: Path) -> None:
        steps = [step for step in path if not isinstance(step, PathStep)]
        if steps and isinstance(steps[-1], int):
            words = "write a value, or take the item out"
            self.problems.append(InputProblem(pointer_of(path), words, broken=True))
        else:
            self.problems.append(InputProblem(pointer_of(path), "is required", missing=True))

    def _leaf(self, field: SchemaField, form_value: TextValue, path: Path, required: bool) -> Json | Missing:
        steps = [step for step in path if not isinstance(step, PathStep)]
        item = bool(steps) and isinstance(steps[-1], int)
        if is_empty(form_value):
            return (
                ""
                if item and required and field.kind is FieldKind.TEXT and not form_value.as_json
                else MISSING
            )
        if form_value.as_json:
            return self._json(form_value.text, path)
        if field.kind is FieldKind.NUMBER:
            return _number_from_text(form_value.text)
        return form_value.text

    def _json(self, text: str, path: Path) -> Json | Missing:
        # The text could close the object and add a key of its own, so that the keys are counted below.
        read = read_object(f'{{"value":{text}\n}}')
        if isinstance(read, str) or len(read) != 1:
            message = read if isinstance(read, str) else "no JSON: write one value"
            self.problems.append(InputProblem(pointer_of(path), message, broken=True))
            return MISSING
        return read["value"]

    def _group(
        self, field: SchemaField, form_value: ObjectValue, path: Path, required: bool
    ) -> Json | Missing:
        if (
            not required
            and not form_value.explicit
            and (is_initial(field, form_value) or is_empty(form_value))
        ):
            return MISSING
        made: JsonObject = {}
        for part, (name, inner) in zip(field.fields, form_value.parts, strict=True):
            value = self.read(part, inner, (*path, name), part.required)
            if not isinstance(value, Missing):
                made[name] = value
        others = self._json(form_value.rest.text, (*path, PathStep.REST)) if form_value.rest.text else {}
        if isinstance(others, dict) and not set(others) & {part.name for part in field.fields}:
            made.update(others)
        elif not isinstance(others, Missing):
            words = "other keys: an object, without the keys that have a field of their own"
            self.problems.append(InputProblem(pointer_of(path), words, broken=True))
        return made

    def _items(
        self, field: SchemaField, form_value: ArrayValue, path: Path, required: bool
    ) -> Json | Missing:
        if field.item is None or (is_empty(form_value) and not required):
            return MISSING
        values = [self.read(field.item, item, (*path, at), True) for at, item in enumerate(form_value.items)]
        return [value for value in values if not isinstance(value, Missing)]


def _number_from_text(text: str) -> Json:
    """The number that the text spells. Any other text stays a text, about which the validator complains."""
    return json.loads(text) if _NUMBER.fullmatch(text.strip()) and len(text) < _MAX_DIGITS else text
