"""Trust that follows the repository: what a person trusted in another worktree or clone is said where the
same entry waits. It permits nothing: the entry waits like every other one."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from flycore.approval.trust_store import TrustPlace, TrustRecord
from flycore.approval.trusted_roots import TrustedRoots, nearest_record
from flycore.discovery.repository import find_repository, find_worktree
from flycore.model.enums import Level, ProgramComparison, SealKind
from flycore.model.json import Json, digest
from flycore.model.json_diff import json_difference
from flycore.model.program import ResolvedProgram, Seal
from flycore.model.question import TrustItem
from flycore.model.repository import RepositoryIdentity, TrustedElsewhere
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.pipeline.context import RootEnvironment
from flycore.pipeline.prepare import Sealed, seal_resolved
from flycore.sandbox.digests import file_digest, lies_beneath


class TrustElsewhere:
    """Finds the trust of other folders of this root's repository. Reads files, and runs nothing."""

    def __init__(self, environment: RootEnvironment) -> None:
        self._environment = environment
        self._roots = TrustedRoots(environment.places)

    def add_to(self, items: tuple[TrustItem, ...], registry: Registry) -> tuple[TrustItem, ...]:
        """Return the waiting entries, with what is trusted of them elsewhere."""
        records = self._roots.records(item.sidecar for item in items)
        # Reading the history of a repository takes time, and mostly nobody needs it.
        here = _repository(self._environment) if records else None
        if here is None:
            return items
        made: list[TrustItem] = []
        for item in items:
            record = nearest_record(records.get(item.sidecar, ()), item.digest, here)
            entry = registry.entry(item.sidecar)
            if record is not None and entry is not None:
                elsewhere = self._compare(record, entry, registry)
                item = msgspec.structs.replace(item, elsewhere=elsewhere)
            made.append(item)
        return tuple(made)

    def _compare(
        self, record: TrustRecord, entry: SidecarEntry, registry: Registry
    ) -> TrustedElsewhere | None:
        place = record.place
        if place is None:
            return None
        if record.digest != entry.digest:
            changed = () if record.raw is None else json_difference(record.raw, entry.raw)
            return TrustedElsewhere(root=place.root, at=record.at, same=False, difference=changed)
        # Programs are read for this value only, which the person has trusted once: what another value names
        # may be anything.
        programs = content_of_programs(self._environment, registry, entry)
        compared = ProgramComparison.UNKNOWN
        if programs and place.programs:
            same = programs == place.programs
            compared = ProgramComparison.SAME if same else ProgramComparison.CHANGED
        return TrustedElsewhere(root=place.root, at=record.at, same=True, programs=compared)


def _repository(environment: RootEnvironment) -> RepositoryIdentity | None:
    app_root = environment.places.app_root
    return find_repository(app_root) or find_worktree(app_root)


def place_of(environment: RootEnvironment, registry: Registry) -> Callable[[SidecarEntry], TrustPlace | None]:
    """Return what says where an entry of this root is trusted, with the content of its programs now."""
    here = _repository(environment)

    def place(entry: SidecarEntry) -> TrustPlace | None:
        if here is None:
            return None
        return TrustPlace(
            root=str(environment.places.app_root),
            repository=here,
            programs=content_of_programs(environment, registry, entry),
        )

    return place


def content_of_programs(environment: RootEnvironment, registry: Registry, entry: SidecarEntry) -> str:
    """Return a digest over what the seals of an entry's programs hold of the app root, by paths relative to
    it: equal in two folders with the same content. Empty where the programs cannot be read."""
    if entry.url or not entry.command:
        return digest(["address"])  # which is in the entry
    # Nothing is recorded as accepted by this: the entry may not be trusted.
    program = environment.resolve(registry, entry, entry.command, entry.args)
    # The level decides nothing of what is compared.
    sealed = seal_resolved(environment, registry, entry, program, Level.ENFORCED)
    if not isinstance(sealed, Sealed):
        return ""
    root = os.path.realpath(registry.app_root)
    programs = [(sealed.program, sealed.seal)]
    programs += [(sealed.delegate_programs[item.name], item.seal) for item in sealed.delegates]
    try:
        return digest([_content(program, seal, root) for program, seal in programs])
    except OSError:
        return ""


def _content(program: ResolvedProgram, seal: Seal, root: str) -> Json:
    if seal.kind is SealKind.BUNDLED:
        return ["bundled"]
    copies: list[Json] = [[_place(path, root), content] for path, content in seal.copies]
    # The settings and hooks of git are those of a clone, and no content of the repository.
    parts: list[Json] = [
        [_place(part.path, root), part.why, part.digest]
        for part in seal.parts
        if lies_beneath(part.path, root) and ".git" not in part.path[len(root) :].split("/")
    ]
    files: list[Json] = [_file(path, root) for path in (program.path, program.interpreter) if path]
    return [seal.kind.value, files, copies, parts]


def _file(path: str, root: str) -> Json:
    """A file of the app root with its content; any other by its path, because it is the same for both."""
    if path.startswith("/") and lies_beneath(path, root):
        return [_place(path, root), file_digest(path)[1]]
    return [path]


def _place(path: str, root: str) -> str:
    return f"app:{path[len(root) + 1 :]}" if lies_beneath(path, root) else path
