"""The logins at MCP servers over HTTP, which commands make and remove. A kernel reads them from the same
file, so that it may run meanwhile."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from flycore.approval.trust_store import TrustStore
from flycore.kernel.effective_entries import effective_files
from flycore.kernel.load_state import find_environment, read_files
from flycore.model.enums import Kind
from flycore.model.login import Login, LoginFailed
from flycore.model.sidecar import SidecarEntry
from flycore.registry.mcp_checks import sends_credentials
from flycore.registry.paths import RootPaths
from flycore.sandbox.environment import declared_secrets
from flycore.sandbox.login_store import IN_KEYRING, LoginStore


class LoginRefused(Exception):
    """There is no login to make or to remove; the message says why and what to do."""


class KeptLogin(NamedTuple):
    """A login without its tokens."""

    login: Login
    kept_in: str
    """Where the tokens are; empty where they were removed."""


def find_server(places: RootPaths, sidecar: str) -> SidecarEntry:
    """Return the entry of a server at which a person can log in. Raises LoginRefused."""
    environment = find_environment(places, dict(os.environ))
    trust = TrustStore(places.trust_file)
    entry = effective_files(environment, read_files(environment, None), trust).registry.entry(sidecar)
    if entry is None or entry.kind is not Kind.MCP:
        raise LoginRefused(f"no entry of an MCP server has the id {sidecar}: flytui upstream list")
    if not entry.url:
        raise LoginRefused(f"{sidecar} is a program, which takes what it needs from its environment")
    if sends_credentials(entry):
        raise LoginRefused(f"{sidecar} sends the header Authorization of its entry: remove that to log in")
    if not entry.valid or not trust.is_trusted(entry):
        raise LoginRefused(f"{sidecar} is not trusted yet: flytui trust")
    return entry


async def log_in(places: RootPaths, entry: SidecarEntry, show: Callable[[str], Awaitable[None]]) -> Login:
    """Log the person in at the server of the entry, in a browser. Nothing is kept yet. Raises
    LoginRefused."""
    from flycore.runners.mcp.http import fill_headers
    from flycore.runners.mcp.login_flow import log_in as run_flow

    environment = find_environment(places, dict(os.environ))
    environment.keyring.look_up(entry.permissions.secrets, environment.environ)
    secrets, missing = declared_secrets(entry.permissions, environment.secret_values)
    if missing:
        raise LoginRefused(f"declared secrets are not there: {', '.join(missing)}")
    try:
        return await run_flow(entry.url, fill_headers(entry.headers, secrets), show)
    except LoginFailed as failed:
        raise LoginRefused(str(failed)) from None


def keep_login(places: RootPaths, sidecar: str, login: Login) -> str:
    """Keep the login, and return where its tokens are. This blocks. Raises OSError."""
    return LoginStore(places, os.environ).keep(sidecar, login)


def remove_login(places: RootPaths, sidecar: str) -> bool:
    """Forget the login, and return whether there was one. This blocks. Raises OSError."""
    return LoginStore(places, os.environ).remove(sidecar) is not None


def kept_logins(places: RootPaths) -> Mapping[str, KeptLogin]:
    """Return the logins by the id of their entries. Raises OSError."""
    store = LoginStore(places, os.environ)
    return {
        sidecar: KeptLogin(
            login, "" if login.ended else IN_KEYRING if login.secret is None else str(store.path)
        )
        for sidecar, login in store.all().items()
    }
