"""The table of docs/performance.md has a row for each figure that a benchmark measures, and no other."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
VERDICTS = {"met", "missed", "not measured", "–"}


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    for name in [name for name in sys.modules if name == "bench" or name.startswith("bench.")]:
        monkeypatch.delitem(sys.modules, name)


def table() -> list[list[str]]:
    """The cells of the rows between the marks, without the head."""
    part = PAGE.partition("<!-- figures: docs/make_performance.py -->")[2].partition("<!-- end of the")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_table_has_a_row_for_each_figure_in_the_order_of_the_goals_and_no_other() -> None:
    from bench.common import Row
    from bench.figures import FIGURES, LATER, in_order

    shown = [f"{cells[0]} {cells[1]}" for cells in table()]
    measured = [Row.unmeasured(name, "") for names in FIGURES.values() for name in names]
    assert shown == [f"{row.goal} {row.name}" for row in in_order([*measured, *LATER])]
    assert len(set(shown)) == len(shown)
    assert {cells[-1] for cells in table()} <= VERDICTS


def test_each_file_of_a_goal_is_listed_with_its_figures() -> None:
    from bench.figures import FIGURES
    from bench.requirements import _NEEDS

    files = {path.stem for path in (ROOT / "bench").glob("[ps][0-9]*.py")}
    assert files == FIGURES.keys()
    assert _NEEDS.keys() <= files
    for stem, names in FIGURES.items():
        number = re.match(r"([ps])0*(\d+)", stem)
        assert number is not None
        goals = {name.partition(" ")[0] for name in names}
        assert goals == {f"{number[1].upper()}{number[2]}"}


def test_a_quick_run_leaves_out_what_nobody_feels_unless_it_is_named() -> None:
    from bench.__main__ import chosen_files
    from bench.figures import FIGURES, FULL_ONLY

    assert set(FIGURES) - set(chosen_files([], full=False)) == FULL_ONLY
    assert chosen_files([], full=True) == list(FIGURES)
    assert chosen_files(["p07"], full=False) == ["p07_executables"]


def test_a_figure_that_is_not_listed_and_one_that_was_not_measured_are_named() -> None:
    from bench.common import Row
    from bench.figures import FIGURES, differences

    stem = "p03_cold"
    listed = Row("P3", "p50 of a cold call", 1.0, "µs", 1.0, "≤ 1", met=True)
    assert differences(stem, [listed]) == []
    assert differences(stem, [Row.unmeasured(FIGURES[stem][0], "no cc")]) == []
    assert [fault.rpartition(" ")[2] for fault in differences(stem, [])] == ["call"]
    other = Row("P3", "another", 1.0, "µs", 1.0, "≤ 1", met=True)
    assert any("another" in fault for fault in differences(stem, [listed, other]))


def test_the_summary_says_what_was_met_missed_and_not_measured() -> None:
    from bench.common import Row
    from bench.summary import markdown, summary

    rows = [
        Row("P1", "a", 1234.5, "µs", 2.0, "≤ 1.5 × C", met=False, note="x 3", spread=0.25),
        Row("P4", "b", 2.0, "µs", 0.005, "≤ 1/150", met=True),
        Row("P12", "c", 3.0, "calls/s", 0.5, "none", met=True),
        Row.unmeasured("P2 d", "there is no bwrap"),
    ]
    text = summary(rows)
    assert text.splitlines()[1].split("  ")[-1] == "missed"
    assert text.splitlines()[-1] == "1 met, 1 missed, 1 not measured"
    lines = markdown(rows).splitlines()
    assert lines[2] == "| P1 | a | 1,234 µs | 2.00 | 25% | ≤ 1.5 × C | missed |"
    assert lines[3] == "| P4 | b | 2 µs | 1/200 | – | ≤ 1/150 | met |"
    assert lines[4].endswith("| none | – |")
    assert lines[5] == "| P2 | d | there is no bwrap | – | – | – | not measured |"
