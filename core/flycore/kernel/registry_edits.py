"""The files of a root as they are written, and the trust a person gave to their entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from flycore.approval.entry_summary import describe_entry
from flycore.approval.tool_definitions import ToolDefinitionStore
from flycore.approval.trust_store import TrustStore
from flycore.audit import events as audit_events
from flycore.catalog.builtin import KNOWN
from flycore.kernel.effective_entries import EffectiveFiles, effective_files
from flycore.kernel.load_state import RootEnvironment, read_files
from flycore.kernel.mcp_status import McpStatus
from flycore.model.approval import Outcome
from flycore.model.described import Import
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Kind, Source
from flycore.model.json import JsonObject
from flycore.model.question import TrustItem
from flycore.model.sidecar import SidecarEntry
from flycore.model.upstream import McpToolList, McpToolOffer
from flycore.registry.edits import add_entry, starter_entries, switch_entry, without_switch, write_starter
from flycore.registry.paths import REGISTRY_FILE

AcceptedEntries = tuple[tuple[str, str], ...]
"""Entries as (sidecar id, digest)."""
LogLines = tuple[tuple[str, JsonObject], ...]
"""Lines for the log: event and fields."""
_ACCEPTED = Outcome(accepted=True)


class EditResult(NamedTuple):
    """What became of a person's wish, and the lines the log is to have of it."""

    outcome: Outcome
    lines: LogLines = ()


