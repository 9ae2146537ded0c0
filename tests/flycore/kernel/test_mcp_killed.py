"""A killed kernel leaves no MCP server behind once the next kernel of its root is there."""

from __future__ import annotations

from pathlib import Path

import anyio

from flycore.kernel.crash_recovery import earlier_sessions, find_leftover_processes
from flysafe.procfs import read_process
from kits.command_line import Desk, until
from kits.kernel import Root, kernel_of
from kits.mcp_servers import server_of

OUTLIVES = """
import os, signal, sys
for line in sys.stdin:
    open("@FILE@", "w").write(str(os.getpid()))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()
"""


def test_a_server_that_outlives_its_killed_kernel_is_ended_by_the_next(tmp_path: Path) -> None:
    root, asked = Root(tmp_path), tmp_path / "asked"
    server_of(root, "stubborn", OUTLIVES.replace("@FILE@", str(asked)))
    desk = Desk(root.folder, tmp_path, forked=False)
    desk.trust()
    kernel = desk.start("serve")
    try:
        until("the server", lambda: asked.exists() and asked.read_text())
    finally:
        kernel.kill()
        kernel.communicate(timeout=60)
    server = int(asked.read_text())
    sessions = earlier_sessions(root.places.state_dir)
    assert server in {process.pid for process in find_leftover_processes(sessions)}

    async def next_one() -> None:
        async with kernel_of(root, trusted=False):
            assert find_leftover_processes(sessions) == []
            found = read_process(server)
            assert found is None or found.ended

    anyio.run(next_one)
    (line,) = [line for line in root.audit() if line["event"] == "STRAYS_ENDED"]
    assert (line["processes"], line["left"]) == (1, 0)
