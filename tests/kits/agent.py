"""An agent of the official MCP client, in a process of its own, which makes one call after the other; and a
person who approves them in a console."""

from __future__ import annotations

import json
import re
import time
from subprocess import PIPE, Popen
from typing import Any

from kits.command import PYTHON, forked_bin
from kits.terminals import PATIENCE, READY, Root, Tmux, until

LETTER = r"then ‹(.)›"
READING_SECONDS = 0.6
"""What a person takes to find the letter: pressed sooner than 0.3 s it does not count."""

AGENT = """
import json, os, sys
import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

FLYTUI, ROOT = sys.argv[1:]

async def main():
    server = StdioServerParameters(command=FLYTUI, args=["--root", ROOT, "mcp"], env=dict(os.environ))
    async with Client(server, mode="2026-07-28") as client:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            name, given = json.loads(line)
            result = await client.call_tool(name, given)
            text = result.content[0].text if result.content else ""
            said = dict(output=result.structured_content, error=result.is_error, text=text)
            print(json.dumps(said), flush=True)

anyio.run(main)
"""


class Agent:
    """The client; `call` makes one call, and `result` waits for its end."""

    def __init__(self, root: Root) -> None:
        words = [f"{forked_bin()}/flytui", str(root.folder)]
        self.process = Popen(
            PYTHON.launcher("agent", AGENT, *words), env=root.environ, stdin=PIPE, stdout=PIPE, text=True
        )

    def call(self, name: str, /, **given: Any) -> None:
        """Begin a call."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, given]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The answer to the call that was begun last: `output`, `text`, and whether it is an `error`."""
        assert self.process.stdout is not None
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        return said

    def result(self) -> dict[str, Any]:
        """The output of the call that was begun last."""
        said = self.answer()
        assert not said["error"], said["text"]
        output: dict[str, Any] = said["output"]
        return output

    def free(self, name: str, **given: Any) -> dict[str, Any]:
        """A call that nobody is asked about."""
        self.call(name, **given)
        return self.result()

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def approve_card(tmux: Tmux, shows: str) -> None:
    """Open the card of the one call that waits, check that it shows that, read it, and approve the call."""
    tmux.sees("1 waiting")

    def opened() -> bool:
        screen = tmux.screen()
        if re.search(r"keys (not )?ready", screen):
            return True
        # The card of the call before may still be there, with what became of it.
        tmux.keys("n" if "n next" in screen else "C-o")
        time.sleep(READING_SECONDS)
        return False

    until("the card of the call", opened)
    tmux.sees(shows)
    tmux.read_card()
    if "then ‹" not in tmux.screen():
        tmux.decide()
        return
    letter = tmux.sees(LETTER)[1]

    def pressed() -> bool:
        # A key that came while the console stood still is dropped, and the card armed anew.
        if READY in tmux.screen():
            tmux.keys("a")
            time.sleep(READING_SECONDS)
            tmux.keys(letter)
            time.sleep(READING_SECONDS)
        return READY not in tmux.screen() and "any other key" not in tmux.screen()

    until("the letter has decided", pressed)
