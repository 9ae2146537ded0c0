"""Clients that are started again: an agent that ends, and is started anew in the same root, may take the
answer that a person gave to its call meanwhile.

Only agents that flytui knows are clients in this sense, recognised by the path of their executable and by
their name. The answer is for the very same call, of the same root: everything but the process has to agree,
and the process that asked must have exited. Two processes that both run never share an answer.
"""

from __future__ import annotations

import msgspec

from flycore.approval.caller_names import known_agents
from flycore.approval.waiters import DedupKey
from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.caller import Caller
from flycore.model.large_values import is_large


def client_of(caller: Caller) -> str:
    """Return the client that the caller is, whatever its process; empty where it is none that may come back
    as another one."""
    known = caller.pid and caller.executable and caller.is_program
    if not known or caller.name not in {agent.name for agent in known_agents()}:
        return ""
    return f"{caller.door}:{caller.executable}:{caller.name}"


def return_key(request: ApprovalRequest) -> DedupKey | None:
    """Return what the call has in common with the same call of the client when it is started again; None
    where it could not come back."""
    client = client_of(request.caller)
    # A large input takes long to digest, and this runs on the event loop.
    if not client or is_large(request.subject.input):
        return None
    return msgspec.structs.replace(request.subject, caller=client).digest(), request.risk.value


def rebound(ask: Ask, request: ApprovalRequest) -> Ask:
    """Return the ask as one of the caller of `request`, which is the client that was started again."""
    subject = msgspec.structs.replace(ask.request.subject, caller=request.caller.key)
    same = msgspec.structs.replace(
        ask.request,
        caller=request.caller,
        call_id=request.call_id,
        subject=subject,
        subject_digest=subject.digest(),
    )
    return msgspec.structs.replace(ask, request=same)
