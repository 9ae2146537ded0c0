"""Checks which packages each package imports when it runs, and the sizes of files and functions."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for root in ("core", "tui", "sidecars") for path in (REPOSITORY / root).rglob("*.py"))
FORBIDDEN = {
    "flycore": ("flytui", "flysidecars", "textual", "rich"),
    "flysidecars": ("flycore", "flytui", "textual"),
    "flysafe": ("flycore", "flytui", "flysidecars", "textual", "rich", "msgspec", "anyio"),
}
IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
print(" ".join(sorted({name.split(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize("package", FORBIDDEN)
def test_importing_everything_of_a_package_brings_in_nothing_forbidden(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, package], capture_output=True, text=True, check=True, timeout=100
    )
    loaded = set(done.stdout.split())
    assert package in loaded
    assert loaded.isdisjoint(FORBIDDEN[package])


def test_the_catalog_as_json_imports_no_terminal_library(tmp_path: Path) -> None:
    code = (
        "import sys; from flytui.cli.main import main\n"
        f"sys.argv = ['flytui', '--root', {str(tmp_path)!r}, 'catalog', '--json']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(' '.join(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert '"flytui.catalog/1"' in done.stdout
    assert loaded.isdisjoint({"textual", "rich", "mcp", "jsonschema", "httpx2", "PIL"})


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_files_have_at_most_600_lines_and_functions_60(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 600
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 60, node.name
