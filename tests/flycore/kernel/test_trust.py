"""Which tools of MCP servers and executables may be used by what persons decided."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from flycore.catalog.observations import Answer, Observations
from flycore.catalog.probes import ProbeFinding
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.trust import Trust, listing_of
from flycore.model.enums import ProbeState, ReasonCode
from flycore.model.sidecar import ToolClaim
from flycore.model.stability import Reason
from flycore.model.upstream import McpToolList, McpToolOffer, ToolDefinition, UnreadableTool
from flycore.pipeline.context import Files
from kits.kernel import Root

NOW = 1_700_000_000.0
ADD, LIST = (ToolDefinition(name=name, input_schema={"type": "object"}) for name in ("add", "list"))
LISTING = McpToolList(tools=(ADD, LIST), refused=(UnreadableTool(name="odd", why="is odd"),))
HEALTHY = ProbeFinding(state=ProbeState.HEALTHY)
SILENT = ProbeFinding(
    state=ProbeState.DEGRADED,
    reason=Reason(code=ReasonCode.SCHEMA_UNKNOWN, dimension="probe", message="silent", remedy="ask"),
)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecars["notes"] = {"kind": "mcp", "command": "notes"}
    root.write()
    return root


def read(root: Root, *trusted: str) -> tuple[Files, Observations]:
    """The root's files, of which these entries may run, and an answer of the server."""
    files = msgspec.structs.replace(
        read_files(find_environment(root.places, root.environ), None), trusted=frozenset(trusted)
    )
    observations = Observations()
    observations.note(files.registry.entries[0], Answer(finding=HEALTHY, listing=LISTING))
    return files, observations


def test_nothing_is_offered_without_trust(root: Root) -> None:
    files, observations = read(root)
    assert Trust.load(root.places).offers(files, observations.current) == {}


def test_a_first_list_waits_where_it_should_have_been_stored(root: Root) -> None:
    files, observations = read(root, "notes")
    offer = Trust.load(root.places).offers(files, observations.current)["notes"]
    assert (offer.accepted, set(offer.waiting)) == ((), {"add", "list"})
    offer = Trust.load(root.places, stores_lists=False).offers(files, observations.current)["notes"]
    assert (offer.accepted, offer.waiting) == ((ADD, LIST), {})


def test_an_accepted_list_is_offered_until_the_entry_changes(root: Root) -> None:
    files, observations = read(root, "notes")
    trust = Trust.load(root.places)
    assert not trust.definitions.accept_first(files.registry.entries[0], LISTING, NOW)
    assert trust.offers(files, observations.current)["notes"].accepted == (ADD, LIST)
    root.sidecars["notes"]["args"] = ["--other"]
    root.write()
    changed, _ = read(root, "notes")
    assert trust.offers(changed, observations.current)["notes"] == McpToolOffer()


def test_a_program_that_does_not_say_what_it_takes_offers_no_list(root: Root) -> None:
    files, observations = read(root, "notes")
    observations.note(files.registry.entries[0], Answer(finding=SILENT))
    assert Trust.load(root.places).offers(files, observations.current) == {}


def test_a_listing_is_cut_to_what_the_entry_takes(root: Root) -> None:
    files, observations = read(root, "notes")
    entry = files.registry.entries[0]
    assert listing_of(entry, observations.current) == LISTING
    picking = msgspec.structs.replace(entry, picked=(ToolClaim(name="add"),))
    assert listing_of(picking, observations.current) == McpToolList(tools=(ADD,))
    other = msgspec.structs.replace(entry, digest="other")
    assert listing_of(other, observations.current) is None
