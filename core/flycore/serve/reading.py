"""What a connection may read of the kernel, message by message; an agent sees only what is its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import msgspec

from flycore.kernel.kernel import Kernel
from flycore.model.call import Caller
from flycore.model.json import JsonObject
from flycore.model.suggest import nearest
from flycore.serve import messages as m

Answer = tuple[str, JsonObject]
"""Type and payload."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who asks."""

    caller: Caller
    viewer: bool

    def sees(self, caller: Caller) -> bool:
        """Whether what that caller does is for this peer to see: a viewer sees all, an agent its own."""
        return self.viewer or caller.key == self.caller.key


Read = Callable[[Kernel, Reader], Awaitable[Answer]]


def _answer(kind: str, **payload: object) -> Answer:
    return kind, msgspec.to_builtins(payload)


async def _history(kernel: Kernel, reader: Reader) -> Answer:
    await kernel.past.ready()
    return _answer("history.snapshot", calls=[call for call in kernel.activity() if reader.sees(call.caller)])


async def _metrics(kernel: Kernel, reader: Reader) -> Answer:
    metrics = await kernel.metrics("" if reader.viewer else reader.caller.key)
    return _answer("tool.metrics.snapshot", metrics=metrics)


async def _leases(kernel: Kernel, reader: Reader) -> Answer:
    return _answer("lease.snapshot", leases=[one for one in kernel.leases() if reader.sees(one.caller)])


async def _blocks(kernel: Kernel, _: Reader) -> Answer:
    return _answer("block.snapshot", blocks=kernel.blocks())


async def _rules(kernel: Kernel, reader: Reader) -> Answer:
    rules = await anyio.to_thread.run_sync(kernel.rules) if reader.viewer else ()
    return _answer("rule.snapshot", rules=rules)


async def _trust(kernel: Kernel, _: Reader) -> Answer:
    return _answer("trust.snapshot", items=kernel.pending_trust())


async def _questions(kernel: Kernel, reader: Reader) -> Answer:
    asked = [item for item in kernel.questions() if reader.viewer or item.about == reader.caller.key]
    return _answer("question.snapshot", questions=asked)


async def _doctor(kernel: Kernel, _: Reader) -> Answer:
    return _answer("doctor.snapshot", checks=await kernel.checks())


async def _one_call(kernel: Kernel, reader: Reader, wanted: Any) -> Answer:
    await kernel.past.ready()
    found = (call for call in kernel.activity() if call.call_id == wanted.call_id)
    return _answer("history.snapshot", calls=[call for call in found if reader.sees(call.caller)])


async def _schema(kernel: Kernel, _: Reader, wanted: Any) -> Answer:
    catalog = kernel.catalog()
    view = catalog.capability(wanted.tool)
    if view is None:
        near = nearest(wanted.tool, tuple(view.capability.name for view in catalog.capabilities))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise msgspec.ValidationError(f"no tool is named {wanted.tool[:200]}{hint}")
    tool = view.capability
    return _answer(
        "tool.schema.snapshot",
        tool=tool.name,
        description=tool.description,
        inputSchema=tool.input_schema,
        outputSchema=tool.output_schema,
        examples=tool.examples,
    )


READS: Mapping[str, Read] = {
    "history.list": _history,
    "tool.metrics.get": _metrics,
    "lease.list": _leases,
    "block.list": _blocks,
    "rule.list": _rules,
    "trust.list": _trust,
    "question.list": _questions,
    "doctor.get": _doctor,
}
"""By the message that asks; none has a payload."""


@dataclass(frozen=True, slots=True)
class Detail:
    """A message that reads one thing: its payload's shape, and who answers with that payload. What is not
    there raises msgspec.ValidationError, or is an empty list."""

    shape: type[msgspec.Struct]
    read: Callable[[Kernel, Reader, Any], Awaitable[Answer]]


DETAILS: Mapping[str, Detail] = {
    "history.detail.get": Detail(m.CallGet, _one_call),
    "tool.schema.get": Detail(m.SchemaGet, _schema),
}
"""By the message that asks."""
FOR_VIEWERS: Mapping[str, str] = {"doctor.get": "only a viewer is told how the root is"}
"""What no agent may read, and what it is told instead."""
