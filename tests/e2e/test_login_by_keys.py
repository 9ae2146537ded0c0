"""A person logs in at an MCP server by keys: the reason why it is unavailable, `F`, a browser, and a call
that is answered."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio.to_thread
import pytest

from kits.oauth_servers import BROWSER_PROGRAM, OAuthServers, oauth_servers
from kits.terminals import Root, console, make_root, needs

pytestmark = [pytest.mark.anyio, pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture
async def servers() -> AsyncIterator[OAuthServers]:
    async with oauth_servers() as running:
        yield running


@pytest.fixture
def root(tmp_path: Path, servers: OAuthServers) -> Iterator[Root]:
    needs("tmux")
    entry = {"kind": "mcp", "url": servers.url, "permissions": {"network": True}}
    root = make_root(tmp_path, json.dumps({"schemaVersion": 2, "sidecars": {"web": entry}}))
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\n{BROWSER_PROGRAM}")
    browser.chmod(0o755)
    root.extra |= {
        "BROWSER": str(browser),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    root.trust()
    yield root
    root.end()


async def test_a_server_that_asks_for_a_login_is_repaired_by_keys(root: Root, servers: OAuthServers) -> None:
    await anyio.to_thread.run_sync(log_in_by_keys, root)
    assert len((await servers.steer())["access"]) == 1
    lines = [line for line in root.audit() if line["event"] == "LOGIN_CHANGED"]
    assert [(line["sidecar"], line["decision"]) for line in lines] == [("web", "logged-in")]


def log_in_by_keys(root: Root) -> None:
    with console(root) as tmux:
        tmux.sees(r"unavailable \(web\) .*the server asks for a login .* F log in at web")
        tmux.keys(":")
        tmux.sees(r"Enter go there")
        tmux.keys("web", "Enter")
        tmux.sees(r"(?m)^▌ +○ unavailable \(web\)")
        tmux.keys("F")
        tmux.sees(r"upstream login")
        tmux.decide("a")
        tmux.sees(r"(?s)logged in at web.*Enter goes back to flytui")
        tmux.keys("Enter")
        tmux.sees(r"available +web\.look")
        called = root.start("call", "web.look", "--json")
        tmux.sees(r"1 waiting")
        tmux.keys("C-o")
        tmux.sees(r"keys ready ●")
        tmux.decide("a")
        out, err = called.communicate(timeout=60)
    assert called.returncode == 0, err
    assert json.loads(out)["status"] == "success"
