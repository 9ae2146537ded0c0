"""Dotted paths and projections."""

from __future__ import annotations

from flycore.model.json_path import at_path, project
from flycore.model.placeholders import ABSENT
from flycore.model.tool_exec import ResponseField
from kits.tables import each_row

VALUE = {"web": {"results": [{"title": "A", "meta": {"n": 1}}, {"title": None}]}, "0": "zero"}
FIELDS = (ResponseField(name="t", path="title"), ResponseField(name="n", path="meta.n"))


@each_row(
    ("path", "found"),
    [
        ("", VALUE),
        ("web.results.0.title", "A"),
        ("web.results.1.title", None),
        ("0", "zero"),
        ("web.results.2", ABSENT),
        ("web.results.-1", ABSENT),
        ("web.results.00", ABSENT),
        ("web.results.title", ABSENT),
        ("web.results.0.title.0", ABSENT),
        ("nothing", ABSENT),
    ],
)
def test_a_path_leads_to_a_value_or_nowhere(path: str, found: object) -> None:
    assert at_path(VALUE, path) == found


def test_a_list_is_projected_item_by_item() -> None:
    assert project(VALUE["web"]["results"], FIELDS) == [{"t": "A", "n": 1}, {"t": None}]
    assert project({"title": "B"}, FIELDS) == {"t": "B"}
    assert project(["text", 1], FIELDS) == [{}, {}]
    assert project([1], ()) == [1]
