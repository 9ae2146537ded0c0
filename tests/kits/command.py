"""The command `flytui`, forked from a process that has imported what nearly every command needs."""

from __future__ import annotations

from kits.fork_server import ForkServer

COMMAND = ForkServer(
    "flytui.cli.main:main",
    (
        "anyio._backends._asyncio",
        "flycore.client.reconnecting",
        "flycore.client.connect",
        "flycore.client.local",
        "flycore.kernel.compose",
        "flytui.cli.output",
        "jsonschema_rs",
        "pyjson5",
        "textual.app",
        "watchfiles",
    ),
)
