"""A killed kernel leaves no MCP server behind: its launcher ends them, else the next kernel of its root."""

from __future__ import annotations

import signal
from pathlib import Path

import anyio

from flycore.kernel.crash_recovery import earlier_sessions, find_leftover_processes
from flycore.model.enums import Level
from flysafe.procfs import environment_value, read_process
from kits.command_line import Desk, until
from kits.console_processes import kill_launcher, still_runs
from kits.kernel import Root, kernel_of, processes_of
from kits.mcp_servers import server_of
from kits.sandbox_levels import LevelDesk

OUTLIVES = """
import os, signal, sys
for line in sys.stdin:
    open("@FILE@", "w").write("asked")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()
"""


def server_process(root: Root) -> int:
    """The server among the processes of the root, of which the kernel is one, too."""
    found = [pid for pid in processes_of(root) if environment_value(pid, "FLYTUI_CALL_ID")]
    [server] = found
    return server


def test_a_server_ends_with_its_killed_kernel(tmp_path: Path) -> None:
    root, asked = Root(tmp_path), tmp_path / "asked"
    server_of(root, "stubborn", OUTLIVES.replace("@FILE@", str(asked)))
    desk = Desk(root.folder, tmp_path, forked=False)
    desk.trust()
    desk.end_kernel()
    asked.unlink(missing_ok=True)
    kernel = desk.start("serve")
    try:
        until("the server", lambda: asked.exists() and asked.read_text())
        server = read_process(server_process(root))
        assert server is not None
    finally:
        kernel.kill()
        kernel.communicate(timeout=60)
    until("the server has ended", lambda: not still_runs(server))
    until("nobody is left", lambda: desk.survivors() == [])


def test_a_server_that_outlives_its_killed_kernel_is_ended_by_the_next(tmp_path: Path) -> None:
    root, asked = Root(tmp_path), tmp_path / "asked"
    server_of(root, "stubborn", OUTLIVES.replace("@FILE@", str(asked)))
    # bubblewrap ends with the launcher, and with it everything in its namespace.
    desk = LevelDesk(root.folder, tmp_path, forked=False, level=Level.DEGRADED)
    desk.trust()
    desk.end_kernel()
    asked.unlink(missing_ok=True)
    kernel = desk.start("serve")
    try:
        until("the server", lambda: asked.exists() and asked.read_text())
        server = server_process(root)
        # Stopped, so that it does not start another launcher.
        kernel.send_signal(signal.SIGSTOP)
        kill_launcher(kernel.pid)
    finally:
        kernel.kill()
        kernel.communicate(timeout=60)
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
