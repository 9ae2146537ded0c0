"""Two roots, three agents, one console: every request in one queue, one answer each, and nothing crosses a
root."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flycore.registry.paths import root_key
from kits.command import PYTHON, forked_bin
from kits.console_processes import processes_of
from kits.kernels import end_kernels
from kits.terminals import BIN, READY, Root, Tmux, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

MCP_AGENT = """
import os, sys
import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

FLYTUI, ROOT = sys.argv[1:]

async def main():
    server = StdioServerParameters(command=FLYTUI, args=["--root", ROOT, "mcp"], env=dict(os.environ))
    async with Client(server) as client:
        text = "approval-pending"
        while text.startswith("approval-pending"):  # the same call waits in place of the one before
            result = await client.call_tool("mock_echo", {"message": "over MCP"})
            text = result.content[0].text
        print("error" if result.is_error else "done", text, flush=True)

anyio.run(main)
"""


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[tuple[Root, Root]]:
    """Two roots of one person, whose requests have the same tool."""
    needs("tmux")
    made = []
    for name in ("shop", "docs"):
        made_root = make_root(tmp_path / f"made-{name}", only=("mock.echo",))
        folder = tmp_path / name
        shutil.move(made_root.folder, folder)
        made.append(Root(folder, tmp_path / "home"))
    for root in made:
        root.trust()
    yield made[0], made[1]
    for root in made:
        root.end()


@contextmanager
def console(root: Root, *words: str, sees: str = "policy ok") -> Iterator[Tmux]:
    """A console with these words on its command line."""
    tmux = Tmux(root, 120, 34)
    tmux.open(str(BIN / "flytui"), *words)
    try:
        tmux.sees(sees)
        yield tmux
    finally:
        tmux.end()


def both(shop: Root, docs: Root) -> tuple[str, ...]:
    return ("--root", str(shop.folder), "--root", str(docs.folder))


def call(root: Root, message: str, *more: str) -> subprocess.Popen[str]:
    return root.start("call", "mock.echo", f"message={message}", "--json", *more)


def status_of(agent: subprocess.Popen[str]) -> str:
    out, err = agent.communicate(timeout=120)
    assert out, err
    return str(json.loads(out)["status"])


def lines_of(root: Root) -> list[dict[str, Any]]:
    """The lines of that root's own log."""
    folder = root.home / "state/flytui/roots" / root_key(root.folder) / "audit"
    return [
        json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()
    ]


def decisions(root: Root) -> list[str]:
    return [str(line["decision"]) for line in lines_of(root) if line["event"] == "APPROVAL_DECIDED"]


def ran(root: Root) -> int:
    return sum(line["event"] == "TOOL_STARTED" for line in lines_of(root))


def answer(tmux: Tmux, root: str, message: str, key: str) -> None:
    """Decide about the request with that message on its card, which names the root. Where the next card has
    followed, the key is not for that one."""
    field = f"│message  {message}"

    def ready() -> bool:
        screen = tmux.screen()
        if "Attached to" in screen:
            tmux.keys("Escape")  # the line for the code of a root that is held opens where nothing waits yet
        elif "asked by" not in screen:
            tmux.keys("C-o")
            time.sleep(0.5)
        return field in screen and READY in screen

    def decided() -> bool:
        # A key that came while the console stood still does not count, and is pressed again.
        if ready():
            tmux.keys(key)
            time.sleep(1)
        return field not in tmux.screen()

    until(f"the card of {message}", ready)
    assert re.search(rf"asked by +{root} · ", tmux.screen())
    until(f"{key} for {message}", decided)


