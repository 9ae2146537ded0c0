"""A kernel and a server that asks for a login: the tokens are sent, refreshed, kept from everybody else, and
their end is a reason with a remedy."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.catalog import SidecarView
from flycore.model.diagnostics import FixKind
from flycore.model.enums import ProbeState, ReasonCode, Status
from flycore.model.json import MASK
from flycore.model.login import Login
from flycore.registry.paths import LOGINS_FILE
from flycore.runners.mcp.login_flow import log_in
from flycore.sandbox.login_store import LoginStore, LoginsUnsafe
from kits.kernel import PATIENCE, Root, kernel_of, request, until
from kits.mcp_servers import sidecar
from kits.oauth_servers import OAuthServers, browse, oauth_servers

pytestmark = pytest.mark.anyio

ALLOW = {"tool": "*", "decision": "allow", "because": "test"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for the whole module, which the servers need."""
    return "asyncio"


@pytest.fixture(scope="module")
async def servers(anyio_backend: str) -> AsyncIterator[OAuthServers]:
    """The servers, for all tests."""
    async with oauth_servers() as running:
        yield running


@pytest.fixture
def root(tmp_path: Path, servers: OAuthServers) -> Root:
    """A root with an entry `web` for the server, where everything is allowed."""
    made = Root(tmp_path)
    made.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    made.policy(ALLOW)
    made.sidecars["web"] = {"kind": "mcp", "url": servers.url, "permissions": {"network": True}}
    made.write()
    return made


def store_of(root: Root) -> LoginStore:
    """The logins of the root."""
    return LoginStore(root.places, root.environ)


async def logged_in(root: Root, servers: OAuthServers) -> Login:
    """Log in, and keep the login as the command does."""
    async with anyio.create_task_group() as group:

        async def show(address: str) -> None:
            group.start_soon(browse, address)

        login = await log_in(servers.url, {}, show)
    store_of(root).keep("web", login)
    return login


async def probed(kernel: Kernel, code: ReasonCode | None) -> SidecarView:
    """The entry, once it has that reason or, without one, is connected."""

    def seen() -> SidecarView | None:
        view = sidecar(kernel, "web")
        if code is None:
            return view if view.stability.probe is ProbeState.HEALTHY else None
        return view if code in {reason.code for reason in view.stability.reasons} else None

    return await until(seen)


async def call(kernel: Kernel, tool: str = "web.look") -> ToolResult:
    """Call a tool of the server."""
    with anyio.fail_after(PATIENCE):
        return await kernel.call(request(kernel, tool))


async def test_a_server_that_asks_is_unavailable_until_a_person_has_logged_in(
    root: Root, servers: OAuthServers
) -> None:
    async with kernel_of(root) as kernel:
        view = await probed(kernel, ReasonCode.LOGIN_NEEDED)
        assert view.stability.probe is ProbeState.UNAVAILABLE
        (reason,) = (one for one in view.stability.reasons if one.code is ReasonCode.LOGIN_NEEDED)
        assert "flytui upstream login" in reason.remedy
        assert reason.fix is not None
        assert reason.fix.kind is FixKind.COMMAND
        assert reason.fix.argv[1:] == ("upstream", "login", "--root", str(root.folder), "web")
        login = await logged_in(root, servers)
        kernel.probe("web")
        await probed(kernel, None)
        assert (await call(kernel)).status is Status.SUCCESS
        told = await call(kernel, "web.tell")
        assert login.secret is not None
        tokens = login.secret.values()
        assert (told.status, MASK in str(told.output)) == (Status.SUCCESS, True)
        assert not any(token in str(told) for token in tokens.values())
        store_of(root).remove("web")
        kernel.probe("web")
        await probed(kernel, ReasonCode.LOGIN_NEEDED)
    seen = json.dumps(root.audit())
    assert not any(token in seen for token in tokens.values())


async def test_an_expired_token_is_refreshed_and_the_new_one_kept(root: Root, servers: OAuthServers) -> None:
    login = await logged_in(root, servers)
    store_of(root).keep("web", msgspec.structs.replace(login, expires_at=1.0))
    async with kernel_of(root) as kernel:
        await probed(kernel, None)
        kept = store_of(root).find("web", servers.url)
        assert kept is not None
        assert kept.secret is not None
        assert login.secret is not None
        assert kept.secret.tokens["refresh_token"] != login.secret.tokens["refresh_token"]
        # And one that the server stops to take before its time.
        before = len(await _refreshes(servers))
        await servers.steer(expire=True)
        results = []

        async def one() -> None:
            results.append(await call(kernel))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(one)
        assert [result.status for result in results] == [Status.SUCCESS] * 5
        after = await _refreshes(servers)
        assert len(after) == before + 1
        assert after[-1]["resource"] == servers.url


async def _refreshes(servers: OAuthServers) -> list[dict[str, str]]:
    log = (await servers.steer())["log"]
    return [form for what, form in log if what == "token" and form["grant_type"] == "refresh_token"]


async def test_a_revoked_login_says_so_and_is_not_tried_again(root: Root, servers: OAuthServers) -> None:
    await logged_in(root, servers)
    async with kernel_of(root) as kernel:
        await probed(kernel, None)
        await servers.steer(revoke=True)
        result = await call(kernel)
        assert result.status is not Status.SUCCESS
        view = await probed(kernel, ReasonCode.LOGIN_NEEDED)
        (reason,) = (one for one in view.stability.reasons if one.code is ReasonCode.LOGIN_NEEDED)
        assert "revoked" in reason.message
        assert "Traceback" not in str(result) + str(view)
        tried = len(await _refreshes(servers))
        kernel.probe("web")
        await until(lambda: store_of(root).all()["web"].ended or None)
        assert len(await _refreshes(servers)) == tried
        await logged_in(root, servers)
        kernel.probe("web")
        await probed(kernel, None)


async def test_an_authorization_server_that_is_broken_does_not_end_the_login(
    root: Root, servers: OAuthServers
) -> None:
    login = await logged_in(root, servers)
    store_of(root).keep("web", msgspec.structs.replace(login, expires_at=1.0))
    await servers.steer(how={"token_status": 503})
    async with kernel_of(root) as kernel:
        view = await probed(kernel, ReasonCode.PROBE_UNAVAILABLE)
        assert "HTTP 503" in view.stability.reasons[0].message
        await servers.steer(how={"token_status": 0})
        kernel.probe("web")
        await probed(kernel, None)


async def test_a_login_is_for_its_address_and_for_this_user_alone(root: Root, servers: OAuthServers) -> None:
    store, login = store_of(root), await logged_in(root, servers)
    file = root.places.state_dir / LOGINS_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert store.find("web", servers.url) == login
    assert store.find("web", f"{servers.url}/other") is None
    file.chmod(0o640)
    with pytest.raises(LoginsUnsafe):
        store.all()
    async with kernel_of(root) as kernel:
        view = await probed(kernel, ReasonCode.LOGIN_NEEDED)
        assert "0600" in view.stability.reasons[0].message
    elsewhere = root.base / "elsewhere.json"
    file.chmod(0o600)
    os.rename(file, elsewhere)
    file.symlink_to(elsewhere)
    with pytest.raises(OSError, match="ymbolic"):
        store.all()
