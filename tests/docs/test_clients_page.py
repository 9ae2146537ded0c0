"""The table of docs/clients/README.md is what the tests of the programs found, and nothing in it failed."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE = runpy.run_path(str(ROOT / "docs" / "make_client_table.py"))
SUITE = ROOT / "tests" / "clients" / "test_client_scenarios_suite.py"


def test_the_page_has_the_results_as_they_are() -> None:
    text = MADE["PAGE"].read_text(encoding="utf-8")
    assert MADE["page"](text) == text, "run python docs/make_client_table.py"


def test_every_scenario_was_tried_with_every_program_and_none_failed() -> None:
    results = json.loads(MADE["RESULTS"].read_text(encoding="utf-8"))
    assert results.keys() == MADE["SCENARIOS"].keys()
    assert all(cells.keys() == MADE["CLIENTS"].keys() for cells in results.values())
    failed = [
        (scenario, client)
        for scenario, cells in results.items()
        for client in cells
        if cells[client] == "fails"
    ]
    assert failed == []


def test_the_table_has_the_scenarios_of_the_suite() -> None:
    tree = ast.parse(SUITE.read_text(encoding="utf-8"))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    tried = {name.removeprefix("test_") for name in functions if name.startswith("test_")}
    assert tried - {"withdrawn"} | {"interrupted", "killed"} == MADE["SCENARIOS"].keys()
