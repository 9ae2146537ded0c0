"""The command `flytui`, forked from a process that has imported all of it."""

from __future__ import annotations

import functools
import shlex

from kits.fork_server import LIMITS, ForkServer

COMMAND = ForkServer(
    "flytui.cli.main:main",
    (
        "flytui.*",
        "flycore.*",
        "kits.forked_kernel",
        "anyio._backends._asyncio",
        "cryptography.hazmat.bindings._rust",
        "jsonschema_rs",
        "mcp.client.stdio",
        "mcp.server.stdio",
        "pyjson5",
        "textual.drivers.linux_driver",
        "textual.layouts.factory",
        "textual.scrollbar",
        "watchfiles",
    ),
)
PYTHON = COMMAND.other("kits.fork_server:run_code")
"""`python -c` for programs of tests that use what the command uses, such as a client of MCP."""
WITHOUT_PATIENCE = {
    LIMITS: "flycore.client.client:SETTLE_SECONDS=0.5 flycore.client.client:RECONNECT_SECONDS=0.5"
    " flycore.client.kernel_link:CONNECT_SECONDS=0.5"
}
"""In the environment of a command, it gives up a kernel that does not answer at once."""


@functools.cache
def forked_bin() -> str:
    """A folder whose program `flytui` is the forked command, to stand first in a PATH. It goes with the
    server."""
    launcher = COMMAND.launcher("flytui")
    folder = COMMAND.folder / "bin"
    folder.mkdir()
    program = folder / "flytui"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(launcher)} "$@"\n')
    program.chmod(0o755)
    return str(folder)
