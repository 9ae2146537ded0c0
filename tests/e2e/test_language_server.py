"""`lsp.*` with a real language server, called from the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.scenes import allow, assert_whole, call, write_registry
from kits.terminals import BIN, Root, make_root

pytestmark = pytest.mark.e2e
SOURCE = '''import os


class Größe:
    """A class."""

    def weit(self) -> str:
        return "ja" + missing


def leer() -> None:
    return
'''


def entry(**more: object) -> dict[str, object]:
    return {
        "utility.code": {
            "command": "flytui-sidecar",
            "args": ["utility.local"],
            "permissions": {"fs": {"read": ["."]}},
            "tools": ["lsp.symbols", "lsp.diagnostics"],
            **more,
        }
    }


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    if not (BIN / "pylsp").exists():
        said = "NOT TESTED: pylsp is not installed beside this python"
        pytest.fail(said) if os.environ.get("FLYTUI_E2E") == "require" else pytest.skip(said)
    root = make_root(tmp_path, "{}")
    (root.folder / "src").mkdir()
    (root.folder / "src" / "größe.py").write_text(SOURCE)
    allow(root, "lsp.*")
    yield root
    root.end()


@pytest.mark.parametrize("kind", ["process-json", "process-json-persistent"])
def test_symbols_and_findings_of_a_real_file(root: Root, kind: str) -> None:
    write_registry(root, entry(kind=kind, delegates={"lsp": {"command": "pylsp"}}))
    root.trust()
    code, result = call(root, "lsp.symbols", {"path": "src/größe.py"})
    assert (code, result["status"], result["warnings"]) == (0, "success", []), result
    rows = {row["name"]: row for row in result["output"]["symbols"]}
    assert [(rows[name]["kind"], rows[name]["line"]) for name in ("Größe", "weit", "leer")] == [
        ("class", 4),
        ("method", 7),
        ("function", 11),
    ]
    assert rows["weit"]["container"] == "Größe"

    code, result = call(root, "lsp.diagnostics", {"path": "src/größe.py"})
    assert (code, result["warnings"], result["output"]["settled"]) == (0, [], True), result
    found = {(row["severity"], row["line"], row["column"]): row for row in result["output"]["diagnostics"]}
    assert "os" in found["warning", 1, 1]["message"]
    assert "missing" in found["error", 8, 23]["message"]

    code, result = call(root, "lsp.symbols", {"query": "leer"})
    assert (code, result["error"]["details"]["code"]) == (1, "not-offered")
    assert_whole(root)


def test_without_one_both_say_what_to_do(root: Root) -> None:
    write_registry(root, entry())
    root.trust()
    code, result = call(root, "lsp.diagnostics", {"path": "src/größe.py"})
    assert (code, result["status"]) == (3, "unavailable")
    assert "delegates.lsp" in json.dumps(result["error"])
    assert "delegates.lsp" in root.flytui("why", "lsp.symbols").stdout


def test_one_that_is_no_server_is_a_failure_with_its_words(root: Root) -> None:
    words = "import sys; sys.stderr.write('no such option'); sys.exit(4)"
    delegate = {"command": "python3", "args": ["-c", words]}
    write_registry(root, entry(delegates={"lsp": delegate}))
    root.trust()
    code, result = call(root, "lsp.diagnostics", {"path": "src/größe.py"})
    assert (code, result["error"]["code"]) == (1, "failed")
    details = result["error"]["details"]
    assert (details["code"], details["serverExitCode"]) == ("delegate-failed", 4)
    assert details["stderrTail"] == "no such option"
