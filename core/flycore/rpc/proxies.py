"""Proxies: classes that implement `Client` and `Approver` by passing each method to one `perform`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from flycore.rpc.method_row import Method
from flycore.rpc.methods import Approver, Client, methods_of


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
