"""Tokens of the clients that may connect over TCP and HTTP. Only the digest of a token is stored.

The file is the only state, so that every process sees the same tokens. The process that holds the lock of
the root writes it; every process reads it again when it changed. A file that is not safe admits nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.errors import TokenRefused
from flycore.registry.paths import TOKENS_FILE
from flycore.store.json_store import Store

TCP_DOOR = "tcp"
HTTP_DOOR = "http"
MAX_BYTES = 1_048_576
MAX_TOKENS = 256
PREFIX = "flytui_"
"""The beginning of every token, by which people and scanners recognise one in a log or a repository."""
SECRET_BYTES = 32
GENERATION_DIGITS = 12
"""Hexadecimal digits of a digest that distinguish callers of one name. 48 bits are exact as a JSON number."""
MAX_PRESENTED_CHARS = 256
"""Longest text that is compared with the tokens; no token is longer."""
MADE_FOR_URL = "made for a URL"
"""The change that the audit log records for a token of a URL."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Token(Value, frozen=True, kw_only=True):
    """One client that may connect."""

    name: str
    digest: str
    """SHA-256 of the token, hexadecimal."""
    created_at: float
    """Unix time, seconds."""
    in_url: bool = False
    """Whether it comes as the query of a URL, for a client that sends no headers. Such a token opens the
    WebSocket over TCP and nothing else, and no other token is taken from a query."""

    def caller(self, door: str) -> Caller:
        """Return the caller that connects with this token through `door`."""
        # A new token under an old name must be another caller, because it must not get the leases and
        # tickets of the old one. A part of its digest takes the place of the start time of a process.
        return Caller(door=door, program=self.name, started=int(self.digest[:GENERATION_DIGITS], 16))

    @property
    def keys(self) -> tuple[str, ...]:
        """`Caller.key` of the callers with this token, over TCP and over HTTP."""
        return tuple(self.caller(door).key for door in (TCP_DOOR, HTTP_DOOR))


def new_token() -> str:
    """Return a new token with 256 random bits."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def digest_of(token: str) -> str:
    """Return the SHA-256 of a token in hexadecimal, which is what the file stores."""
    # A plain hash is enough: a token is random, so that nobody can guess it from a list of words.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _no_op() -> None:
    """Do nothing."""


class TokenStore:
    """The tokens of one app root. Only the process that holds the lock of the root may write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = Store[tuple[Token, ...]](path, tuple[Token, ...], (), MAX_BYTES, fault=_fault)

    @classmethod
    def load(cls, state_dir: Path) -> TokenStore:
        """Return the store of that state folder. Raises nothing, whatever the file contains."""
        return cls(state_dir / TOKENS_FILE)

    @property
    def problem(self) -> str:
        """Why the file is not safe to use, so that nobody is admitted; empty where it is safe."""
        self._store.refresh()
        return self._store.why_unread

    def tokens(self) -> tuple[Token, ...]:
        """Return the tokens that the file has now, oldest first."""
        self._store.refresh()
        return self._store.value

    def names(self) -> tuple[str, ...]:
        """Return the names of the tokens, oldest first."""
        return tuple(token.name for token in self.tokens())

    def new(self, name: str) -> str:
        """Make a token, store its digest and return it; it cannot be shown again.

        Raises TokenRefused, and OSError where the file cannot be written.
        """
        token = new_token()
        self.add(name, digest_of(token))
        return token

    def add(
        self, name: str, digest: str, before_write: Callable[[], None] = _no_op, *, in_url: bool = False
    ) -> Token:
        """Admit the token with that digest under that name. `in_url` marks the token of a URL.

        `noted` is called after all checks and before the file is written; an exception of it stops the
        change. Raises TokenRefused, and OSError where the file cannot be written.
        """
        tokens = self._writable()
        if not _NAME.fullmatch(name):
            raise TokenRefused(
                "the name of a token has 1 to 32 of the characters a-z 0-9 . _ - "
                "and begins with a letter or a digit"
            )
        if not _DIGEST.fullmatch(digest):
            raise TokenRefused("the digest of a token must be its SHA-256 in 64 hexadecimal digits")
        if name in {token.name for token in tokens}:
            raise TokenRefused(f"there is already a token {name}: revoke it first, or choose another name")
        if len(tokens) >= MAX_TOKENS:
            raise TokenRefused(f"there are {MAX_TOKENS} tokens already: revoke one first")
        before_write()  # the audit log first: a change that cannot be recorded is not made
        made = Token(name=name, digest=digest, created_at=time.time(), in_url=in_url)
        self._store.write((*tokens, made))
        return made

    def revoke(self, name: str, before_write: Callable[[], None] = _no_op) -> bool:
        """Remove the token of that name; return False where there is none. `noted` and errors as in `add`."""
        tokens = self._writable()
        remaining = tuple(token for token in tokens if token.name != name)
        if len(remaining) == len(tokens):
            return False
        before_write()
        self._store.write(remaining)
        return True

    def name_of(self, presented: str, *, in_url: bool = False) -> str | None:
        """Return the name of the token `presented`; None where `find` returns none."""
        found = self.find(presented, in_url=in_url)
        return None if found is None else found.name

    def find(self, presented: str, *, in_url: bool = False) -> Token | None:
        """Return the token whose secret is `presented`; None where there is none that may come in a URL, or
        otherwise in a header."""
        if len(presented) > MAX_PRESENTED_CHARS:
            return None
        digest, found = digest_of(presented), None
        # Every digest is compared in full, and the loop has no early end: the time says nothing of how
        # much of a wrong token was right.
        for token in self.tokens():
            if hmac.compare_digest(token.digest, digest) and token.in_url == in_url:
                found = token
        return found

    def _writable(self) -> tuple[Token, ...]:
        if why := self.problem:
            raise TokenRefused(f"{self.path} is not safe to use: {why}; remove it, then make new tokens")
        return self._store.value


def _fault(tokens: tuple[Token, ...]) -> str:
    """Return why these tokens cannot be used; empty if they can."""
    valid = all(_NAME.fullmatch(item.name) and _DIGEST.fullmatch(item.digest) for item in tokens)
    if not valid or len({item.name for item in tokens}) < len(tokens) or len(tokens) > MAX_TOKENS:
        return "it has a token that is not valid, one name twice, or too many tokens"
    return ""
