"""`flytui upstream` as a process, with a browser that is a program of the test."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread
import pytest

from kits.command_line import Desk
from kits.oauth_servers import BROWSER_PROGRAM, OAuthServers, oauth_servers

pytestmark = pytest.mark.anyio
NO_RING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}


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
def browser(desk: Desk) -> str:
    """A program that opens an address and follows it to its end."""
    program = desk.home / "browser"
    program.write_text(f"#!{sys.executable}\n{BROWSER_PROGRAM}")
    program.chmod(0o755)
    return str(program)


def write_registry(desk: Desk, servers: OAuthServers) -> None:
    """Write a registry with the server, one with a header of its own, and one that is a program."""
    network = {"network": True}
    own = {"Authorization": "Bearer ${NOTES_TOKEN}"}
    desk.write(
        {
            "schemaVersion": 2,
            "sidecars": {
                "web": {"kind": "mcp", "url": servers.url, "permissions": network},
                "own": {
                    "kind": "mcp",
                    "url": servers.url,
                    "headers": own,
                    "permissions": {**network, "secrets": ["NOTES_TOKEN"]},
                },
                "notes": {"kind": "mcp", "command": "notes-server"},
            },
        }
    )


def run(desk: Desk, *words: str, **environ: str) -> tuple[int, str, str]:
    """The exit code and both outputs of `flytui upstream WORDS`."""
    done = desk.run("upstream", *words, **NO_RING, **environ)
    return done.returncode, done.stdout, done.stderr


async def test_login_list_and_logout(desk: Desk, servers: OAuthServers, browser: str) -> None:
    write_registry(desk, servers)
    code, _, err = await anyio.to_thread.run_sync(lambda: run(desk, "login", "web", BROWSER=browser))
    assert (code, "not trusted yet" in err) == (5, True)
    assert not (await servers.steer())["log"]
    digest = desk.document("trust")["digest"]
    assert desk.run("trust", "--digest", digest).returncode == 0
    code, out, err = await anyio.to_thread.run_sync(lambda: run(desk, "login", "web", BROWSER=browser))
    assert (code, "logged in at web" in out, "logins.json" in out) == (0, True, True)
    assert "code_challenge=" in err
    used = await servers.steer()
    tokens = [*used["access"], *used["refreshes"]]
    assert len(tokens) == 2
    (file,) = (desk.home / "state").rglob("logins.json")
    assert all(token in file.read_text() for token in tokens)
    assert not any(token in out + err for token in tokens)
    listed = {one["id"]: one for one in desk.document("upstream", "list")["servers"]}
    assert [listed[name]["login"] for name in ("web", "own", "notes")] == ["logged-in", "own-credentials", ""]
    code, out, _ = run(desk, "status", "web")
    assert (code, servers.issuer in out, "since" in out) == (0, True, True)
    assert not any(token in out + str(listed) for token in tokens)
    assert run(desk, "logout", "web")[0] == 0
    assert run(desk, "logout", "web")[0] == 3
    assert not any(token in file.read_text() for token in tokens)
    kept = [line for line in desk.document("audit", "tail")["lines"] if line["event"] == "LOGIN_CHANGED"]
    assert [(line["sidecar"], line["decision"]) for line in kept] == [
        ("web", "logged-in"),
        ("web", "logged-out"),
    ]
    for name, words in (("notes", "is a program"), ("own", "header"), ("nothing", "upstream list")):
        code, _, err = run(desk, "login", name)
        assert (code, words in err) == (5, True)


async def test_the_address_is_printed_where_there_is_no_browser(desk: Desk, servers: OAuthServers) -> None:
    write_registry(desk, servers)
    desk.run("trust", "--digest", desk.document("trust")["digest"])
    await servers.steer(how={"refuse": "access_denied"})
    argv = desk.argv("upstream", "login", "web", "--json")
    async with await anyio.open_process(argv, env={**desk.environ, **NO_RING}) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        seen = b""
        while b"code_challenge_method=S256" not in seen or not seen.endswith(b"\n"):
            seen += await process.stderr.receive()
        address = next(line for line in seen.decode().split() if line.startswith(servers.issuer))
        await anyio.run_process([sys.executable, "-c", BROWSER_PROGRAM, address])
        out = await process.stdout.receive()
        assert await process.wait() == 5
    assert b"access_denied" in out
    assert not list((desk.home / "state").rglob("logins.json"))
