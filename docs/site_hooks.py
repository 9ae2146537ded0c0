"""What `mkdocs` does with a page before it reads it; named in `mkdocs.yml`."""

from __future__ import annotations

import re
from typing import Any

_FENCE = re.compile(r"^(\s*```\w+) [^\n`{]+$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Remove the words behind the language of a fence, which the tests of the documentation read and the
    site's Markdown does not know."""
    return _FENCE.sub(r"\1", markdown)
