"""What a connection may read of the kernel, message by message; an agent sees only what is its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import anyio.to_thread
import msgspec

from flycore.kernel.kernel import Kernel
from flycore.model.call import Caller
from flycore.model.canonical import JsonObject

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
FOR_VIEWERS: Mapping[str, str] = {"doctor.get": "only a viewer is told how the root is"}
"""What no agent may read, and what it is told instead."""
