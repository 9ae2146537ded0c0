"""What one client reads of the kernel: a viewer everything, an agent only what is its own."""

from __future__ import annotations

from inspect import isawaitable
from operator import attrgetter
from typing import Any

import anyio.to_thread
import msgspec

from flycore.catalog.document import without_rules
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask, StandingRule
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Caller
from flycore.model.catalog import Catalog
from flycore.model.json import JsonObject, canonical_json
from flycore.model.picture import Picture
from flycore.model.suggest import nearest
from flycore.rpc.messages import ToolSchema
from flycore.rpc.methods import EVERYTHING, NARROWED, Method


class Queries:
    """Answers the methods of the table for one client. A method that is not defined here is the kernel's own
    of the same name, its result narrowed as its row says."""

    def __init__(self, kernel: Kernel, caller: Caller, *, viewer: bool, paired: bool = False) -> None:
        self._kernel = kernel
        self._caller = caller
        self._viewer = viewer
        self._paired = paired

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Give the result of that method, as far as this client may see it."""
        if method.agents_see == NARROWED:
            return await getattr(self, method.name)(*arguments)
        result = getattr(self._kernel, method.name)(*arguments)
        if isawaitable(result):
            result = await result
        if self._viewer or method.agents_see == EVERYTHING:
            return result
        key_of = attrgetter(method.agents_see)
        return tuple(item for item in result if key_of(item) == self._caller.key)

    def _sees(self, caller_key: str) -> bool:
        return self._viewer or caller_key == self._caller.key

    async def catalog(self) -> Catalog:
        """Give the catalog; for an agent with what its quota leaves, and without the policy's rules."""
        if self._viewer:
            return self._kernel.catalog()
        return without_rules(self._kernel.catalog(self._caller.key))

    async def activity(self) -> tuple[Activity, ...]:
        """List calls, those of earlier kernels too, for which this waits until they have been read."""
        await self._kernel.past.ready()
        return tuple(call for call in self._kernel.activity() if self._sees(call.caller.key))

    async def one_call(self, call_id: str) -> tuple[Activity, ...]:
        """Give the call of that id; nothing where there is none to be seen."""
        return tuple(call for call in await self.activity() if call.call_id == call_id)

    async def picture(self, call_id: str, index: int) -> Picture | None:
        """Give an image that a call made, one's own for an agent."""
        if not self._sees(self._kernel.caller_of(call_id)):
            return None
        return await self._kernel.picture(call_id, index)

    async def metrics(self) -> Metrics:
        """Count calls: for an agent its own."""
        return await self._kernel.metrics("" if self._viewer else self._caller.key)

    async def asks(self) -> tuple[Ask, ...]:
        """List approval requests, each without what this client may not see of it."""
        return tuple(
            redacted_ask(ask, viewer=self._viewer, approver=self._paired)
            for ask in self._kernel.asks()
            if self._sees(ask.request.caller.key)
        )

    async def one_ask(self, request_id: str) -> tuple[Ask, ...]:
        """Give the request of that id, all for an empty one; nothing where there is none to be seen."""
        return tuple(ask for ask in await self.asks() if request_id in ("", ask.request.id))

    async def rules(self) -> tuple[StandingRule, ...]:
        """List the rules of the person's own policy file; none for an agent."""
        # The file is read for each answer, and it may lie on a slow disk.
        return await anyio.to_thread.run_sync(self._kernel.rules) if self._viewer else ()

    async def panic(self) -> bool:
        """Stop everything in this client's name. Everybody may; nothing over a connection releases it."""
        return await self._kernel.panic(str(self._caller))

    async def tool_schema(self, tool: str) -> ToolSchema:
        """Describe one tool. Raises msgspec.ValidationError where none has that name."""
        catalog = self._kernel.catalog()
        view = catalog.capability(tool)
        if view is None:
            near = nearest(tool, tuple(view.capability.name for view in catalog.capabilities))
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise msgspec.ValidationError(f"no tool is named {tool[:200]}{hint}")
        found = view.capability
        return ToolSchema(
            tool=found.name,
            description=found.description,
            input_schema=found.input_schema,
            output_schema=found.output_schema,
            examples=found.examples,
        )


def redacted_ask(ask: Ask, *, viewer: bool, approver: bool = False) -> Ask:
    """An ask as a paired console sees it, which is all of it, or as other programs may: the confirming
    letter and what a mask hides are for the person's eyes alone, and which rules asked, what changed
    meanwhile, and what the kernel read of a file, is not for agents."""
    if approver:
        return ask
    asked, subject = ask.request.without_crops("it is shown in the console alone"), ask.request.subject
    if not viewer and subject.preview is not None and subject.preview.file:
        subject = msgspec.structs.replace(subject, preview=None)
    if asked.input_json != canonical_json(subject.input):
        subject = msgspec.structs.replace(subject, input=_masked_input(asked.input_json))
    request = msgspec.structs.replace(
        asked,
        letter="",
        why=asked.why if viewer else (),
        difference=asked.difference if viewer else (),
        subject=subject,
    )
    return msgspec.structs.replace(ask, request=request)


def _masked_input(text: str) -> JsonObject:
    """The input as its card spells it; nothing where masking left no JSON."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
