"""The authentication of a session with a person's login: tokens are sent, and refreshed by the MCP SDK.

No login begins here: a server that asks for one ends the session with the reason, and a person logs in with
`flytui upstream login`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Protocol

import anyio.to_thread
import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from flycore.model.json import JsonObject
from flycore.model.login import Login, LoginKeeper, LoginSecret

ASKS = "asks for a login (HTTP 401)"
REVOKED = "no longer takes the login: it expired or was revoked"
_REFUSALS = (400, 401, 403)
"""What a token endpoint answers where the refresh token or the client is no longer good (RFC 6749, 5.2)."""
_PAST = 1.0
"""A time of expiry that is over. The SDK takes 0 for an unknown one."""


class _Link(Protocol):
    """What the authentication needs of its transport."""

    def need_login(self, why: str) -> None:
        """End the connection, because a person has to log in first."""

    def abort(self, why: str) -> None:
        """End the connection, for this reason."""


class _Tokens:
    """The storage of one provider: reads a login, and keeps each token that the SDK gets."""

    def __init__(self, keeper: LoginKeeper, login: Login, secret: LoginSecret) -> None:
        self._keeper, self.login, self._secret = keeper, login, secret
        self.tokens = OAuthToken.model_validate(secret.tokens)
        self.client = OAuthClientInformationFull.model_validate(secret.client)

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        self._secret = msgspec.structs.replace(self._secret, tokens=plain(tokens))
        self.login = msgspec.structs.replace(self.login, expires_at=expiry_of(tokens), secret=self._secret)
        # The old refresh token may be void from here on: a cancelled call must not lose the new one.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._keeper.keep, self.login)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise NotImplementedError("a session registers no client")


class LoginAuth(httpx2.Auth):
    """Sends the tokens of the login that is kept, and none where there is none."""

    def __init__(self, url: str, keeper: LoginKeeper, link: _Link) -> None:
        self._url, self._keeper, self._link = url, keeper, link
        self._stamp: tuple[int, ...] | None = None
        self._provider: OAuthClientProvider | None = None
        self._tokens: _Tokens | None = None
        self._why = ASKS

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with a token that is valid as far as is known. One that the server does not take
        is refreshed once."""
        await self._read()
        provider, tokens = self._provider, self._tokens
        if provider is None or tokens is None:
            if (yield request).status_code == 401:
                self._link.need_login(self._why)
            return
        for is_last in (False, True):
            used = tokens.tokens
            request.headers.pop("Authorization", None)
            answer: httpx2.Response | None = None
            # The SDK's provider has a lock, which is held until this generator is closed: so it is closed
            # before the request is sent, or a slow call would hold up every other one.
            async with aclosing(provider.async_auth_flow(request)) as refresh:
                outgoing = await anext(refresh)
                while outgoing is not request:
                    answer = yield outgoing
                    outgoing = await refresh.asend(answer)
            self._stamp = self._keeper.stamp() if answer is not None else self._stamp
            if "Authorization" not in request.headers:
                await self._on_refresh_failed(tokens.login, answer)
            if (yield request).status_code != 401:
                return
            if is_last or not provider.context.can_refresh_token():
                await self._end(tokens.login)
            if tokens.tokens is used:
                provider.context.token_expiry_time = _PAST

    async def _read(self) -> None:
        """Read the login where it has changed since: a person may have logged in or out meanwhile."""
        stamp = self._keeper.stamp()
        if stamp == self._stamp:
            return
        self._provider = self._tokens = None
        try:
            login = await anyio.to_thread.run_sync(self._keeper.load)
            if login is not None and login.ended:
                self._why = login.ended
            elif login is not None and login.secret is not None:
                self._tokens = _Tokens(self._keeper, login, login.secret)
                self._provider = _provider_of(self._url, self._tokens, login, login.secret)
        except OSError as error:
            self._why = f"asks for a login, and the one that is kept cannot be read: {error}"
        except ValidationError:
            self._why = "asks for a login, and the one that is kept is damaged"
        self._stamp = stamp

    async def _on_refresh_failed(self, login: Login, answer: httpx2.Response | None) -> None:
        """End the session, and the login where the authorization server refused it."""
        if answer is None or answer.status_code in _REFUSALS:
            await self._end(login)
        code = 0 if answer is None else answer.status_code
        why = f"needs a fresh token, and its authorization server answered HTTP {code}"
        self._link.abort(why)
        raise httpx2.RequestError(why)

    async def _end(self, login: Login) -> None:
        await anyio.to_thread.run_sync(partial(self._keeper.end, login, REVOKED))
        self._link.need_login(REVOKED)
        raise httpx2.RequestError(REVOKED)


def _provider_of(url: str, tokens: _Tokens, login: Login, secret: LoginSecret) -> OAuthClientProvider:
    """The SDK's provider as it was when the person had logged in. Raises ValidationError."""
    metadata = OAuthClientMetadata(redirect_uris=tokens.client.redirect_uris or [AnyUrl("http://127.0.0.1/")])
    provider = OAuthClientProvider(url, metadata, tokens)
    context = provider.context
    # The SDK keeps none of these itself. Without them it would refresh at an address that it guesses, and
    # take an expired token for a valid one.
    context.auth_server_url = login.issuer
    context.token_expiry_time = login.expires_at
    if secret.metadata:
        context.oauth_metadata = OAuthMetadata.model_validate(secret.metadata)
    if secret.resource:
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(secret.resource)
    return provider


def expiry_of(tokens: OAuthToken) -> float | None:
    """Return when the access token expires, in Unix seconds; None where the server does not say."""
    return None if tokens.expires_in is None else time.time() + tokens.expires_in


def plain(model: BaseModel) -> JsonObject:
    """Return a value of the SDK as a JSON object."""
    dumped: JsonObject = model.model_dump(mode="json", exclude_none=True)
    return dumped
