"""The MCP Inspector's command line, given a `.mcp.json`: an independent client of `flytui mcp`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kits.interop import DIGEST, SECRET, inspect, interop_root
from kits.kernel import Root

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
ERAS = ("legacy", "modern")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return interop_root(tmp_path)


@pytest.mark.parametrize("era", ERAS)
def test_the_tools_are_listed_and_their_schemas_are_portable(root: Root, era: str) -> None:
    words = ("--method", "tools/list", "--strict", "--protocol-era", era)
    code, given, said = inspect(root, *words, forked=False)
    assert code == 0, said
    listed = {one["name"]: one for one in given["result"]["tools"]}
    assert {"file_hash", "data_convert", "ask_do"} <= listed.keys()
    assert listed["file_hash"]["annotations"]["readOnlyHint"] is True
    assert listed["file_hash"]["outputSchema"]["type"] == "object"


@pytest.mark.parametrize("era", ERAS)
def test_a_file_is_hashed(root: Root, era: str) -> None:
    words = ("--method", "tools/call", "--tool-name", "file_hash", "--tool-arg", "path=read.txt")
    code, given, said = inspect(root, *words, "--protocol-era", era)
    assert code == 0, said
    assert given["result"]["structuredContent"]["digest"] == DIGEST
    assert DIGEST in given["result"]["content"][0]["text"]


def test_a_denied_call_says_so(root: Root) -> None:
    words = ("--method", "tools/call", "--tool-name", "file_hash", "--tool-arg", f"path={SECRET}")
    code, given, said = inspect(root, *words)
    assert code != 0
    assert given["result"]["isError"] is True, said
    assert given["result"]["content"][0]["text"].startswith("policy: ")
    assert given["result"]["_meta"]["flytui/result"]["status"] == "denied"
    assert not [line for line in root.audit() if line["event"] == "TOOL_STARTED"]


def test_without_a_person_a_call_that_asks_is_refused(root: Root) -> None:
    code, given, _ = inspect(root, "--method", "tools/call", "--tool-name", "ask_do")
    assert code != 0
    assert given["result"]["content"][0]["text"].startswith("no-approver: ")


def test_an_unknown_tool_is_an_error(root: Root) -> None:
    code, _, said = inspect(root, "--method", "tools/call", "--tool-name", "no_such_tool")
    assert code != 0
    assert "no_such_tool" in said