def test_two_roots_three_agents_one_queue_and_one_answer_each(roots: tuple[Root, Root]) -> None:
    shop, docs = roots
    with console(shop, *both(shop, docs)) as tmux:
        tmux.sees("shop 1 of 2")
        first = call(shop, "one")
        tmux.sees("1 waiting")
        second = call(docs, "two")
        tmux.sees("2 waiting")
        third = subprocess.Popen(
            PYTHON.launcher("agent", MCP_AGENT, f"{forked_bin()}/flytui", str(docs.folder)),
            env=docs.environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            tmux.sees("3 waiting")
            tmux.keys("2")
            tmux.sees("2 Approvals ●3")
            # Alike requests of one root are one row; those of two roots never are.
            rows = until("the rows", lambda: _rows(tmux.screen()))
            assert sum("shop · " in row for row in rows) == 1
            assert all(("shop · " in row) != ("docs · " in row) for row in rows)
            answer(tmux, "shop", "one", "a")
            answer(tmux, "docs", "two", "d")
            answer(tmux, "docs", "over MCP", "a")
            assert status_of(first) == "success"
            assert status_of(second) == "denied"
            assert (third.communicate(timeout=120)[0] or "").startswith("done")
        finally:
            third.kill()
            third.communicate(timeout=60)
        assert (decisions(shop), ran(shop)) == (["approved"], 1)
        assert sorted(decisions(docs)) == ["approved", "denied"]
        assert ran(docs) == 1
        tmux.sees("0 waiting")
    for root in roots:
        assert root.flytui("audit", "verify").returncode == 0


def _rows(screen: str) -> list[str]:
    """The rows of the requests that wait, once those of both roots are drawn."""
    rows = [row for row in screen.splitlines() if "▲ waiting" in row]
    return rows if len(rows) > 1 else []


def test_a_lease_of_one_root_does_not_cover_the_other(roots: tuple[Root, Root]) -> None:
    shop, docs = roots
    with console(shop, *both(shop, docs)) as tmux:
        tmux.sees("shop 1 of 2")
        leased = call(shop, "leased")
        tmux.sees(READY)
        tmux.keys("l")
        tmux.sees("allow")
        until("the lease", lambda: _pressed(tmux, "a", shop))
        assert status_of(leased) == "success"
        assert status_of(call(shop, "covered")) == "success"
        agent = call(docs, "not covered")
        answer(tmux, "docs", "not covered", "d")
        assert status_of(agent) == "denied"
    assert (decisions(docs), ran(docs), ran(shop)) == (["denied"], 0, 2)


def _pressed(tmux: Tmux, key: str, root: Root) -> bool:
    """Press a key until a decision is in the log: the form takes it once its summary has been read."""
    if not decisions(root):
        tmux.keys(key)
        time.sleep(1)
    return bool(decisions(root))


def test_all_finds_a_kernel_that_runs_and_a_ticket_that_waits(roots: tuple[Root, Root]) -> None:
    shop, docs = roots
    end_kernels(shop.home)
    tmux = Tmux(shop)
    tmux.open("bash", "-c", f"{BIN / 'flytui'} --all; echo exit $?; read")
    tmux.sees("no kernel runs on any root")
    tmux.sees("exit 3")
    tmux.end()
    with console(docs, "--root", str(docs.folder)) as tmux:
        assert status_of(call(docs, "later", "--no-wait")) == "pending"
        tmux.sees("1 waiting")
    end_kernels(shop.home)
    serve = shop.start("serve", "--json")
    until("the kernel", lambda: json.loads(shop.flytui("status", "--json").stdout)["kernel"])
    with console(docs, "--all", sees="1 waiting") as tmux:
        answer(tmux, "docs", "later", "a")
        tmux.sees("0 waiting")
        assert status_of(call(docs, "later", "--no-wait")) == "success"
        # The other root is held: it takes a code, as for any second console.
        tmux.sees("viewer only +shop · ")
        tmux.keys("P")
        tmux.sees("shop · Attached to flytui serve")
    assert (decisions(shop), decisions(docs)) == ([], ["approved"])
    assert serve.poll() is None


def test_a_kernel_that_dies_leaves_the_other_and_its_requests(roots: tuple[Root, Root]) -> None:
    shop, docs = roots
    with console(shop, *both(shop, docs)) as tmux:
        tmux.sees("shop 1 of 2")
        agent = call(docs, "stays")
        tmux.sees(READY)
        pid = json.loads(shop.flytui("status", "--json").stdout)["kernel"]["pid"]
        subprocess.run(["kill", "-9", str(pid)], check=True)
        tmux.sees("keys ready ●")
        assert 'with message "stays"' in tmux.screen()
        tmux.decide()
        assert status_of(agent) == "success"
        again = call(shop, "new kernel")
        answer(tmux, "shop", "new kernel", "a")
        assert status_of(again) == "success"
        assert processes_of(tmux.pid).console
