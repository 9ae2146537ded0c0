"""The listeners of `flytui serve` besides the Unix socket: TCP and HTTP on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from flycore.model.caller import parse_caller_key
from flycore.registry.paths import RootPaths

if TYPE_CHECKING:
    from flycore.kernel.kernel import Kernel
    from flycore.server.http import App


@asynccontextmanager
async def open_listeners(
    kernel: Kernel, places: RootPaths, *, tcp: int | None, http: int | None
) -> AsyncIterator[tuple[str, ...]]:
    """Listen on loopback until the block ends, and yield the addresses. `tcp` and `http` are the first ports
    to try; None opens no listener. Raises OSError where no port is free."""
    # The kernel's server, which only this command runs.
    from flycore.server.tokens import TokenStore

    tokens = TokenStore.load(places.state_dir)
    async with AsyncExitStack() as stack:
        addresses = []
        if tcp is not None:
            # The kernel's server, which only this command runs.
            from flycore.server.tcp import serve_tcp

            addresses.append(await stack.enter_async_context(serve_tcp(kernel, tokens, tcp)))
        if http is not None:
            # The kernel's server, which only this command runs.
            from flycore.server.http import serve_http

            listener = serve_http(kernel, _mcp_application(kernel, places), tokens, http)
            addresses.append(await stack.enter_async_context(listener))
        yield tuple(addresses)


def _mcp_application(kernel: Kernel, places: RootPaths) -> App:
    """The MCP application. A client with a token calls under the name of the token."""
    # The kernel's server, which only this command runs.
    from flycore.server.local import LocalClient
    from flycore.server.mcp.http import http_app
    from flycore.server.mcp.media import media_reader
    from flycore.server.mcp.person_wait import PersonWait

    return http_app(
        lambda key: LocalClient(kernel, parse_caller_key(key)),
        media_reader(places),
        PersonWait(places.config_dir),
    )
