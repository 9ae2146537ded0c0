"""Decisions of persons on the entries of a root: which may run, with which tools, and what is blocked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from flycore.approval.tool_blocks import ToolBlockStore
from flycore.approval.tool_definitions import ToolDefinitionStore
from flycore.approval.trust_store import TrustStore
from flycore.catalog.observations import Answer, Observation, says_nothing
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Kind
from flycore.model.sidecar import SidecarEntry
from flycore.model.upstream import McpToolList, McpToolOffer
from flycore.pipeline.context import Files
from flycore.registry.paths import RootPaths

DESCRIBED_BY_PROGRAM = (Kind.MCP, Kind.EXECUTABLE)
"""The kinds whose tools the program describes itself."""


class Trust:
    """The decisions of persons, as their stores hold them now."""

    def __init__(
        self,
        entries: TrustStore,
        definitions: ToolDefinitionStore,
        blocks: ToolBlockStore,
        *,
        stores_lists: bool = True,
    ) -> None:
        """`stores_lists` says whether the first tool list of a trusted entry is stored before it is offered.
        A reader without a kernel stores none, and takes that list as accepted."""
        self.entries, self.definitions, self.blocks = entries, definitions, blocks
        self.save_error = ""
        """Why a tool list could not be stored; empty if each was."""
        self._stores_lists = stores_lists

    @classmethod
    def load(cls, places: RootPaths, *, stores_lists: bool = True) -> Trust:
        """Return what the files of the root hold."""
        return cls(
            TrustStore(places.trust_file),
            ToolDefinitionStore(places.definitions_file),
            ToolBlockStore(places.blocks_file),
            stores_lists=stores_lists,
        )

    @classmethod
    def of_nothing(cls) -> Trust:
        """Return the decisions of a root about which nobody has decided anything."""
        return cls(TrustStore(None), ToolDefinitionStore(None), ToolBlockStore(None))

    def diagnostics(self, places: RootPaths) -> tuple[Diagnostic, ...]:
        """Return why the stored decisions cannot be relied on."""
        faults = (
            Diagnostic(
                severity=Severity.ERROR,
                rule="definitions-file",
                message=f"the tool lists that you approved for MCP servers cannot be read or written: {why}",
                remedy="press T in the console: the lists that you accept there are written again",
                position=Position(file=str(places.definitions_file), line=1, column=1),
            )
            for why in (self.definitions.why_unread, self.save_error)
            if why
        )
        return (*self.entries.diagnostics, *faults, *self.blocks.diagnostics)

    def blocked(self, tools: Iterable[str]) -> frozenset[str]:
        """Return which of these tools a person has blocked."""
        return frozenset(name for name in tools if self.blocks.block_for(name) is not None)

    def offers(self, files: Files, observations: Mapping[str, Observation]) -> dict[str, McpToolOffer]:
        """Return the tools of MCP servers and executables that may be used, by sidecar."""
        offer = self.definitions.offer if self._stores_lists else self.definitions.first_offer
        return {
            entry.id: offer(entry, listing_of(entry, observations))
            for entry in files.registry.entries
            if entry.kind in DESCRIBED_BY_PROGRAM and entry.id in files.trusted
            # An executable that does not say what it takes keeps the one tool that its file stands for.
            if (answer := _answer_of(entry, observations)) is None or not says_nothing(answer.finding)
        }


def listing_of(entry: SidecarEntry, observations: Mapping[str, Observation]) -> McpToolList | None:
    """Return what the program of exactly this value of the entry offers, of what the entry takes."""
    answer = _answer_of(entry, observations)
    listing = answer.listing if answer is not None else None
    if listing is None or entry.picked is None:
        return listing
    names = {pick.name for pick in entry.picked}
    return msgspec.structs.replace(
        listing,
        tools=tuple(tool for tool in listing.tools if tool.name in names),
        refused=tuple(tool for tool in listing.refused if tool.name in names),
    )


def _answer_of(entry: SidecarEntry, observations: Mapping[str, Observation]) -> Answer | None:
    found = observations.get(entry.id)
    return found.answer if found is not None and found.is_of(entry) else None
