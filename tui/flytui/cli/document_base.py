"""The base of the documents that commands print with `--json`."""

from __future__ import annotations

from flycore.model.base import Value


class Document(Value, frozen=True, kw_only=True, tag_field="schema", tag=""):
    """The base of the documents. `schema` names the kind of document and its version."""
