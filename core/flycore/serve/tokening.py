"""Making and taking away tokens in a kernel that runs: it holds the root's lock, so it writes the book."""

from __future__ import annotations

import msgspec

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Outcome
from flycore.model.call import Caller
from flycore.model.errors import AuditUnwritable, TokenRefused
from flycore.model.json import JsonObject
from flycore.serve import messages as m
from flycore.serve.tokens import TokenBook

MESSAGES = ("token.add", "token.revoke")


def change_tokens(kernel: Kernel, kind: str, payload: JsonObject, caller: Caller) -> Outcome:
    """Do what the message says, on behalf of `caller`, whom log and console name. Raises ValidationError."""
    book, by = TokenBook.load(kernel.state_dir), f"flytui token, {caller}"
    try:
        if kind == "token.add":
            wanted = msgspec.convert(payload, m.TokenAdd)
            book.add(wanted.name, wanted.digest, noted=lambda: kernel.token_changed(wanted.name, "made", by))
            return Outcome(accepted=True)
        name = msgspec.convert(payload, m.TokenRevoke).name
        if not book.revoke(name, noted=lambda: kernel.token_changed(name, "revoked", by)):
            return Outcome(accepted=False, why_not=f"there is no token {name[:40]}")
    except (TokenRefused, AuditUnwritable) as refused:
        return Outcome(accepted=False, why_not=str(refused))
    except OSError as error:
        return Outcome(accepted=False, why_not=f"the tokens could not be written: {error.strerror or error}")
    return Outcome(accepted=True)
