"""Tools that a person has blocked, for every caller, until they unblock them; kept in `blocks.json`.

A file that is there and cannot be relied on blocks every tool: nobody knows what it was meant to forbid.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flycore.approval.state_file import read_state, write_state
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.question import Block

MAX_BYTES = 1_048_576
EVERY_TOOL = "*"
"""The tool of the one block there is while the file cannot be relied on; unblocking it starts a new file."""


class ToolBlockStore:
    """The blocked tools of one app root. Only the holder of the root's lock writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._blocks: Mapping[str, Block] = {}
        self.diagnostics: tuple[Diagnostic, ...] = ()
        """Why the file could not be relied on."""

    @classmethod
    def load(cls, path: Path) -> ToolBlockStore:
        """The book as the file has it. Never raises for what is there."""
        book = cls(path)
        try:
            found = msgspec.json.decode(read_state(path, MAX_BYTES), type=tuple[Block, ...])
            book._blocks = {block.tool: block for block in found}
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError, UnicodeError) as error:
            book.diagnostics = (book._fault(str(error)),)
            reason = "the list of blocked tools cannot be read"
            book._blocks = {EVERY_TOOL: Block(tool=EVERY_TOOL, since=0.0, reason=reason)}
        return book

    def all(self) -> tuple[Block, ...]:
        """Every block, oldest first."""
        return tuple(sorted(self._blocks.values(), key=lambda block: block.since))

    def block_for(self, tool: str) -> Block | None:
        """The block that forbids the tool."""
        return self._blocks.get(tool) or self._blocks.get(EVERY_TOOL)

    def block(self, tool: str, now: float, reason: str = "") -> str:
        """Forbid the tool; the sentence says why it could not be kept, and then it is not blocked."""
        return self._store({**self._blocks, tool: Block(tool=tool, since=now, reason=reason)})

    def unblock(self, tool: str) -> Block | None:
        """Let it be called again; None where it was not blocked, or that could not be written."""
        block = self._blocks.get(tool)
        left = {name: item for name, item in self._blocks.items() if name != tool}
        return None if block is None or self._store(left) else block

    def _store(self, blocks: Mapping[str, Block]) -> str:
        """Write, then believe: what is on disk is what holds."""
        if EVERY_TOOL in blocks:
            return "the list of blocked tools cannot be read, so every tool is blocked: unblock * first"
        kept = [msgspec.to_builtins(block) for block in blocks.values()]
        try:
            write_state(self._path, kept, MAX_BYTES)
        except OSError as error:
            return f"the block could not be written: {error.strerror or error}"
        self._blocks, self.diagnostics = dict(blocks), ()
        return ""

    def _fault(self, why: str) -> Diagnostic:
        return Diagnostic(
            severity=Severity.ERROR,
            rule="blocks-file",
            message=f"the blocked tools cannot be read, so every tool is blocked: {why}",
            remedy="open the console: unblock * on the screen Grants, then block anew what has to be",
            position=Position(file=str(self._path), line=1, column=1),
        )
