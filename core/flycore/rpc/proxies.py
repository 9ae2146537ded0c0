"""Classes that implement `Client` and `Approver` from the table: each method is handed to one `perform`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from flycore.model.approval import Outcome
from flycore.model.call import ToolResult
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.rpc.methods import Approver, Client, Method, OnProgress, methods_of

NOT_YET = "the kernel is still being opened"


class ClientProxy(Client):
    """A client whose reads all go through `perform`. `call` and `events` are for the subclass."""

    @abstractmethod
    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Give the result of that method of Client, called with these values."""


class ApproverProxy(Approver):
    """An approver whose decisions all go through `perform`, and which no person sits at directly."""

    @abstractmethod
    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Give the result of that method of Approver, called with these values."""

    def attach(self, window_ids: tuple[int, ...], pids: tuple[int, ...]) -> None:
        """Do nothing."""

    def detach(self) -> None:
        """Do nothing."""


def _forwarding_method(method: Method) -> Callable[..., Awaitable[Any]]:
    async def forward(self: Any, *arguments: Any, **named: Any) -> Any:
        return await self.perform(method, method.bind(arguments, named))

    forward.__name__ = method.name
    return forward


for _proxy, _interface, _by_hand in (
    (ClientProxy, Client, ("call", "events")),
    (ApproverProxy, Approver, ()),
):
    for _method in methods_of(_interface):
        if _method.name not in _by_hand:
            setattr(_proxy, _method.name, _forwarding_method(_method))


class ForwardingClient(ClientProxy):
    """A client that hands everything on to another one, which it finds anew each time."""

    @abstractmethod
    async def reach(self) -> Client:
        """Give the client that answers now; what this raises, every method raises."""

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Call the same method of the client that answers now."""
        return await getattr(await self.reach(), method.name)(*arguments)

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        said: str = "",
        inline_wait_ms: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Call through the client that answers now."""
        client = await self.reach()
        return await client.call(
            tool,
            input,
            timeout_ms=timeout_ms,
            said=said,
            inline_wait_ms=inline_wait_ms,
            on_progress=on_progress,
        )

    @asynccontextmanager
    async def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe at the client that answers now."""
        async with (await self.reach()).events(classes) as stream:
            yield stream


class DeferredClient(ForwardingClient):
    """The client of a kernel that is still being opened: whoever asks waits until it is there."""

    def __init__(self) -> None:
        self._opened = anyio.Event()
        self._client: Client

    def set_client(self, client: Client) -> None:
        """Answer whatever waits, and whatever is asked from now on, through `client`."""
        self._client = client
        self._opened.set()

    async def reach(self) -> Client:
        """Wait for the kernel's client, for as long as it takes."""
        await self._opened.wait()
        return self._client


class UnavailableApprover(ApproverProxy):
    """The approver of a kernel that is not there: it refuses, and nothing is kept for later."""

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Refuse."""
        return False if method.result is bool else Outcome(accepted=False, why_not=NOT_YET)
