"""Tokens: who may come in over TCP and HTTP, and under which name. A token itself is kept nowhere.

The file is the truth, so that whoever reads the book reads the same: the holder of the root's lock writes it,
and it is looked at again whenever it is another. A file that cannot be relied on admits nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.errors import TokenRefused
from flycore.model.json import canonical_json
from flycore.registry.paths import TOKENS_FILE
from flysafe.atomic import private_folder, write_atomic

TCP_DOOR = "tcp"
HTTP_DOOR = "http"
MAX_BYTES = 1_048_576
MAX_TOKENS = 256
PREFIX = "flytui_"
"""What every token begins with, so that one in a log or a repository is known for what it is."""
SECRET_BYTES = 32
GENERATION_DIGITS = 12
"""Hexadecimal digits of a digest by which callers of one name are told apart; as a number it is exact in
JSON."""
MAX_PRESENTED_CHARS = 256
"""Characters of what somebody presents; a longer one is none of ours."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Token(Value, frozen=True, kw_only=True):
    """One client that may come in."""

    name: str
    digest: str
    """SHA-256 of the token, hexadecimal."""
    created_at: float
    """Unix time, seconds."""

    def caller(self, door: str) -> Caller:
        """Who calls with it. A token made anew under an old name is another caller: what the old one left
        behind, a lease or a ticket, is not its. So a piece of its digest stands for when it began."""
        return Caller(door=door, program=self.name, started=int(self.digest[:GENERATION_DIGITS], 16))

    @property
    def keys(self) -> tuple[str, ...]:
        """`Caller.key` of whoever comes with it, through any door."""
        return tuple(self.caller(door).key for door in (TCP_DOOR, HTTP_DOOR))


def new_token() -> str:
    """A new token: 256 random bits."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def digest_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _no_op() -> None:
    """Nobody has to be told."""


class TokenStore:
    """The tokens of one app root. Only the holder of the root's lock writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None
        self._tokens: tuple[Token, ...] = ()
        self._problem = ""

    @classmethod
    def load(cls, state_dir: Path) -> TokenStore:
        """The book of that root. Never raises for what is there."""
        return cls(state_dir / TOKENS_FILE)

    @property
    def problem(self) -> str:
        """Why the file cannot be relied on, and so nobody is admitted; empty where it can."""
        self._reload()
        return self._problem

    def tokens(self) -> tuple[Token, ...]:
        """Every token as the file has them now, oldest first."""
        self._reload()
        return self._tokens

    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(token.name for token in self.tokens())

    def new(self, name: str) -> str:
        """Make a token and give it; nobody can be shown it again. Raises TokenRefused, OSError."""
        token = new_token()
        self.add(name, digest_of(token))
        return token

    def add(self, name: str, digest: str, noted: Callable[[], None] = _no_op) -> Token:
        """Admit the token of that digest under that name; `noted` is called when nothing stands against it,
        and what it raises stops it. Raises TokenRefused, OSError."""
        tokens = self._writable()
        if not _NAME.fullmatch(name):
            raise TokenRefused(
                "a token's name is 1 to 32 of a-z 0-9 . _ - and begins with a letter or a digit"
            )
        if not _DIGEST.fullmatch(digest):
            raise TokenRefused("a token is told by its SHA-256 in 64 hexadecimal digits")
        if name in {token.name for token in tokens}:
            raise TokenRefused(f"there is a token {name} already: revoke it first, or choose another name")
        if len(tokens) >= MAX_TOKENS:
            raise TokenRefused(f"there are {MAX_TOKENS} tokens: revoke one first")
        noted()
        made = Token(name=name, digest=digest, created_at=time.time())
        self._write((*tokens, made))
        return made

    def revoke(self, name: str, noted: Callable[[], None] = _no_op) -> bool:
        """Admit it no longer; False where there is none of that name. `noted` and errors as for `add`."""
        tokens = self._writable()
        left = tuple(token for token in tokens if token.name != name)
        if len(left) == len(tokens):
            return False
        noted()
        self._write(left)
        return True

    def name_of(self, presented: str) -> str | None:
        """Name of the token that was presented; None for anything else."""
        found = self.find(presented)
        return None if found is None else found.name

    def find(self, presented: str) -> Token | None:
        """The token that was presented. Takes as long for any wrong one."""
        if len(presented) > MAX_PRESENTED_CHARS:
            return None
        digest, found = digest_of(presented), None
        for token in self.tokens():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def _writable(self) -> tuple[Token, ...]:
        tokens = self.tokens()
        if self._problem:
            raise TokenRefused(
                f"{self.path} cannot be relied on: {self._problem}; remove it, then make new tokens"
            )
        return tokens

    def _write(self, tokens: tuple[Token, ...]) -> None:
        private_folder(self.path.parent)
        kept = [msgspec.to_builtins(token) for token in tokens]
        write_atomic(self.path, canonical_json(kept).encode("ascii") + b"\n")

    def _reload(self) -> None:
        """Read the file again where it is another than the one read last."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            self._seen, self._tokens, self._problem = None, (), ""
            return
        except OSError as error:
            self._seen, self._tokens, self._problem = None, (), error.strerror or str(error)
            return
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            seen = (facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size)
            if seen == self._seen:
                return
            self._problem = _file_problem(facts)
            data = b"" if self._problem else file.read(MAX_BYTES)
        self._seen, self._tokens = seen, ()
        if not self._problem:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        try:
            found = msgspec.json.decode(data, type=tuple[Token, ...])
        except (msgspec.DecodeError, UnicodeError):
            self._problem = "it is not a list of tokens"
            return
        wrong = [
            item for item in found if not (_NAME.fullmatch(item.name) and _DIGEST.fullmatch(item.digest))
        ]
        if wrong or len({item.name for item in found}) < len(found) or len(found) > MAX_TOKENS:
            self._problem = "it has a token that is none, twice, or too many"
            return
        self._tokens = found


def _file_problem(facts: os.stat_result) -> str:
    if not stat.S_ISREG(facts.st_mode):
        return "it is no file"
    if facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write it"
    return "it is too large" if facts.st_size > MAX_BYTES else ""
