"""What the console shows and copies of a tool is the same from the outline as from the whole catalog."""

from __future__ import annotations

import msgspec

from flycore.catalog.document import outlined
from flycore.model.catalog import Catalog, SidecarView
from flycore.model.json import JsonObject
from flycore.model.sidecar import ToolClaim
from flytui.console.catalog.catalog_rows import rows_of
from flytui.console.catalog.details import as_json, details_lines
from flytui.console.catalog.explanation import change_lines, why_json, why_lines
from flytui.console.catalog.tool_list import catalog_problems
from kits.values import NOW, sample_catalog

SCHEMA: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def written(view: SidecarView) -> SidecarView:
    """The sidecar with all that its file says of it."""
    tools = tuple(
        ToolClaim(name=name, spec={"name": name, "inputSchema": SCHEMA}) for name in view.entry.tool_names
    )
    raw: JsonObject = {"command": "true", "tools": [claim.spec for claim in tools]}
    entry = msgspec.structs.replace(view.entry, raw=raw, text=f'"{view.id}": {{}}', tools=tools)
    return msgspec.structs.replace(view, entry=entry, tool_count=len(tools))


def whole_catalog() -> Catalog:
    catalog = sample_catalog()
    views = tuple(
        msgspec.structs.replace(
            view, capability=msgspec.structs.replace(view.capability, input_schema=SCHEMA, examples=({},))
        )
        for view in catalog.capabilities
    )
    return msgspec.structs.replace(
        catalog, sidecars=tuple(written(view) for view in catalog.sidecars), capabilities=views
    )


def test_every_page_and_every_copy_is_the_same() -> None:
    whole, outline = whole_catalog(), outlined(whole_catalog())
    assert whole != outline
    assert catalog_problems(whole) == catalog_problems(outline)
    for row, own in zip(rows_of(outline, frozenset(), {}), rows_of(whole, frozenset(), {}), strict=True):
        for width in (60, 120):
            assert details_lines(row, NOW, width) == details_lines(own, NOW, width)
            assert why_lines(row, width) == why_lines(own, width)
            assert change_lines(row, (), width) == change_lines(own, (), width)
        assert as_json(row) == as_json(own)
        assert why_json(row) == why_json(own)
        assert row.filter_item == own.filter_item


def test_a_sidecar_that_offers_no_tool_keeps_its_entry() -> None:
    whole = whole_catalog()
    outline = outlined(whole)
    bare = [view.id for view in whole.sidecars if not view.tool_count]
    assert bare
    assert [outline.sidecar(name) for name in bare] == [whole.sidecar(name) for name in bare]
