"""An MCP client of the official SDK as a process of its own: makes requests and prints what it gets.

`kits.mcp_clients` has the same client within a test. A kernel in the test's process takes a child in a
session of its own, which the SDK starts, for a process that a call has left behind; so beside such a kernel
the client is another process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

PATIENCE = 600.0
RESULT = "flytui/result"


async def answers_of(
    argv: Sequence[str], environ: Mapping[str, str], folder: Path, requests: Sequence[tuple[str, Any]]
) -> list[dict[str, Any]]:
    """What the server of that command line answers to the requests, one after the other. Each is the name of
    a method of MCP and its parameters. What flytui adds to a result for itself is left out."""
    asked = {"argv": list(argv), "env": dict(environ), "cwd": str(folder), "requests": list(requests)}

    def run() -> list[dict[str, Any]]:
        kits = str(Path(__file__).parents[1])
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path.insert(0, {kits!r}); from {__name__} import main; main()",
            ],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    return await anyio.to_thread.run_sync(run)


def main() -> None:
    """Serve one request on standard input."""
    json.dump(anyio.run(_run, json.load(sys.stdin)), sys.stdout)


async def _run(asked: dict[str, Any]) -> list[dict[str, Any]]:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters
    from mcp_types import ListRootsResult

    command, *args = asked["argv"]
    parameters = StdioServerParameters(command=command, args=args, env=asked["env"], cwd=asked["cwd"])

    async def roots(context: Any) -> ListRootsResult:
        # As flytui does for its servers; flytui itself asks nobody.
        return ListRootsResult.model_validate({"roots": [{"uri": Path(asked["cwd"]).as_uri()}]})

    async with Client(parameters, mode="legacy", list_roots_callback=roots) as client:
        return [await _answer(client.session, method, params) for method, params in asked["requests"]]


async def _answer(session: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    from mcp.shared.exceptions import MCPError
    from mcp_types import client_request_adapter
    from pydantic import TypeAdapter

    request = client_request_adapter.validate_python({"method": method, "params": params})
    try:
        result = await session.send_request(request, TypeAdapter(dict[str, Any]))
    except MCPError as error:
        return {"error": {"code": error.code, "message": error.message, "data": error.data}}
    meta = result.get("_meta", {})
    meta.pop(RESULT, None)
    if not meta:
        result.pop("_meta", None)
    return dict(result)