class TrustedRegistry:
    """Reads the files when it is made and when told to. Not for two threads at once."""

    def __init__(self, ground: RootEnvironment) -> None:
        self._ground = ground
        self._store = TrustStore.load(ground.places.trust_file)
        self._book = ToolDefinitionStore.load(ground.places.definitions_file)
        self._heard: Mapping[str, McpStatus] = {}
        self._unkept = ""
        self._declared = read_files(ground, None)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Why the kept trust could not be relied on."""
        faults = [why for why in (self._book.why_unread, self._unkept) if why]
        return (*self._store.diagnostics, *(self._fault(why) for why in faults))

    def _fault(self, why: str) -> Diagnostic:
        return Diagnostic(
            severity=Severity.ERROR,
            rule="definitions-file",
            message=f"it is not known what MCP servers offered when they were approved: {why}",
            remedy="press T in the console: what is accepted there is written anew",
            position=Position(file=str(self._ground.places.definitions_file), line=1, column=1),
        )

    def read(self) -> None:
        """Read the files again. A registry that does not parse keeps its last good entries."""
        self._declared = read_files(self._ground, self._declared)

    def _take_lists(self, heard: Mapping[str, McpStatus], now: float) -> None:
        """A first list comes with the trust in its entry."""
        self._heard = heard
        for entry in self._entries():
            listing = self._listing(entry)
            if listing is not None and self._store.is_trusted(entry):
                self._unkept = self._book.accept_first(entry, listing, now)

    def offers(self, held: EffectiveFiles) -> dict[str, McpToolOffer]:
        """What MCP servers in force offer, by sidecar."""
        return {
            entry.id: self._book.offer(entry, self._listing(entry))
            for entry in held.files.registry.entries
            if entry.kind is Kind.MCP and entry.id in held.trusted
        }

    def effective(
        self, heard: Mapping[str, McpStatus], now: float
    ) -> tuple[EffectiveFiles, tuple[TrustItem, ...]]:
        """What is in force, and what waits: entries described by what they would run, and tools of servers
        that changed, by what was `heard` of them. Where both wait for one entry, the entry is first."""
        self._take_lists(heard, now)
        declared = self._declared

        def describe(entry: SidecarEntry) -> tuple[str, ...]:
            return describe_entry(entry, declared.resolutions(entry.id))

        held = effective_files(self._ground, declared, self._store)
        waiting = self._store.pending(declared.registry, describe)
        first = {item.sidecar for item in waiting}
        changed = (self._changed(entry) for entry in self._entries() if entry.id not in first)
        return held, (*waiting, *(item for item in changed if item is not None))

    def _entries(self) -> Iterator[SidecarEntry]:
        return (entry for entry in self._declared.registry.entries if entry.kind is Kind.MCP)

    def _listing(self, entry: SidecarEntry) -> McpToolList | None:
        """What the server of exactly this value of the entry offers, of what the entry takes."""
        heard = self._heard.get(entry.id)
        if heard is None or heard.listing is None or heard.entry != entry.digest:
            return None
        if entry.picked is None:
            return heard.listing
        names = {pick.name for pick in entry.picked}
        return msgspec.structs.replace(
            heard.listing,
            tools=tuple(tool for tool in heard.listing.tools if tool.name in names),
            refused=tuple(tool for tool in heard.listing.refused if tool.name in names),
        )

    def _changed(self, entry: SidecarEntry) -> TrustItem | None:
        """The tools that wait, of an entry that is trusted itself."""
        listing = self._listing(entry)
        if listing is None or not self._store.is_trusted(entry):
            return None
        return self._book.pending(entry, self._book.offer(entry, listing), listing)

    def _accept_changed(
        self, accepted: AcceptedEntries, now: float
    ) -> tuple[AcceptedEntries, tuple[str, ...]]:
        """Trust the tools that were shown and still are so; those pairs, and why others failed."""
        taken: list[tuple[str, str]] = []
        failed: list[str] = []
        for entry in self._entries():
            item, listing = self._changed(entry), self._listing(entry)
            if item is None or listing is None or (entry.id, item.digest) not in accepted:
                continue
            taken.append((entry.id, item.digest))
            outcome = self._book.accept(entry, listing, now)
            failed += [] if outcome.accepted else [outcome.why_not]
        return tuple(taken), tuple(failed)

    def accept(self, accepted: AcceptedEntries, now: float, by: str) -> EditResult:
        """Trust entries, as shown, that still are so in the files. `now` is Unix time, `by` says in the log
        who wished it."""
        self.read()
        tools, failed = self._accept_changed(accepted, now)
        rest = tuple(pair for pair in accepted if pair not in tools)
        outcome = self._store.accept(rest, self._declared.registry, now) if rest or not tools else _ACCEPTED
        given = tuple(pair for pair in rest if self._is_trusted_now(*pair))
        if failed:
            outcome = Outcome(accepted=False, why_not="; ".join(failed))
        return EditResult(outcome, _trust_lines((*given, *(() if failed else tools)), by))

    def revoke(self, by: str) -> EditResult:
        """Trust nothing any longer; `by` says in the log who wished it."""
        given = self._store.accepted_entries()
        outcome = self._store.revoke()
        fields = audit_events.trust_decided(given, by=by, revoked=True)
        told = outcome.accepted and bool(given)
        return EditResult(outcome, ((audit_events.TRUST_DECIDED, fields),) if told else ())

    def set_enabled(self, sidecar: str, enabled: bool, reason: str, now: float, by: str) -> EditResult:
        """Switch an entry on or off in the file that declares it. Trust goes on where it was given to a value
        that is equal but for the switch: then the person has changed nothing else."""
        self.read()
        entry = self._declared.registry.entry(sidecar)
        if entry is None:
            return EditResult(Outcome(accepted=False, why_not=f"the registry has no entry {sidecar}"))
        file = entry.position.file
        made = switch_entry(self._ground.places, entry.source, sidecar, enabled, reason, file)
        if made.why_not:
            return EditResult(Outcome(accepted=False, why_not=made.why_not))
        self.read()
        fields = audit_events.entry_switched(sidecar, file, enabled=enabled, reason=reason, by=by)
        return EditResult(
            Outcome(accepted=True),
            ((audit_events.REGISTRY_EDITED, fields), *self._trust_switched(entry, enabled, now, by)),
        )

    def _trust_switched(self, before: SidecarEntry, enabled: bool, now: float, by: str) -> LogLines:
        """Trust what the switch made of a trusted entry, and nothing that came with it."""
        entry = self._declared.registry.entry(before.id)
        last = self._store.last_trusted(before.id)
        if entry is None or last is None or last.raw is None or entry.source is not Source.PROJECT:
            return ()
        same = without_switch(last.raw) == without_switch(before.raw) == without_switch(entry.raw)
        if not same or entry.enabled is not enabled:
            return ()
        return self._trust(((entry.id, entry.digest),), now, by)

    def write_starter(self, now: float, by: str) -> EditResult:
        """Write the starter registry where there is none. Its entries are trusted, as the person was shown
        the very text; another's that stand there instead are not."""
        why_not = write_starter(self._ground.places)
        if why_not:
            return EditResult(Outcome(accepted=False, why_not=why_not))
        self.read()
        fields = audit_events.starter_written(REGISTRY_FILE, by=by)
        shown = tuple((entry.id, entry.digest) for entry in starter_entries(frozenset(KNOWN)))
        there = {entry.id: entry.digest for entry in self._declared.registry.entries}
        given = tuple((sidecar, digest) for sidecar, digest in shown if there.get(sidecar) == digest)
        return EditResult(
            Outcome(accepted=True),
            ((audit_events.REGISTRY_EDITED, fields), *self._trust(given, now, by)),
        )

    def import_server(self, offered: Import, now: float, by: str) -> EditResult:
        """Write an entry for a server of another client's file, and trust it, as the person was shown every
        key of it. `offered` is what was found in that file just now, `by` says in the log who did."""
        made = add_entry(self._ground.places, offered.id, offered.entry)
        if made.why_not:
            return EditResult(Outcome(accepted=False, why_not=made.why_not))
        self.read()
        fields = audit_events.server_imported(offered.id, offered.digest, by=by)
        entry = self._declared.registry.entry(offered.id)
        same = entry is not None and entry.source is Source.PROJECT and entry.raw == offered.entry
        given = ((offered.id, entry.digest),) if entry is not None and same else ()
        return EditResult(
            Outcome(accepted=True),
            ((audit_events.REGISTRY_EDITED, fields), *self._trust(given, now, by)),
        )

    def _trust(self, pairs: AcceptedEntries, now: float, by: str) -> LogLines:
        self._store.accept(pairs, self._declared.registry, now)
        return _trust_lines(tuple(pair for pair in pairs if self._is_trusted_now(*pair)), by)

    def _is_trusted_now(self, sidecar: str, shown: str) -> bool:
        """Whether that value stands in the files and is trusted."""
        entry = self._declared.registry.entry(sidecar)
        return entry is not None and entry.digest == shown and self._store.is_trusted(entry)


def _trust_lines(given: AcceptedEntries, by: str) -> LogLines:
    fields = audit_events.trust_decided(given, by=by)
    return ((audit_events.TRUST_DECIDED, fields),) if given else ()


RegistryEdit = Callable[[TrustedRegistry, float], EditResult]
"""What a person wants done, in a thread of its own; at that Unix time."""
