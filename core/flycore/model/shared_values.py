"""One object for equal values: what repeats from tool to tool is kept once.

A catalog of ten thousand tools says the same words and the same schemas thousands of times, and each decoder
makes a new object for each of them. What is shared here must be changed by nobody.
"""

from __future__ import annotations

import marshal
from typing import Any, TypeVar, cast

from msgspec.structs import force_setattr

from flycore.model.catalog import Capability
from flycore.model.json import Json
from flycore.model.sidecar import SidecarEntry

Object = TypeVar("Object", bound=dict[str, Any])
_WITHOUT_REFERENCES = 2
"""The version of marshal's format that depends on the value alone. Later ones also tell whether an object is
used elsewhere."""


class SharedValues:
    """The values seen so far. It is dropped when all values are made, so that it keeps none alive."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._tuples: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._objects: dict[bytes, dict[str, Any]] = {}
        self._empty: dict[str, Any] = {}

    def text(self, value: str) -> str:
        """Return the first text that equals this one."""
        return self._texts.setdefault(value, value)

    def texts(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """Return the first tuple of texts that equals this one."""
        return self._tuples.setdefault(values, values)

    def json(self, value: Object) -> Object:
        """Return the first object with these keys, in this order, and these values."""
        if not value:
            return cast(Object, self._empty)
        # Equality of Python is not enough: 1, 1.0 and true are equal there, and the order of keys, which a
        # person sees, does not count.
        try:
            written = marshal.dumps(value, _WITHOUT_REFERENCES)
        except ValueError:  # too deep
            return value
        return cast(Object, self._objects.setdefault(written, value))

    def optional(self, value: str | None) -> str | None:
        """Return the first text that equals this one; None for None."""
        return value if value is None else self.text(value)


def with_shared_values(capability: Capability, shared: SharedValues) -> Capability:
    """Return the same capability, whose texts and schemas are those of `shared`. Only its maker may call
    this, while nobody else has it yet."""
    # A copy by `replace` would take several times as long as the rest of decoding a tool.
    for name, value in (
        ("name", shared.text(capability.name)),
        ("family", shared.text(capability.family)),
        ("sidecar", shared.optional(capability.sidecar)),
        ("description", shared.text(capability.description)),
        ("summary", shared.text(capability.summary)),
        ("approval_class", shared.texts(capability.approval_class)),
        ("input_schema", shared.json(capability.input_schema)),
        ("output_schema", shared.json(capability.output_schema)),
        ("effects", shared.json(capability.effects)),
        ("hints", shared.json(capability.hints)),
    ):
        force_setattr(capability, name, value)
    return capability


def share_names(entry: SidecarEntry, shared: SharedValues) -> None:
    """Make the names of the entry's tools those of `shared`. Only its maker may call this, while nobody else
    has it yet."""
    for claim in entry.tools:
        force_setattr(claim, "name", shared.text(claim.name))


def with_shared_tools(entry: Json, shared: SharedValues) -> Json:
    """Return the same entry of a registry, in whose tool objects texts and schemas are those of `shared`.
    Only its maker may call this, while nobody else has it yet."""
    tools = entry.get("tools") if isinstance(entry, dict) else None
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue
        for key, value in tool.items():
            if isinstance(value, dict):
                tool[key] = shared.json(value)
            elif isinstance(value, str):
                tool[key] = shared.text(value)
    return entry
