"""The registry of a root as written, the trust in its entries, and a person's edits of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from flycore.audit import events as audit_events
from flycore.catalog.builtin import KNOWN
from flycore.catalog.observations import Observation
from flycore.catalog.reasons import permit_digest, permitted
from flycore.kernel.accepted_policy import AcceptedPolicy
from flycore.kernel.effective_entries import entry_to_switch
from flycore.kernel.load_state import read_files, sandbox_support
from flycore.kernel.replaced_entries import summarize_entry, with_facts
from flycore.kernel.root_state import root_state
from flycore.kernel.tool_creation import create_tool
from flycore.kernel.trust import DESCRIBED_BY_PROGRAM, Trust, listing_of
from flycore.kernel.trusted_elsewhere import TrustElsewhere, place_of
from flycore.model.approval import Outcome
from flycore.model.described import Described, Import
from flycore.model.enums import Source
from flycore.model.json import JsonObject
from flycore.model.question import TrustItem
from flycore.model.refusals import Refusals
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.pipeline.context import Files, RootEnvironment, RootState
from flycore.pipeline.prepare import Sealed, accept_programs, seal_programs
from flycore.registry.edits import add_entry, permit_entry, switch_entry, without_switch
from flycore.registry.parse_registry import parse_registry
from flycore.registry.starter import plan_starter, write_plan

AcceptedEntries = tuple[tuple[str, str], ...]
"""Entries as (sidecar id, digest)."""
LogLines = tuple[tuple[str, JsonObject], ...]
"""Log lines as (event, fields)."""
_ACCEPTED = Outcome(accepted=True)


class EditResult(NamedTuple):
    """The outcome of a person's edit, and the log lines about it, which the caller writes."""

    outcome: Outcome
    lines: LogLines = ()


