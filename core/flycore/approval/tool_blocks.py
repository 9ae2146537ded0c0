"""The tools that a person has blocked for every caller until they unblock them, kept in `blocks.json`.

Where the file exists and cannot be relied on, every tool is blocked, because nobody knows which tools the
file was meant to block.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import digest
from flycore.model.question import Block
from flycore.store.json_store import Store

MAX_BYTES = 1_048_576
EVERY_TOOL = "*"
"""The tool of the only block while the file cannot be relied on. Unblocking it starts a new file."""


class _File(Value, frozen=True, kw_only=True):
    """The content of the file. The digest is over the canonical JSON of the blocks: a name in which a bit
    flipped would otherwise unblock its tool without a word."""

    blocks: tuple[Block, ...]
    digest: str

    @classmethod
    def of(cls, blocks: tuple[Block, ...]) -> _File:
        """Return the content with these blocks."""
        return cls(blocks=blocks, digest=digest([msgspec.to_builtins(block) for block in blocks]))

    def fault(self) -> str:
        """Return why the file cannot be relied on; empty if it can be."""
        return "" if self == self.of(self.blocks) else "its content does not match its digest"


_NO_BLOCKS = _File.of(())
_EVERY_BLOCK = Block(tool=EVERY_TOOL, since=0.0, reason="the list of blocked tools cannot be read")


class ToolBlockStore:
    """The blocked tools of one app root. Whoever writes holds the root's lock."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._store = Store(path, _File, _NO_BLOCKS, MAX_BYTES, fault=_File.fault)
        self._store.reload()

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Why the file cannot be relied on."""
        why = self._store.why_unread
        return (self._fault(why),) if why else ()

    @property
    def _blocks(self) -> Mapping[str, Block]:
        blocks = (_EVERY_BLOCK,) if self._store.why_unread else self._store.value.blocks
        return {block.tool: block for block in blocks}

    def all(self) -> tuple[Block, ...]:
        """Return every block, oldest first."""
        return tuple(sorted(self._blocks.values(), key=lambda block: block.since))

    def block_for(self, tool: str) -> Block | None:
        """Return the block that applies to the tool; None where it is not blocked."""
        return self._blocks.get(tool) or self._blocks.get(EVERY_TOOL)

    def block(self, tool: str, now: float, reason: str = "") -> str:
        """Block the tool. Returns why the block could not be written, and then the tool is not blocked, or an
        empty text."""
        return self._write({**self._blocks, tool: Block(tool=tool, since=now, reason=reason)})

    def unblock(self, tool: str) -> Block | None:
        """Unblock the tool, and return its block; None where it was not blocked, or the file could not be
        written."""
        block = self._blocks.get(tool)
        left = {name: item for name, item in self._blocks.items() if name != tool}
        return None if block is None or self._write(left) else block

    def _write(self, blocks: Mapping[str, Block]) -> str:
        """Write the blocks and make them valid. Returns why that failed, or an empty text."""
        if EVERY_TOOL in blocks:
            return (
                "the list of blocked tools cannot be read, so every tool is blocked already: unblock * first"
            )
        why = self._store.replace(_File.of(tuple(blocks.values())))
        return f"the block could not be written: {why}" if why else ""

    def _fault(self, why: str) -> Diagnostic:
        return Diagnostic(
            severity=Severity.ERROR,
            rule="blocks-file",
            message=f"the blocked tools cannot be read, so every tool is blocked: {why}",
            remedy="unblock * on the screen Grants of the console, then block again what you want blocked",
            position=Position(file=str(self._path), line=1, column=1),
        )
