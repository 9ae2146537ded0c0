"""The login at a server over HTTP: a real authorization server, and what strangers can do meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
import pytest

from flycore.model.login import Login, LoginFailed
from flycore.runners.mcp import login_flow
from flycore.runners.mcp.login_flow import log_in
from kits.kernel import PATIENCE
from kits.oauth_servers import OAuthServers, authorized_redirect, browse, callback_of, oauth_servers

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for the whole module, which the servers need."""
    return "asyncio"


@pytest.fixture(scope="module")
async def running(anyio_backend: str) -> AsyncIterator[OAuthServers]:
    """The servers, for all tests."""
    async with oauth_servers() as servers:
        yield servers


@pytest.fixture
async def servers(running: OAuthServers) -> OAuthServers:
    """The servers as they behave by default."""
    plain = {"lifetime": 3600, "audience": "", "pkce": ["S256"], "refuse": "", "token_status": 0}
    own = {"issuer": running.issuer, "resource": running.url, "as": running.issuer}
    await running.steer(how={**plain, **own})
    return running


async def login(servers: OAuthServers, act: Callable[[str], Awaitable[Any]] = browse) -> Login:
    """Log in, with `act` in the part of the person's browser."""
    async with anyio.create_task_group() as group:

        async def show(address: str) -> None:
            group.start_soon(act, address)

        with anyio.fail_after(PATIENCE):
            return await log_in(servers.url, {}, show)
    raise AssertionError


async def refused(servers: OAuthServers, act: Callable[[str], Awaitable[Any]] = browse) -> str:
    """The reason of a login that fails."""
    with pytest.RaisesGroup(LoginFailed) as failed:
        await login(servers, act)
    return str(failed.value.exceptions[0])


async def test_a_login_has_pkce_the_resource_and_a_fresh_registration(servers: OAuthServers) -> None:
    made = await login(servers)
    asked = await servers.steer()
    latest = dict(asked["log"])
    assert made.server == servers.url
    assert made.issuer.rstrip("/") == servers.issuer
    assert made.expires_at is not None
    assert made.secret is not None
    assert made.secret.tokens["access_token"] in asked["access"]
    assert latest["authorize"]["code_challenge_method"] == "S256"
    assert latest["authorize"]["resource"] == latest["token"]["resource"] == servers.url
    assert latest["register"]["redirect_uris"] == [latest["authorize"]["redirect_uri"]]
    assert len(latest["authorize"]["state"]) >= 43
    for token in made.secret.values().values():
        assert token not in repr(made)


async def test_a_stranger_who_posts_a_code_is_refused_and_the_login_goes_on(servers: OAuthServers) -> None:
    answers: list[int] = []

    async def act(address: str) -> None:
        location = await authorized_redirect(address)
        callback, real = callback_of(location), parse_qs(urlsplit(location).query)
        async with httpx2.AsyncClient(trust_env=False) as client:
            queries = (
                urlencode({"code": "theirs", "state": "guessed"}),
                urlencode({"code": "theirs"}),
                urlencode({"error": "access_denied", "state": "guessed"}),
                urlencode({"state": real["state"][0]}),
                urlencode([("code", "theirs"), ("state", "guessed"), ("state", real["state"][0])]),
            )
            answers.extend([(await client.get(f"{callback}?{query}")).status_code for query in queries])
            answers.append((await client.post(location)).status_code)
            answers.append((await client.get(callback.replace("/callback", "/"))).status_code)
            answers.append((await client.get(location)).status_code)

    made = await login(servers, act)
    assert answers == [403, 403, 403, 403, 403, 404, 404, 200]
    assert made.secret is not None


async def test_a_redirect_that_is_replayed_is_refused(servers: OAuthServers) -> None:
    """By the same login, by the next one, and by the authorization server."""
    seen: list[str] = []
    answers: list[int] = []

    async def first(address: str) -> None:
        location = await authorized_redirect(address)
        seen.append(location)
        async with httpx2.AsyncClient(trust_env=False) as client:
            both = [client.get(location), client.get(location)]
            answers.append((await both[0]).status_code)
            try:
                answers.append((await both[1]).status_code)
            except httpx2.TransportError:
                answers.append(410)  # the listener was closed before

    async def second(address: str) -> None:
        location = await authorized_redirect(address)
        old = parse_qs(urlsplit(seen[0]).query)
        async with httpx2.AsyncClient(trust_env=False) as client:
            replayed = {"code": old["code"][0], "state": old["state"][0]}
            answers.append((await client.get(f"{callback_of(location)}?{urlencode(replayed)}")).status_code)
            now = parse_qs(urlsplit(location).query)
            used = {"code": old["code"][0], "state": now["state"][0], "iss": servers.issuer}
            answers.append((await client.get(f"{callback_of(location)}?{urlencode(used)}")).status_code)

    await login(servers, first)
    assert "invalid_grant" in await refused(servers, second)
    assert answers == [200, 410, 403, 200]


async def test_a_person_who_refuses_ends_the_login(servers: OAuthServers) -> None:
    await servers.steer(how={"refuse": "access_denied"})
    assert await refused(servers) == "the authorization server refused: access_denied"


async def test_a_token_for_another_server_is_not_kept(servers: OAuthServers) -> None:
    await servers.steer(how={"audience": "https://elsewhere.example.com/mcp"})
    assert "does not take the token" in await refused(servers)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"pkce": ["plain"]}, "PKCE"),
        ({"pkce": None}, "PKCE"),
        ({"resource": "https://elsewhere.example.com/mcp"}, "does not match"),
        ({"issuer": "https://elsewhere.example.com"}, "issuer"),
        ({"as": "http://192.0.2.1:9"}, "https"),
        ({"as": "https://192.168.0.1:9"}, "not public"),
        ({"as": "https://169.254.169.254"}, "not public"),
        ({"token_status": 500}, "server_error"),
    ],
)
async def test_a_server_that_is_not_as_it_should_be_gets_no_login(
    servers: OAuthServers, how: dict[str, Any], why: str
) -> None:
    await servers.steer(how=how)
    assert why in await refused(servers)


async def test_a_login_that_nobody_finishes_ends(
    servers: OAuthServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(address: str) -> None:
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(login_flow, "LOGIN_S", 0.2)
    assert "nobody logged in" in await refused(servers, nothing)