class TrustedRegistry:
    """The declared entries of a root and the trust in them. The files are read at the start and by `read`.

    Not for use by two threads at once.
    """

    def __init__(self, environment: RootEnvironment) -> None:
        self._environment = environment
        self.trust = Trust.load(environment.places)
        self._store, self._definitions = self.trust.entries, self.trust.definitions
        self._elsewhere = TrustElsewhere(environment)
        self._observations: Mapping[str, Observation] = {}
        self._declared = read_files(environment, None)
        self.policy = AcceptedPolicy(environment.places.policy_rules_file, self._declared.policy)

    def read(self) -> None:
        """Read the files again. If the registry does not parse, its last good entries stay."""
        self.policy.begin_read()
        self._declared = read_files(self._environment, self._declared)

    @property
    def declared(self) -> Files:
        """The files as they were read last."""
        return self._declared

    def state(
        self, observations: Mapping[str, Observation], now: float, described: tuple[Described, ...]
    ) -> tuple[RootState, tuple[TrustItem, ...]]:
        """Return the state, and what waits for trust. The first tool list of each trusted entry is stored: it
        is accepted with the trust in the entry."""
        self._observations = observations
        for entry in self._entries():
            listing = listing_of(entry, observations)
            if listing is not None and self._store.is_trusted(entry):
                self.trust.save_error = self._definitions.accept_first(entry, listing, now)
        files = msgspec.structs.replace(self._declared, policy=self.policy.apply(self._declared.policy))
        return root_state(self._environment, files, self.trust, observations, now, described), self._pending()

    def _pending(self) -> tuple[TrustItem, ...]:
        """Return what waits for trust: new or changed entries, and changed MCP tools.

        If an entry and its tools wait, only the entry is returned.
        """
        declared = self._declared

        def describe(entry: SidecarEntry) -> tuple[str, ...]:
            return summarize_entry(entry, declared)

        waiting = self._elsewhere.add_to(self._store.pending(declared.registry, describe), declared.registry)
        first = {(item.sidecar, item.digest) for item in waiting}
        trusted = [entry for entry in self._entries() if (entry.id, entry.digest) not in first]
        changed = (self._changed_tools(entry) for entry in trusted)
        programs = (self._changed_program(entry) for entry in trusted)
        more = (item for item in (*programs, *changed) if item is not None)
        return with_facts((*waiting, *more), declared, self._environment.bundled)

    def _changed_program(self, entry: SidecarEntry) -> TrustItem | None:
        """Return the program of a trusted MCP entry that was not started because it changed; None if there is
        none."""
        refused = self._environment.accepted.refused.get(entry.id)
        if refused is None or refused.entry != entry.digest or not self._store.is_trusted(entry):
            return None
        return TrustItem(
            sidecar=entry.id,
            digest=refused.programs,
            changed=True,
            lines=summarize_entry(entry, self._declared),
            difference=("its program, or a file that its seal holds, changed since you trusted it",),
        )

    def _accept_changed_programs(self, accepted: AcceptedEntries) -> AcceptedEntries:
        """Accept the changed programs that are still as shown. Return their pairs."""
        pairs: list[tuple[str, str]] = []
        for entry in self._entries():
            item = self._changed_program(entry)
            if item is None or (entry.id, item.digest) not in accepted:
                continue
            sealed = seal_programs(self._environment, self._declared.registry, entry, sandbox_support())
            if isinstance(sealed, Sealed) and sealed.accepted_digest(entry) == item.digest:
                accept_programs(self._environment, entry, sealed)
                pairs.append((entry.id, item.digest))
        return tuple(pairs)

    def _entries(self) -> Iterator[SidecarEntry]:
        # The user's own entries, too, that the project's replace only once they are trusted.
        registry = self._declared.registry
        declared = (*registry.entries, *registry.replaced)
        return (entry for entry in declared if entry.kind in DESCRIBED_BY_PROGRAM)

    def _changed_tools(self, entry: SidecarEntry) -> TrustItem | None:
        """Return the changed tools of a trusted entry that wait for a person; None if there are none."""
        listing = listing_of(entry, self._observations)
        if listing is None or not self._store.is_trusted(entry):
            return None
        return self._definitions.pending(entry, self._definitions.offer(entry, listing), listing)

    def _accept_changed_tools(
        self, accepted: AcceptedEntries, now: float
    ) -> tuple[AcceptedEntries, tuple[str, ...]]:
        """Accept the changed tools that are still as shown. Return their pairs, and why others failed."""
        accepted_pairs: list[tuple[str, str]] = []
        failed: list[str] = []
        for entry in self._entries():
            item, listing = self._changed_tools(entry), listing_of(entry, self._observations)
            if item is None or listing is None or (entry.id, item.digest) not in accepted:
                continue
            accepted_pairs.append((entry.id, item.digest))
            outcome = self._definitions.accept(entry, listing, now)
            failed += [] if outcome.accepted else [outcome.why_not]
        return tuple(accepted_pairs), tuple(failed)

    def accept(self, accepted: AcceptedEntries, now: float, by: str) -> EditResult:
        """Trust the entries that are still in the files as they were shown.

        `now` is Unix time in seconds; `by` names the console in the log.
        """
        self.read()  # the files may have changed since they were shown
        tools, failed = self._accept_changed_tools(accepted, now)
        tools = (*self._accept_changed_programs(accepted), *tools)
        rest = tuple(pair for pair in accepted if pair not in tools)
        outcome = self._store_trust(rest, now) if rest or not tools else _ACCEPTED
        accepted_pairs = tuple(pair for pair in rest if self._is_trusted_now(*pair))
        self._accept_programs(accepted_pairs)
        if failed:
            outcome = Outcome(accepted=False, why_not="; ".join(failed))
        lines = _trust_lines((*accepted_pairs, *(() if failed else tools)), by)
        return EditResult(outcome, (*lines, *self._review_lines(accepted_pairs, by)))

    def _review_lines(self, accepted: AcceptedEntries, by: str) -> LogLines:
        """Return a log line for each tool of an agent that was trusted, and so has been reviewed."""
        entries = (self._declared.registry.entry(sidecar) for sidecar, _ in accepted)
        return tuple(
            (audit_events.TOOL_REVIEWED, audit_events.tool_reviewed(entry, by=by))
            for entry in entries
            if entry is not None and entry.creator
        )

    def _accept_programs(self, accepted: AcceptedEntries) -> None:
        """Record the programs of entries that have just been trusted, as they are at this moment."""
        accept_trusted(self._environment, self._declared.registry, tuple(sidecar for sidecar, _ in accepted))

    def create_tool(self, name: str, definition: JsonObject | str, creator: str) -> EditResult:
        """Keep a tool that an agent made for a person's review."""
        self.read()
        made = create_tool(self._environment.places, self._declared, name, definition, creator)
        self.read()
        return EditResult(made.outcome, made.lines)

    def accept_policy(self, shown: str, by: str) -> EditResult:
        """Accept the looser rules of the policy files, if they are still as they were shown."""
        self.read()
        if self.policy.accept(self._declared.policy, shown, by):
            return EditResult(_ACCEPTED)
        return EditResult(Outcome(accepted=False, why_not="the policy file has changed since it was shown"))

    def revoke(self, by: str) -> EditResult:
        """Revoke all trust; `by` names the console or command in the log."""
        revoked = self._store.accepted_entries()
        outcome = self._store.revoke()
        fields = audit_events.trust_decided(revoked, by=by, revoked=True)
        lines = ((audit_events.TRUST_DECIDED, fields),) if outcome.accepted and revoked else ()
        return EditResult(outcome, lines)

    def set_enabled(self, sidecar: str, enabled: bool, reason: str, now: float, by: str) -> EditResult:
        """Switch an entry on or off in the file that declares it.

        A trusted entry stays trusted if nothing but the switch changed.
        """
        self.read()
        entry = entry_to_switch(self._environment, self._declared, self._store, sidecar, enabled)
        if entry is None:
            return EditResult(Outcome(accepted=False, why_not=f"the registry has no entry {sidecar}"))
        file = entry.position.file
        edited = switch_entry(self._environment.places, entry.source, sidecar, enabled, reason, file)
        if edited.why_not:
            return EditResult(Outcome(accepted=False, why_not=edited.why_not))
        self.read()
        fields = audit_events.entry_switched(sidecar, file, enabled=enabled, reason=reason, by=by)
        return EditResult(
            Outcome(accepted=True),
            ((audit_events.REGISTRY_EDITED, fields), *self._trust_switched(entry, enabled, now, by)),
        )

    def permit(self, entry: SidecarEntry, refusals: Refusals, by: str) -> EditResult:
        """Add what a call of the entry was refused to its permissions. The changed entry is not trusted."""
        self.read()
        declared = self._declared.registry.entry(entry.id)
        if declared is None or declared.digest != entry.digest:
            return EditResult(Outcome(accepted=False, why_not="the entry has changed since it was shown"))
        edited = permit_entry(self._environment.places, declared, permitted(declared, refusals))
        if edited.why_not:
            return EditResult(Outcome(accepted=False, why_not=edited.why_not))
        self.read()
        shown = permit_digest(declared, refusals)
        fields = audit_events.permissions_added(entry.id, declared.position.file, shown, by=by)
        return EditResult(Outcome(accepted=True), ((audit_events.REGISTRY_EDITED, fields),))

    def _trust_switched(self, before: SidecarEntry, enabled: bool, now: float, by: str) -> LogLines:
        """Trust the switched value of a trusted entry."""
        entry = self._declared.registry.entry(before.id)
        last = self._store.last_trusted(before.id)
        if entry is None or last is None or last.raw is None or before.source is not Source.PROJECT:
            return ()
        # All three are compared: another program may edit the file at this moment, which must not be trusted.
        same = without_switch(last.raw) == without_switch(before.raw) == without_switch(entry.raw)
        if not same or entry.enabled is not enabled:
            return ()
        return self._trust(((entry.id, entry.digest),), now, by)

    def write_starter(self, sidecars: tuple[str, ...], shown: str, now: float, by: str) -> EditResult:
        """Write these entries of the starter registry, and trust them, as the person saw their text.

        `shown` is the digest of the change that the person saw; `by` names the console in the log.
        """
        places = self._environment.places
        edit = plan_starter(places, self._environment.environ, sidecars)
        if not edit.plan.why_not and edit.plan.digest != shown:
            why_not = "the file has changed since it was shown: look at it again"
            return EditResult(Outcome(accepted=False, why_not=why_not))
        why_not = write_plan(places, edit)
        if why_not:
            return EditResult(Outcome(accepted=False, why_not=why_not))
        self.read()
        fields = audit_events.starter_written(edit.plan.file, edit.plan.sidecars, by=by)
        entries, _ = parse_registry(edit.after, edit.plan.file, Source.PROJECT, frozenset(KNOWN))
        written = {entry.id: entry.digest for entry in entries or ()}
        there = {entry.id: entry.digest for entry in self._declared.registry.entries}
        # Another program may edit the file at this moment: only what the person saw is trusted.
        accepted_pairs = tuple(
            (sidecar, written[sidecar])
            for sidecar in edit.plan.sidecars
            if there.get(sidecar) == written.get(sidecar)
        )
        return EditResult(
            Outcome(accepted=True),
            ((audit_events.REGISTRY_EDITED, fields), *self._trust(accepted_pairs, now, by)),
        )

    def import_server(self, offered: Import, now: float, by: str) -> EditResult:
        """Write an entry for a server of another client's file, and trust it, as the person saw all of it.

        `offered` is what that file has now; `by` names the console or command in the log.
        """
        edited = add_entry(self._environment.places, offered.id, offered.entry)
        if edited.why_not:
            return EditResult(Outcome(accepted=False, why_not=edited.why_not))
        self.read()
        fields = audit_events.server_imported(offered.id, offered.digest, by=by)
        written = self.trust_written(offered.id, offered.entry, now, by)
        return EditResult(Outcome(accepted=True), ((audit_events.REGISTRY_EDITED, fields), *written))

    def trust_written(self, sidecar: str, raw: JsonObject, now: float, by: str) -> LogLines:
        """Trust the project's entry that was just written, if it still is what the person saw: `raw`. Its
        programs are accepted as they are at this moment."""
        entry = self._declared.registry.entry(sidecar)
        if entry is None or entry.raw != raw or entry.source not in (Source.PROJECT, Source.USER):
            return ()
        lines: LogLines = ()
        if entry.source is Source.PROJECT:
            lines = self._trust(((sidecar, entry.digest),), now, by)
        self._accept_programs(((sidecar, entry.digest),))
        return lines

    def _trust(self, pairs: AcceptedEntries, now: float, by: str) -> LogLines:
        self._store_trust(pairs, now)
        return _trust_lines(tuple(pair for pair in pairs if self._is_trusted_now(*pair)), by)

    def _store_trust(self, pairs: AcceptedEntries, now: float) -> Outcome:
        registry = self._declared.registry
        return self._store.accept(pairs, registry, now, place_of(self._environment, registry))

    def _is_trusted_now(self, sidecar: str, shown: str) -> bool:
        """Whether that value is in the files and trusted."""
        entry = self._declared.registry.entry(sidecar)
        return entry is not None and entry.digest == shown and self._store.is_trusted(entry)


def _trust_lines(accepted_pairs: AcceptedEntries, by: str) -> LogLines:
    fields = audit_events.trust_decided(accepted_pairs, by=by)
    return ((audit_events.TRUST_DECIDED, fields),) if accepted_pairs else ()


RegistryEdit = Callable[[TrustedRegistry, float], EditResult]
"""An edit by a person, made at that Unix time. It is called in a worker thread."""


def accept_trusted(environment: RootEnvironment, registry: Registry, sidecars: tuple[str, ...]) -> None:
    """Record the programs of entries that a person has just trusted. What cannot be sealed now is recorded
    when it is first called."""
    for sidecar in sidecars:
        entry = registry.entry(sidecar)
        if entry is None or not entry.command:
            continue
        sealed = seal_programs(environment, registry, entry, sandbox_support())
        if isinstance(sealed, Sealed):
            accept_programs(environment, entry, sealed)
