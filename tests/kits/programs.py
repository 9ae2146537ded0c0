"""Programs that tests use. If one is missing, the test is skipped, or fails where everything is required."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from flycore.sandbox import landlock

NODE_MODULES = Path(__file__).parents[1] / "interop" / "node_modules"
"""What `tests/interop/install.sh` installs."""
CLIENT_MODULES = NODE_MODULES.parents[1] / "clients" / "node_modules"
"""What `tests/clients/install.sh` installs."""
PYTHON_SERVERS = NODE_MODULES.with_name("python")
"""The virtual environment with MCP servers in Python, which it makes as well."""
SQLITE_SERVER = NODE_MODULES.with_name("python-sqlite")
"""The virtual environment of the one server that needs the first generation of the SDK."""
END_TO_END = frozenset(
    (
        *("tmux", "Xvfb", "xterm", "xdotool", "openbox", "scrot", "xprop"),
        *("chromium", "chromium-headless-shell", "google-chrome"),
    )
)
"""Programs that only a case marked `e2e` drives. They, agents' programs and those of the interop tests belong
to `make test-all`."""
marked: list[bool] = [False]
"""Whether the case that runs is marked `e2e`."""


def needs(*programs: str) -> None:
    """Skip the test if a program is not on PATH; fail it if FLYTUI_E2E is `require`, as in CI."""
    driven = ", ".join(END_TO_END.intersection(programs))
    if driven and not marked[0]:
        pytest.fail(f"drives {driven}, so it needs the marker e2e")
    _absent([program for program in programs if shutil.which(program) is None], "")


def needs_bubblewrap() -> None:
    """Skip the test where bwrap is missing, as `needs` does, or where this machine lets nobody make the
    namespaces that it needs."""
    needs("bwrap")
    plain = [
        "bwrap",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
    ]
    tried = subprocess.run([*plain, "/bin/true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"NOT TESTED, no namespaces can be made here: {tried.stderr.strip()}")


def needs_landlock() -> None:
    """Skip the test where this kernel has no Landlock."""
    if not landlock.version():
        pytest.skip("NOT TESTED, this kernel has no Landlock")


def node_tool(name: str) -> list[str]:
    """The command line that starts an npm tool of `tests/interop/package.json` (`mcp-inspector`,
    `conformance`, `wscat`) on the Node 22 installed beside it. Skips, or fails, as `needs` does."""
    node, script = NODE_MODULES / "node" / "bin" / "node", NODE_MODULES / ".bin" / name
    absent = [str(path.relative_to(NODE_MODULES)) for path in (node, script) if not path.exists()]
    _absent(absent, " (tests/interop/install.sh installs it)")
    return [str(node), str(script.resolve())]


def client_program(name: str, *, is_script: bool) -> list[str]:
    """The command line that starts an agent's program of `tests/clients/package.json` (`claude`, `codex`,
    `copilot`, `gemini`, `qwen`, `opencode`); a script runs on the Node 22 installed beside it. Skips, or
    fails, as `needs` does."""
    node, program = CLIENT_MODULES / "node" / "bin" / "node", CLIENT_MODULES / ".bin" / name
    absent = [str(path.relative_to(CLIENT_MODULES)) for path in (node, program) if not path.exists()]
    _absent(absent, " (tests/clients/install.sh installs it)")
    return [str(node), str(program.resolve())] if is_script else [str(program.resolve())]


def _absent(programs: list[str], remedy: str) -> None:
    missing = ", ".join(programs)
    if missing and os.environ.get("FLYTUI_E2E") == "require":
        pytest.fail(f"required here but not installed: {missing}{remedy}")
    if missing:
        pytest.skip(f"NOT TESTED, not installed: {missing}{remedy}")
