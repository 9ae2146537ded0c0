"""The protocol's schema beside the door itself and the page that describes it."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from websockets.asyncio.client import unix_connect

from flycore.rpc.method_row import Kind, Method, Who
from flycore.rpc.methods import BY_MESSAGE, METHODS
from flycore.rpc.schema import PAYLOADS, protocol_schema
from kits.kernel import Root
from kits.unix_socket import served

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
async def test_every_message_that_the_door_takes_has_a_shape(tmp_path: Path) -> None:
    root = Root(tmp_path)
    async with served(root):
        commands = await greeting(root)
    assert set(commands) == set(PAYLOADS) - {"tool.progress", "tool.result"}


async def greeting(root: Root) -> list[str]:
    """The commands that the kernel names when somebody connects."""
    async with unix_connect(str(root.places.socket), uri="ws://localhost/ws", compression=None) as connection:
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


@pytest.mark.parametrize("method", METHODS, ids=lambda one: one.message)
def test_unknown_keys_are_ignored_or_refused_by_one_rule(method: Method) -> None:
    assert method.payload.__struct_config__.forbid_unknown_fields is not ignores_unknown_keys(method)
