"""Proxies: classes that implement `Client` and `Approver` by passing each method to one `perform`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from flycore.model.call import ToolResult
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.rpc.method_row import Method
from flycore.rpc.methods import Approver, Client, OnProgress, methods_of


class ClientProxy(Client):
    """A client whose methods all go through `perform`, except `call` and `events` of the subclass."""

    @abstractmethod
    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Return the result of that method of Client for these values."""


class ApproverProxy(Approver):
    """An approver whose decisions all go through `perform`."""

    @abstractmethod
    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Return the result of that method of Approver for these values."""


def _forwarding_method(method: Method) -> Callable[..., Awaitable[Any]]:
    async def forward(self: Any, *arguments: Any, **named: Any) -> Any:
        return await self.perform(method, method.bind(arguments, named))

    forward.__name__ = method.name
    return forward


# The methods are set on the proxy classes, not on instances: a subclass can still override each of them.
for _proxy, _interface, _handwritten in (
    (ClientProxy, Client, ("call", "events")),
    (ApproverProxy, Approver, ()),
):
    for _method in methods_of(_interface):
        if _method.name not in _handwritten:
            setattr(_proxy, _method.name, _forwarding_method(_method))


class ForwardingClient(ClientProxy):
    """A client that passes each call to another client, which `reach` returns."""

    @abstractmethod
    async def reach(self) -> Client:
        """Return the client that answers now. Every method raises what this raises."""

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Call the same method of the other client."""
        return await getattr(await self.reach(), method.name)(*arguments)

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        purpose: str = "",
        inline_wait_ms: int | None = None,
        observe: bool = False,
        samples: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Run a tool through the other client."""
        client = await self.reach()
        return await client.call(
            tool,
            input,
            timeout_ms=timeout_ms,
            purpose=purpose,
            inline_wait_ms=inline_wait_ms,
            observe=observe,
            samples=samples,
            on_progress=on_progress,
        )

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe through the other client."""
        async with (await self.reach()).events(classes) as stream:
            yield stream
