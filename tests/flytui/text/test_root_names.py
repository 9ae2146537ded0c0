"""Short names of roots: the shortest unique end of a path, safe to draw and bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flytui.text.root_names import MAX_NAME_CELLS, root_tone, short_names
from flytui.text.wrap import cell_width
from kits.tables import each_row


@each_row(
    ("paths", "names"),
    [
        (["/srv/a/shop", "/srv/docs"], ("shop", "docs")),
        (["/srv/a/shop", "/srv/b/shop"], ("a/shop", "b/shop")),
        (["/x/a/shop", "/y/a/shop", "/docs"], ("x/a/shop", "y/a/shop", "docs")),
        (["/", "/srv"], ("/", "srv")),
        (["/srv/shop", "/srv/shop/srv/shop"], ("/srv/shop", "shop/srv/shop")),
        (["/a\u202eb", "/\x1b[31m"], ("a⟦U+202E⟧b", "⟦U+001B⟧[31m")),
        (["/p/" + "x" * 40, "/q/" + "x" * 40], ("…" + "x" * 18 + "… (1)", "…" + "x" * 18 + "… (2)")),
    ],
)
def test_a_name_is_the_shortest_end_that_no_other_path_has(paths: list[str], names: tuple[str, ...]) -> None:
    assert short_names(paths) == names


@given(st.lists(st.text(min_size=1, max_size=40).map(lambda text: f"/{text}"), min_size=1, max_size=5))
def test_any_path_gives_a_bounded_name_that_can_be_drawn(paths: list[str]) -> None:
    for name in short_names(paths):
        assert cell_width(name) <= MAX_NAME_CELLS
        assert not any(ord(character) < 32 or ord(character) == 127 for character in name)


def test_each_of_the_first_roots_has_a_tone_of_its_own() -> None:
    assert len({root_tone(place) for place in range(4)}) == 4
    assert root_tone(4) == root_tone(0)
