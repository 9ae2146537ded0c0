"""The protocol's schema beside the door itself and the page that describes it."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from websockets.asyncio.client import connect

from flycore.rpc.method_row import Kind, Method, Who
from flycore.rpc.methods import BY_MESSAGE, METHODS
from flycore.rpc.schema import PAYLOADS, protocol_schema
from kits.kernel import Root
from kits.tables import each_row
from kits.tcp import Listening, listening

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocol.md"
SHOWN = [
    (way, json.loads(text))
    for way, text in re.findall(r"^```json (send|receive)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
]
TAKEN = [
    message for (way, message), (_, answer) in pairwise(SHOWN) if way == "send" and answer["type"] != "error"
]
"""What the page sends and the kernel takes."""


@pytest.mark.anyio
async def test_every_message_that_the_door_names_has_a_shape(tmp_path: Path) -> None:
    async with listening(Root(tmp_path)) as at:
        commands = await greeting(at)
    assert set(commands) == {method.message for method in METHODS if method.who is Who.TOKEN}
    assert set(commands) < PAYLOADS.keys()


async def greeting(at: Listening) -> list[str]:
    """The commands that the kernel names when somebody connects over TCP."""
    headers = {"Authorization": f"Bearer {at.token}"}
    async with connect(at.address, additional_headers=headers, compression=None, proxy=None) as connection:
        commands: list[str] = json.loads(await connection.recv())["payload"]["capabilities"]["commands"]
        return commands


@pytest.mark.parametrize("message", TAKEN, ids=lambda one: one["type"])
def test_the_page_s_messages_are_of_that_shape(message: dict[str, Any]) -> None:
    schema = protocol_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(message)
    for wrong in ({**message, "approved": True}, {**message, "type": "ask.approve"}):
        assert not validator.is_valid(wrong)
    unknown = {**message, "payload": {**message.get("payload", {}), "approved": True}}
    assert validator.is_valid(unknown) == ignores_unknown_keys(BY_MESSAGE[message["type"]])


def ignores_unknown_keys(method: Method) -> bool:
    """The rule: what every client may send and only reads or manages the connection ignores unknown keys."""
    return method.who is Who.TOKEN and method.kind in (Kind.READ, Kind.CONNECTION)


@each_row("method", METHODS, ids=lambda one: one.message)
def test_unknown_keys_are_ignored_or_refused_by_one_rule(method: Method) -> None:
    assert method.payload.__struct_config__.forbid_unknown_fields is not ignores_unknown_keys(method)
