"""The end of a login in the browser: a listener on this machine, to which the authorization server sends the
browser back with a code.

Every program of this machine can reach the port. What counts is the state, 256 random bits that only the
browser and the authorization server got: a request with another one is refused, and the wait goes on. Exactly
one request is accepted.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import msgspec

from flycore.model.login import LoginFailed
from flysafe.text import strict_text

PATH = "/callback"
HEAD_BYTES = 16_384
HEAD_S = 10.0
"""How long a connection may take for its request."""
AT_ONCE = 16
"""Connections at a time; others wait."""
_REQUEST = re.compile(rb"GET (/[!-~]*) HTTP/1\.[01]\r\n")
_LONGEST_WORDS = 200
_DONE = (200, "You are logged in. You can close this page and go back to flytui.")
_REFUSED = (200, "The login was refused. You can close this page and go back to flytui.")
_STRANGE = (403, "This page does not belong to the login that flytui waits for.")
_LATE = (410, "This login has ended already.")
_UNKNOWN = (404, "There is no such page.")


class Redirect(msgspec.Struct, frozen=True):
    """What the authorization server sent the browser back with."""

    code: str
    state: str
    issuer: str | None


class RedirectListener:
    """Waits for the redirect. `expect` comes first: until then every request is refused."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}{PATH}"
        self._state = ""
        self._answer: Redirect | LoginFailed | None = None
        self._answered = anyio.Event()

    def expect(self, state: str) -> None:
        """Wait for a redirect with this state from here on."""
        self._state = state

    async def wait(self) -> Redirect:
        """Return the redirect with the right state. Raises LoginFailed where the authorization server
        refused."""
        await self._answered.wait()
        if isinstance(self._answer, Redirect):
            return self._answer
        raise self._answer or LoginFailed("the login has ended")

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        """Answer one connection."""
        async with stream:
            target = b""
            try:
                with anyio.fail_after(HEAD_S):
                    head = await _read_head(stream)
                found = _REQUEST.match(head)
                target = found[1] if found else b""
                status, words = self._judge(target.decode("ascii"))
                await stream.send(_page(status, words))
            except (TimeoutError, anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
                return

    def _judge(self, target: str) -> tuple[int, str]:
        """Decide about a request, and return the status and the words of its answer."""
        parts = urlsplit(target)
        if parts.path != PATH:
            return _UNKNOWN
        try:
            query = parse_qs(parts.query, keep_blank_values=True, max_num_fields=32)
        except ValueError:
            return _STRANGE
        state, codes, errors = query.get("state", []), query.get("code", []), query.get("error", [])
        is_ours = bool(self._state) and len(state) == 1
        if not is_ours or not secrets.compare_digest(state[0].encode(), self._state.encode()):
            return _STRANGE
        if self._answer is not None:
            return _LATE
        if errors:
            words = strict_text(" ".join((*errors, *query.get("error_description", []))))[:_LONGEST_WORDS]
            self._settle(LoginFailed(f"the authorization server refused: {words}"))
            return _REFUSED
        if len(codes) != 1 or not codes[0]:
            return _STRANGE
        self._settle(Redirect(codes[0], state[0], query.get("iss", [None])[0]))
        return _DONE

    def _settle(self, answer: Redirect | LoginFailed) -> None:
        self._answer = answer
        self._answered.set()


@asynccontextmanager
async def listen_for_redirect() -> AsyncIterator[RedirectListener]:
    """A listener at a free port of 127.0.0.1, while the block runs."""
    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with tcp, anyio.create_task_group() as group:
        port = tcp.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - no query of Django
        listener = RedirectListener(port)
        limit = anyio.Semaphore(AT_ONCE)

        async def serve(stream: anyio.abc.SocketStream) -> None:
            async with limit:
                await listener.serve(stream)

        group.start_soon(tcp.serve, serve)
        yield listener
        group.cancel_scope.cancel()


async def _read_head(stream: anyio.abc.ByteStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES:
        head += await stream.receive()
    return head


def _page(status: int, words: str) -> bytes:
    # Nothing of the request is repeated on the page, and nothing of it is kept by the browser.
    body = f"<!doctype html><meta charset=utf-8><title>flytui</title><p>{words}</p>\n".encode()
    head = (
        f"HTTP/1.1 {status} flytui\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
