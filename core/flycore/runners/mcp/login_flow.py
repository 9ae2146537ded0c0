"""The login of a person at an MCP server over HTTP: OAuth 2.1 as the MCP specification has it.

Discovery, dynamic registration, PKCE, the resource indicator and the exchange of the code are the MCP SDK's.
Its requests go through the same checked connections as those of a session.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp_types.version import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl

import flycore
from flycore.model.login import Login, LoginFailed, LoginSecret
from flycore.registry.mcp_checks import is_loopback_host
from flycore.runners.mcp.connection_state import ITSELF
from flycore.runners.mcp.http import HttpTransport
from flycore.runners.mcp.login_auth import expiry_of, plain
from flycore.runners.mcp.login_redirect import RedirectListener, listen_for_redirect
from flysafe.text import strict_text

LOGIN_S = 600.0
"""How long a person may take in the browser."""
MOST_BYTES = 1_048_576
"""The longest answer of a server in a login."""
_LONGEST = 300
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": LATEST_PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": ITSELF, "version": flycore.__version__},
    },
}
_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": LATEST_PROTOCOL_VERSION,
}

ShowAddress = Callable[[str], Awaitable[None]]
"""Shows the person the address at which to log in, or opens it."""


class _NewLogin:
    """What the SDK gets in one login. It is kept only when the server has taken the token."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def log_in(url: str, headers: dict[str, str], show: ShowAddress) -> Login:
    """Log the person in at the server, and return the login. Raises LoginFailed."""
    # The SDK logs the errors of a flow, with answers of the server in them.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    link = HttpTransport(url, headers, MOST_BYTES)
    kept = _NewLogin()
    try:
        async with listen_for_redirect() as listener:
            # A client is registered for each login: the port differs each time, many authorization servers
            # compare it, and one that has forgotten an earlier registration would only show an error page.
            provider = _provider(url, kept, listener, show)
            async with link.open_client(provider) as client:
                status = await _greet(client, url)
    except ExceptionGroup as failed:  # the task group of the listener raises nothing else
        raise _failure(failed, link) from None
    return _login_of(url, provider, kept, status)


async def _greet(client: httpx2.AsyncClient, url: str) -> int:
    """Send a first request, which the login is part of, and return the status of its answer."""
    request = client.build_request("POST", url, headers=_HEADERS, content=json.dumps(_HELLO))
    response = await client.send(request, stream=True)
    await response.aclose()
    session = response.headers.get("mcp-session-id")
    if session:
        # A server keeps a session until its end is told. Some refuse that, and nothing depends on it.
        ended = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LATEST_PROTOCOL_VERSION}
        await client.delete(url, headers=ended)
    return response.status_code


def _provider(
    url: str, kept: _NewLogin, listener: RedirectListener, show: ShowAddress
) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        client_name=ITSELF,
        redirect_uris=[AnyUrl(listener.address)],
        token_endpoint_auth_method="none",  # noqa: S106 - a public client, which has no secret
    )

    async def on_address(address: str) -> None:
        described = provider.context.oauth_metadata
        methods = None if described is None else described.code_challenge_methods_supported
        # The MCP specification has a client refuse a server that does not say that it checks PKCE.
        if described is not None and "S256" not in (methods or ()):
            raise LoginFailed("the authorization server does not offer PKCE with S256")
        _check_address(address)
        listener.expect(parse_qs(urlsplit(address).query)["state"][0])
        await show(address)

    async def on_redirect() -> AuthorizationCodeResult:
        with anyio.fail_after(LOGIN_S):
            redirect = await listener.wait()
        return AuthorizationCodeResult(code=redirect.code, state=redirect.state, iss=redirect.issuer)

    provider = OAuthClientProvider(url, metadata, kept, on_address, on_redirect)
    return provider


def _check_address(address: str) -> None:
    """Raise LoginFailed for an address that no person should be sent to."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback_host(host)):
        raise LoginFailed("the page at which to log in is not https")
    if not address.isascii() or not address.isprintable() or "@" in parts.netloc:
        raise LoginFailed("the page at which to log in has an address that may deceive")


def _login_of(url: str, provider: OAuthClientProvider, kept: _NewLogin, status: int) -> Login:
    """The login that the SDK has made. Raises LoginFailed where there is none, or the server does not take
    its token."""
    if kept.tokens is None or kept.client is None:
        if 200 <= status < 300:
            raise LoginFailed("the server asks for no login")
        raise LoginFailed(f"the server answered HTTP {status}, and asked for no login")
    if status in (401, 403):
        raise LoginFailed(
            f"the server does not take the token that its authorization server issued (HTTP {status}): "
            "it may be meant for another server"
        )
    context = provider.context
    described, resource = context.oauth_metadata, context.protected_resource_metadata
    issuer = context.auth_server_url or (url if described is None else str(described.issuer))
    return Login(
        server=url,
        issuer=strict_text(issuer)[:_LONGEST],
        at=time.time(),
        expires_at=expiry_of(kept.tokens),
        scope=strict_text(kept.tokens.scope or "")[:_LONGEST],
        secret=LoginSecret(
            tokens=plain(kept.tokens),
            client=plain(kept.client),
            metadata={} if described is None else plain(described),
            resource={} if resource is None else plain(resource),
        ),
    )


def _failure(failed: ExceptionGroup, link: HttpTransport) -> Exception:
    """The reason of a failed login; the error itself where it is none of a login."""
    leaf: BaseException = failed
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    words = strict_text(str(leaf).split("\n", 1)[0])[:_LONGEST] or type(leaf).__name__
    match leaf:
        case LoginFailed():
            return leaf
        case OAuthTokenError() | OAuthRegistrationError():
            return LoginFailed(f"the authorization server refused: {_error_code(str(leaf)) or words}")
        case OAuthFlowError():
            return LoginFailed(words)
        case httpx2.HTTPError():
            return LoginFailed(f"the server or its authorization server {link.last_failure or words}")
        case TimeoutError():
            return LoginFailed(f"nobody logged in within {LOGIN_S / 60:g} minutes")
        case _:
            return failed


def _error_code(text: str) -> str:
    """The error that the answer in the SDK's message names; empty where it has none."""
    start = text.find("{")
    try:
        answer = msgspec.json.decode(text[start:]) if start >= 0 else {}
    except msgspec.DecodeError:
        return ""
    named = [answer.get(key) for key in ("error", "error_description")] if isinstance(answer, dict) else []
    return strict_text(": ".join(word for word in named if isinstance(word, str)))[:_LONGEST]
