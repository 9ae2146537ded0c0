"""MCP clients: the servers in their files. flytui lists these servers; a migration makes them entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from flycore.discovery.other_systems.model import FoundFile, Migration, OtherSystem
from flycore.discovery.servers import HOME_FILES, PROJECT_FILES, read_servers
from flycore.model.described import Described, DescribedState
from flycore.model.diagnostics import Diagnostic
from flycore.model.migration import Verdict
from flycore.registry.paths import REGISTRY_FILE

if TYPE_CHECKING:
    from flycore.discovery.scan import SearchRoots


def files(roots: SearchRoots) -> Iterator[FoundFile]:
    """Yield the files of the project and of the person."""
    yield from (FoundFile(roots.project, file) for file in PROJECT_FILES)
    if roots.home is not None:
        yield from (FoundFile(roots.home, file) for file in HOME_FILES)


def check(text: str, shown: str) -> Iterable[Diagnostic]:
    """Return no findings: `lint` has those of these files among the sources of the catalog."""
    return ()


def migrate(roots: SearchRoots, into: Migration) -> None:
    """Add an entry for each server of the project's files."""
    app_root = str(into.app_root)
    for server in read_servers(roots.project, PROJECT_FILES, app_root):
        _migrate_server(server, into)
    for server in read_servers(roots.home, HOME_FILES, app_root) if roots.home is not None else ():
        why = "it serves all your projects, so it is not written into this one; flytui inspect can import it"
        into.as_is(server.path, server.name, f"listed in the catalog; {why}")


def _migrate_server(server: Described, into: Migration) -> None:
    if server.state is DescribedState.ITSELF:
        into.as_is(server.path, server.name, "it is flytui's own, by which that client reaches flytui")
    elif server.offer is None:
        reason = server.reasons[0] if server.reasons else None
        why = f"{reason.message}: {reason.remedy}" if reason is not None else "it cannot be imported"
        into.cannot(server.path, server.name, why)
    else:
        notes = "; ".join(server.offer.notes)
        verdict = Verdict.REWRITTEN if notes else Verdict.TAKEN
        line = into.line(verdict, server.path, server.name, notes, REGISTRY_FILE)
        into.entries.append((server.offer.id, server.offer.entry, line))


CLIENTS = OtherSystem("clients", "MCP clients", (), files, check, migrate)
