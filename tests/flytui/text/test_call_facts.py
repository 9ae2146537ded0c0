"""What lists say of a call in a few words."""

from __future__ import annotations

import msgspec

from flycore.model.caller import Caller
from flytui.text.call_facts import caller_text
from kits.tables import each_row

CALLER = Caller(door="mcp", program="node", executable="/usr/bin/node", pid=7, started=1)


@each_row(
    ("caller", "text"),
    [
        (CALLER, "node via mcp"),
        (msgspec.structs.replace(CALLER, folder="/srv/shop"), "node via mcp"),
        (msgspec.structs.replace(CALLER, name="Codex", folder="/srv/shop"), "Codex · shop"),
        (msgspec.structs.replace(CALLER, name="Codex"), "Codex"),
        ("claude (pid 7) via mcp", "claude via mcp"),
    ],
)
def test_a_caller_is_called_as_on_its_card_where_its_name_is_known(caller: Caller | str, text: str) -> None:
    assert caller_text(caller) == text
