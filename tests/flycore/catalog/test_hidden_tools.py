"""Degraded tools that the person's settings hide from agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from flycore.catalog.document import visible_catalog
from flycore.client.client import connect_unix
from flycore.model.enums import Effective
from flycore.server.mcp.tool_list import is_visible
from kits.kernel import ECHO, Root, tool
from kits.unix_socket import served

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("patterns", "hidden"), [([], False), (["task.*"], True), (["*"], True), (["web.*"], False)]
)
async def test_a_degraded_tool_is_not_listed_where_the_settings_hide_it(
    tmp_path: Path, patterns: list[str], hidden: bool
) -> None:
    root = Root(tmp_path)
    root.sidecar("theirs", ECHO, "task.background", tool("echo.free"))
    root.settings(agents={"hideDegraded": patterns})
    async with served(root), connect_unix(root.places.socket, viewer=True) as client:
        catalog = await client.catalog()
    view, well = catalog.capability("task.background"), catalog.capability("echo.free")
    assert view is not None
    assert well is not None
    assert view.stability.effective is Effective.DEGRADED
    assert view.hidden is hidden
    assert is_visible(view) is not hidden
    assert (view in visible_catalog(catalog)) is not hidden
    assert is_visible(well)
