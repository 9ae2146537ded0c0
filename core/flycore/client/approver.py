"""The approver of a console in another process: the same interface, over a paired connection."""

from __future__ import annotations

from typing import Any

import msgspec

from flycore.client.socket import RemoteClient
from flycore.model.approval import Outcome
from flycore.model.errors import ConnectionLost, ProtocolError
from flycore.rpc.methods import Method
from flycore.rpc.proxies import ApproverProxy

CONNECTION_LOST = "the connection to the kernel was lost before it answered"


class RemoteApprover(ApproverProxy):
    """Sends each decision to the kernel. Where the kernel is gone nothing counts, and the outcome says so.

    The kernel was told where the person sits when the code was asked for, and frees that with the connection.
    """

    def __init__(self, client: RemoteClient) -> None:
        self._client = client

    async def perform(self, method: Method, arguments: tuple[Any, ...]) -> Any:
        """Send the decision and give what became of it."""
        outcome = await self._outcome(method, arguments)
        return outcome.accepted if method.result is bool else outcome

    async def _outcome(self, method: Method, arguments: tuple[Any, ...]) -> Outcome:
        try:
            payload = await self._client.ask_for(method.message, method.payload_of(arguments))
        except ConnectionLost:
            return Outcome(accepted=False, why_not=CONNECTION_LOST)
        except ProtocolError as error:
            return Outcome(accepted=False, why_not=error.said or str(error))
        return msgspec.convert(payload[method.key], Outcome)
