"""The documentation's site has every page once, and the pages are read without the words of their fences."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]


def pages_of(nav: Any) -> list[str]:
    """The pages of a part of the navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in pages_of(part)]


def test_the_navigation_has_every_page_once() -> None:
    site = YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    docs = ROOT / site["docs_dir"]
    assert sorted(pages_of(site["nav"])) == sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))


def test_a_fence_keeps_only_its_language() -> None:
    hook = runpy.run_path(str(ROOT / "docs" / "site_hooks.py"))["on_page_markdown"]
    page = "```jsonc registry\n{}\n```\n\n  ```sh run\n  ls\n  ```\n"
    assert hook(page, page=None) == "```jsonc\n{}\n```\n\n  ```sh\n  ls\n  ```\n"
