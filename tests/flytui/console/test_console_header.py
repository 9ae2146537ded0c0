"""The header keeps its facts: what has no room beside the root stands below."""

from __future__ import annotations

import anyio
import pytest

from consolekit import world
from flytui.console.desk import Desk
from flytui.console.header import header_lines
from flytui.console.paint import text_of


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_header_keeps_every_fact_it_has_room_for(width: int) -> None:
    desk = Desk(client=world(), approver=world(), title="/srv/" + "long/" * 30 + "shop")
    desk.status = anyio.run(world().status)
    head, tabs = (text_of(row) for row in header_lines(desk, "Catalog", width))
    assert "shop" in head
    assert "0 waiting" in head
    assert "policy ok" in head
    assert len(head) <= width
    assert len(tabs) <= width
    assert ("sandbox not enforced yet" in head + tabs) == (width >= 80)
