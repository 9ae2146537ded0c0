"""Queries of one client: a viewer reads everything, an agent only what belongs to it."""

from __future__ import annotations

from inspect import isawaitable
from operator import attrgetter
from typing import Any

import anyio.to_thread
import msgspec

from flycore.catalog.document import outlined, without_rules
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask, Outcome, StandingRule
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Caller, Picture, UndoResult
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import nearest
from flycore.model.enums import PackageAction, PackageScope, RootPermission
from flycore.model.json import JsonObject, canonical_json
from flycore.model.package import PackageCheck, PackageView
from flycore.model.question import TrustItem
from flycore.rpc import flyflor
from flycore.rpc.messages import ToolSchema
from flycore.rpc.method_row import EVERYTHING, NARROWED, Method


class Queries:
    """Answers the methods of the table `rpc.methods` for one client.

    A method that is not defined here is the kernel's method of the same name. Its result is reduced to what
    `Method.agents_see` allows.
    """

    def __init__(self, kernel: Kernel, caller: Caller, *, viewer: bool, paired: bool = False) -> None:
        self._kernel = kernel
        self._caller = caller
        self._viewer = viewer
        self._paired = paired

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Return the result of that method, reduced to what this client may see."""
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

    async def catalog(self, outline: bool = False) -> Catalog:
        """Return the catalog, or its outline. An agent gets it with what its quota leaves, and without the
        policy's rules."""
        if self._viewer:
            seen = self._kernel.catalog()
        else:
            seen = without_rules(self._kernel.catalog(self._caller.key))
        return outlined(seen) if outline else seen

    async def pending_trust(self) -> tuple[TrustItem, ...]:
        """Return what waits for trust. What is trusted in other folders is no agent's business: a folder can
        claim to be of any repository."""
        items = self._kernel.pending_trust()
        if self._viewer:
            return items
        return tuple(msgspec.structs.replace(item, elsewhere=None) for item in items)

    async def activity(self) -> tuple[Activity, ...]:
        """Return the calls that this client may see, with those of earlier kernels."""
        # A new kernel reads the earlier calls in the background. A console must draw before that is done, and
        # asks again at the event `history.read`.
        if not self._paired:
            await self._kernel.call_history.ready()
        return tuple(call for call in self._kernel.activity() if self._sees(call.caller.key))

    async def one_call(self, call_id: str, event_id: str) -> tuple[Activity, ...]:
        """Return the call of that id; empty where this client sees no such call. Either name of the id may be
        empty."""
        wanted = call_id or event_id
        return tuple(call for call in await self.activity() if call.call_id == wanted)

    async def picture(self, call_id: str, index: int) -> Picture | None:
        """Return an image that a call made; None where this client may not see the call."""
        if not self._sees(self._kernel.caller_of(call_id)):
            return None
        return await self._kernel.picture(call_id, index)

    async def metrics(self) -> Metrics:
        """Return the counts of calls: of all calls for a viewer, of its own calls for an agent."""
        return await self._kernel.metrics("" if self._viewer else self._caller.key)

    async def asks(self) -> tuple[Ask, ...]:
        """Return the approval requests that this client may see, each reduced by `redacted_ask`."""
        return tuple(
            redacted_ask(ask, viewer=self._viewer, approver=self._paired)
            for ask in self._kernel.asks()
            if self._sees(ask.request.caller.key)
        )

    async def one_ask(self, request_id: str, ask_id: str) -> tuple[Ask, ...]:
        """Return the request of that id, or all where both names of the id are empty; empty where this client
        sees none."""
        wanted = request_id or ask_id
        return tuple(ask for ask in await self.asks() if wanted in ("", ask.request.id))

    async def confirms(self, limit: int) -> list[JsonObject]:
        """Return the latest requests that this client may see, as Flyflor's confirmations."""
        return flyflor.confirms(await self.asks(), limit)

    async def rules(self) -> tuple[StandingRule, ...]:
        """Return the rules of the person's own policy file; none for an agent."""
        # Each answer reads the file, which may lie on a slow disk, so the event loop must not wait for it.
        return await anyio.to_thread.run_sync(self._kernel.rules) if self._viewer else ()

    async def panic(self) -> bool:
        """Stop everything in the name of this client. Return False where everything was stopped already."""
        # Every client may stop everything. No message releases the stop: only the console does.
        return await self._kernel.panic(str(self._caller))

    async def create_tool(self, name: str, definition: JsonObject | str) -> Outcome:
        """Keep a tool that this client made for a person's review."""
        return await self._kernel.create_tool(name, definition, self._caller)

    async def answer_sampling(self, sampling_id: str, result: JsonObject | None) -> Outcome:
        """Answer what a server asked of the model of this client, during a call of its own."""
        return self._kernel.answer_sampling(sampling_id, result, self._caller)

    async def undo_call(self, call_id: str, look: bool) -> UndoResult:
        """Undo the change of a call in the name of this client, or with `look` say whether that is
        possible."""
        undo = self._kernel.undo_actions
        return await (undo.look(call_id) if look else undo.undo(call_id, str(self._caller)))

    async def packages(self) -> tuple[PackageView, ...]:
        """Return the packages; none for an agent."""
        return self._kernel.packages() if self._viewer else ()

    async def verify_packages(self) -> tuple[PackageCheck, ...]:
        """Compare the files of the packages with those that were installed."""
        return await self._kernel.verify_packages()

    async def ask_package(self, action: PackageAction, package: str, scope: PackageScope) -> Outcome:
        """Put a change of a package before a person."""
        return await self._kernel.ask_package(action, package, scope)

    async def nested_root(self, root: str) -> RootPermission:
        """Return whether programs may work on that root. Raises msgspec.ValidationError where it is none."""
        permission = await self._kernel.nested_root(root, self._caller)
        if permission is None:
            raise msgspec.ValidationError("this is not the real path of a root within this one")
        return permission

    async def tool_schema(self, tool: str) -> ToolSchema:
        """Return the schemas of one tool. Raises msgspec.ValidationError where no tool has that name."""
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
    """Return an approval request as this client may see it.

    A paired console sees all of it. Nobody else sees the letter that confirms an approval, cropped
    screenshots, or values that a mask hides. Agents, in addition, do not see which rules asked, what changed
    in the meantime, and what the kernel read from a file.
    """
    if approver:
        return ask
    request, subject = ask.request.without_crops("it is shown only in the console"), ask.request.subject
    if not viewer and subject.preview is not None and subject.preview.file:
        subject = msgspec.structs.replace(subject, preview=None)
    # `input_json` is the input with its secrets masked. Where it differs, the subject still has the secrets.
    if request.input_json != canonical_json(subject.input):
        subject = msgspec.structs.replace(subject, input=_masked_input(request.input_json))
    redacted = msgspec.structs.replace(
        request,
        letter="",  # with the letter a program could type the person's confirmation
        why=request.why if viewer else (),
        difference=request.difference if viewer else (),
        subject=subject,
    )
    return msgspec.structs.replace(ask, request=redacted)


def _masked_input(text: str) -> JsonObject:
    """Return the masked input as JSON; an empty object where masking left no valid JSON."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
