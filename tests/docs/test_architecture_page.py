"""Every path and every `file:function` that CONTRIBUTING.md and docs/architecture.md name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")
TREES = ("core", "tui", "sidecars", "tests", "bench", "docs", "tools", ".ci")
CODE = re.compile(r"`([^`\n]+)`")
PLACE = re.compile(r"^(?P<path>(?:\./)?[\w.-]+(?:/[\w.-]+)*/?)(?::(?P<name>[A-Za-z_][\w.]*))?$")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def places(page: str) -> list[tuple[str, str]]:
    """The (path, qualified name or "") that a page names in backticks. Paths begin at the repository."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    found = []
    for code in CODE.findall(text):
        match = PLACE.match(code)
        if match and match["path"].split("/")[0] in TREES and "/" in match["path"]:
            found.append((match["path"], match["name"] or ""))
    return found


def defines(path: Path, qualified: str) -> bool:
    """Whether a Python file defines this function, class, method or constant."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for part in qualified.split("."):
        node = next((node for node in body if part in defined_names(node)), None)
        if node is None:
            return False
        body = getattr(node, "body", [])
    return True


def defined_names(node: ast.stmt) -> set[str]:
    """The names that one statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def section(title: str) -> str:
    """The text below a heading of docs/architecture.md, to the next heading of its level."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert f"\n## {title}\n" in text
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_places_that_exist(page: str) -> None:
    named = places(page)
    assert named
    missing = [
        f"{path}:{name}" if name else path
        for path, name in named
        if not (ROOT / path).exists() or (name and not defines(ROOT / path, name))
    ]
    assert missing == []


def test_the_check_finds_what_is_missing() -> None:
    here = Path(__file__)
    assert defines(here, "places")
    assert not defines(here, "no_such_function")


def test_the_page_has_twelve_words_fourteen_steps_and_six_recipes() -> None:
    words = [row for row in section("Twelve words").splitlines() if row.startswith("| ")]
    steps = re.findall(r"^(\d+)\. ", section("One call in fourteen steps"), re.MULTILINE)
    recipes = re.findall(r"^### ", section("Recipes"), re.MULTILINE)
    assert (len(words) - 1, steps[-1], len(recipes)) == (12, "14", 6)
