"""The filter line's language, on the catalog of the console's tests: what matches, and what is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flytui.text.filter_query import FilterItem, listed_sidecar, listed_tool, parse_query
from kits.tables import each_row
from kits.values import sample_catalog

CATALOG = sample_catalog()
TOOLS = [view.capability.name for view in CATALOG.capabilities]
ITEMS = [
    listed_tool(view, changed=view.sidecar == "mock.echo", leased=view.capability.name == "computer.mouse")
    for view in CATALOG.capabilities
]


def names(text: str) -> list[str]:
    return [TOOLS[at] for at in parse_query(text).matching_indices(ITEMS)]


@each_row(
    ("text", "found"),
    [
        ("", TOOLS),
        ("   ", TOOLS),
        ("computer.", ["computer.keyboard", "computer.mouse", "screen.screenshot"]),
        ("COMPUTER mouse", ["computer.mouse"]),
        ("xdotool", ["computer.keyboard"]),
        ("computer.native !mouse !screen", ["computer.keyboard"]),
        ("cmpkey", ["computer.keyboard"]),
        ("cmpkey state:available", []),
        ("!cmpkey", TOOLS),
        ("state:deg", ["mock.echo"]),
        ("state:changed", ["mock.echo"]),
        ("state:chan,dis", ["mock.echo", "audio.speak"]),
        ("!state:unav,dis,deg", ["computer.mouse", "screen.screenshot", "file.hash"]),
        ("state:av risk:high", ["computer.mouse"]),
        ("risk:med state:av", ["screen.screenshot"]),
        ("policy:allow", ["file.hash"]),
        ("policy:lease", ["computer.mouse"]),
        ("policy:ask sidecar:COMP risk:high", ["computer.keyboard", "computer.mouse"]),
        ("source:none", ["browser.open"]),
        ("!source:project", ["browser.open"]),
        ("sidecar:nobody", []),
        ("state:", TOOLS),
        ("!", TOOLS),
        ("tools.jsonc:22", ["computer.keyboard"]),
    ],
)
def test_what_a_line_finds(text: str, found: list[str]) -> None:
    assert names(text) == found
    assert parse_query(text).problems == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour:red", ("colour", "state")),
        ("state:av,zz", ("state zz", "degraded")),
        ("!risk:9", ("risk 9",)),
    ],
)
def test_what_is_not_known_is_said_and_left_out(text: str, words: tuple[str, ...]) -> None:
    (problem,) = parse_query(text).problems
    assert all(word in problem for word in words)
    known = text.partition(",")[0] if "," in text else ""
    assert names(text) == names(known)


def test_a_sidecar_without_tools_is_found_by_its_id_and_state() -> None:
    item = listed_sidecar(CATALOG.sidecars[4])
    for text in ("broken", "sidecar:broken state:unavailable", "source:project policy:none !risk:low"):
        assert parse_query(text).matches(item)
    assert not parse_query("risk:low").matches(item)


PIECES = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.builds(
            "{}{}:{}".format,
            st.sampled_from(["", "!"]),
            st.sampled_from(["state", "risk", "policy", "source", "sidecar", "other"]),
            st.text("adeuvclohig,!", max_size=5),
        ),
        st.sampled_from(["mouse", "!mouse", "cmpt", "computer", "state:av"]),
    ),
    max_size=5,
).map(" ".join)


@given(PIECES, PIECES)
def test_terms_only_narrow_and_their_order_does_not_matter(one: str, other: str) -> None:
    both, turned = parse_query(f"{one} {other}"), parse_query(f"{other} {one}")
    assert both.matching_indices(ITEMS) == turned.matching_indices(ITEMS)
    whole = [at for at, item in enumerate(ITEMS) if both.matches(item)]
    assert set(whole) <= set(both.matching_indices(ITEMS))
    assert both.matching_indices(ITEMS) == sorted(set(both.matching_indices(ITEMS)))


@given(st.text(max_size=12))
def test_a_term_and_its_opposite_part_the_rows(word: str) -> None:
    rows = [FilterItem(name=text, text=text) for text in ("alpha one", "beta two", "")]
    token = "".join(word.split()).strip("!").replace(":", "")
    if not token:
        return
    here, away = parse_query(token), parse_query(f"!{token}")
    assert [here.matches(row) for row in rows] == [not away.matches(row) for row in rows]
