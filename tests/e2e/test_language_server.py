"""`lsp.*` with a real language server. No rule allows a delegate of the user's own: each call is approved."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flycore.model.call import ToolResult
from flycore.model.enums import Status
from kits import kernel as kernels
from kits.kernel import approved_call, kernel_of
from kits.scenes import call, write_registry
from kits.terminals import BIN, Root, make_root

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]
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
    yield root
    root.end()


async def approved(
    base: Path, sidecars: dict[str, object], *calls: tuple[str, dict[str, str]]
) -> list[ToolResult]:
    """Make the calls one after the other on a root of these sidecars, and approve each."""
    root = kernels.Root(base / "approved")
    (root.folder / "src").mkdir()
    (root.folder / "src" / "größe.py").write_text(SOURCE)
    root.sidecars = sidecars
    root.write()
    async with kernel_of(root) as kernel:
        return [await approved_call(kernel, tool, given) for tool, given in calls]


@pytest.mark.parametrize("kind", ["process-json", "process-json-persistent"])
async def test_symbols_and_findings_of_a_real_file(root: Root, tmp_path: Path, kind: str) -> None:
    symbols, diagnostics, query = await approved(
        tmp_path,
        entry(kind=kind, delegates={"lsp": {"command": "pylsp"}}),
        ("lsp.symbols", {"path": "src/größe.py"}),
        ("lsp.diagnostics", {"path": "src/größe.py"}),
        ("lsp.symbols", {"query": "leer"}),
    )
    assert (symbols.status, symbols.warnings) == (Status.SUCCESS, ()), symbols
    assert isinstance(symbols.output, dict)
    rows = {row["name"]: row for row in symbols.output["symbols"]}
    assert [(rows[name]["kind"], rows[name]["line"]) for name in ("Größe", "weit", "leer")] == [
        ("class", 4),
        ("method", 7),
        ("function", 11),
    ]
    assert rows["weit"]["container"] == "Größe"

    assert isinstance(diagnostics.output, dict), diagnostics
    assert (diagnostics.warnings, diagnostics.output["settled"]) == ((), True)
    rows_found = diagnostics.output["diagnostics"]
    found = {(row["severity"], row["line"], row["column"]): row for row in rows_found}
    assert "os" in found["warning", 1, 1]["message"]
    assert "missing" in found["error", 8, 23]["message"]

    assert query.error is not None
    assert query.error.details["code"] == "not-offered"


def test_without_one_both_say_what_to_do(root: Root) -> None:
    write_registry(root, entry())
    root.trust()
    code, result = call(root, "lsp.diagnostics", {"path": "src/größe.py"})
    assert (code, result["status"]) == (3, "unavailable")
    assert "delegates.lsp" in json.dumps(result["error"])
    assert "delegates.lsp" in root.flytui("why", "lsp.symbols").stdout


async def test_one_that_is_no_server_is_a_failure_with_its_words(tmp_path: Path) -> None:
    words = "import sys; sys.stderr.write('no such option'); sys.exit(4)"
    delegate = {"command": "python3", "args": ["-c", words]}
    (result,) = await approved(
        tmp_path, entry(delegates={"lsp": delegate}), ("lsp.diagnostics", {"path": "src/größe.py"})
    )
    assert result.error is not None
    assert result.error.code == "failed"
    details = result.error.details
    assert (details["code"], details["serverExitCode"]) == ("delegate-failed", 4)
    assert details["stderrTail"] == "no such option"
