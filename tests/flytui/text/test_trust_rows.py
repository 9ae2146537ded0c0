"""The rows of entries that wait for trust: what is usual is dim, what is unusual is marked."""

from __future__ import annotations

import msgspec
import pytest

from flycore.model.enums import ProgramAuthor, ProgramComparison
from flycore.model.question import TrustFacts, TrustItem
from flycore.model.repository import TrustedElsewhere
from flytui.text.lines import Tone, text_of, width_of
from flytui.text.trust_rows import (
    AUTHOR_WORDS,
    common_origin,
    elsewhere_lines,
    in_order,
    title_row,
    trust_row,
)
from kits.tables import each_row

USUAL = TrustFacts(author=ProgramAuthor.OWN, tools=("file.hash",))


def item_of(facts: TrustFacts | None, name: str = "x.local", **more: object) -> TrustItem:
    return TrustItem(
        **{"sidecar": name, "digest": "0" * 64, "changed": False, "lines": (), "facts": facts, **more}
    )


def marked(facts: TrustFacts) -> list[str]:
    row = trust_row(item_of(facts), ticked=True, width=78)
    return [part.text.strip() for part in row if part.tone is Tone.WARN]


def test_a_usual_entry_has_nothing_but_dim_words() -> None:
    row = trust_row(item_of(USUAL), ticked=True, width=78)
    assert text_of(row).split() == ["[x]", "x.local", "flytui's", "own", "–", "–", "–", "–", "file.hash"]
    tones = {part.tone for part in row[3:] if part.text.strip()}
    assert tones == {Tone.DIM}


@each_row(
    ("more", "words"),
    [
        ({"author": ProgramAuthor.FOLDER}, ["!this folder"]),
        ({"author": ProgramAuthor.DOWNLOADED}, ["!downloaded"]),
        ({"author": ProgramAuthor.SYSTEM}, []),
        ({"network": "*"}, ["!all"]),
        ({"network": "*", "tools": ("web.fetch", "browser.open")}, []),
        ({"network": "*", "tools": ("web.fetch", "file.hash")}, ["!all"]),
        ({"network": "*", "tools": (), "all_tools": True}, ["!all"]),
        ({"writes": ("notes",)}, []),
        ({"writes": ("${input.path}/..",)}, []),
        ({"writes": ("notes", "~"), "writes_outside": ("~",)}, ["!outside"]),
        ({"desktop": True}, ["!yes"]),
        ({"secrets": ("A", "B")}, ["!2"]),
        ({"overrides": True}, ["!overrides"]),
        ({"made_by_agent": True}, ["!by agent"]),
    ],
)
def test_what_is_unusual_is_marked(more: dict[str, object], words: list[str]) -> None:
    fields = {"author": ProgramAuthor.OWN, "tools": ("file.hash",), **more}
    assert marked(TrustFacts(**fields)) == words  # type: ignore[arg-type]  # the fields of the case


@pytest.mark.parametrize("width", [60, 78, 118])
def test_no_row_is_wider_than_its_room_and_columns_stand_below_their_titles(width: int) -> None:
    loud = TrustFacts(
        author=ProgramAuthor.DOWNLOADED,
        network="a.very.long.host.example.com",
        writes=("~",),
        writes_outside=("~",),
        desktop=True,
        secrets=("A",),
        tools=tuple(f"tool.number{n}" for n in range(30)),
        overrides=True,
    )
    rows = [title_row(width), *(trust_row(item_of(one), ticked=False, width=width) for one in (loud, USUAL))]
    assert all(width_of(row) <= width for row in rows)
    titles, first, second = (text_of(row) for row in rows)
    at = titles.index("PROGRAM")
    assert first[at:].startswith("!downloaded")
    assert second[at:].startswith(AUTHOR_WORDS[ProgramAuthor.OWN])


def test_text_from_the_entry_is_drawn_as_tokens() -> None:
    row = trust_row(item_of(USUAL, "x\x1b[31m"), ticked=True, width=78)
    assert "\x1b" not in text_of(row)


def test_changed_entries_come_first_and_then_the_riskiest() -> None:
    folder = TrustFacts(author=ProgramAuthor.FOLDER)
    items = [
        item_of(USUAL, "usual"),
        item_of(folder, "folder"),
        item_of(USUAL, "changed", changed=True),
        item_of(None, "unknown"),
    ]
    assert [item.sidecar for item in in_order(items)] == ["changed", "unknown", "folder", "usual"]


NOW = 1_764_000_000.0  # 24 November 2025, a Monday
THERE = TrustedElsewhere(root="/srv/shop", at=NOW - 60, same=True, programs=ProgramComparison.SAME)


def said_of(elsewhere: TrustedElsewhere, *, changed: bool = False) -> tuple[list[str], set[Tone]]:
    rows = elsewhere_lines(item_of(USUAL, changed=changed, elsewhere=elsewhere), NOW, 78, 2)
    return [text_of(row) for row in rows], {part.tone for row in rows for part in row if part.text.strip()}


def test_trust_elsewhere_is_good_news_only_where_nothing_changed() -> None:
    replace = msgspec.structs.replace
    assert said_of(THERE) == (["  trusted in /srv/shop since today, unchanged"], {Tone.GOOD})
    for programs in (ProgramComparison.CHANGED, ProgramComparison.UNKNOWN):
        rows, tones = said_of(replace(THERE, programs=programs))
        assert "unchanged" not in " ".join(rows)
        assert tones == {Tone.WARN}
    rows, _ = said_of(replace(THERE, same=False, difference=("+ /a: 1",)))
    assert rows == ["  trusted in /srv/shop since today, with another value:", "  + /a: 1"]
    # What differs from the value that is trusted here stands there already.
    assert said_of(replace(THERE, same=False, difference=("+ /a: 1",)), changed=True)[0] == []


def test_one_line_says_it_for_all_entries_only_if_it_is_true_of_each() -> None:
    replace = msgspec.structs.replace
    items = [item_of(USUAL, name, elsewhere=THERE) for name in "ab"]
    assert common_origin(items) == THERE
    assert common_origin([]) is None
    others = (
        None,
        replace(THERE, root="/other"),
        replace(THERE, at=NOW - 3 * 86_400),
        replace(THERE, same=False),
        replace(THERE, programs=ProgramComparison.CHANGED),
    )
    for other in others:
        assert common_origin([*items, item_of(USUAL, "c", elsewhere=other)]) is None


def test_hostile_folders_are_drawn_as_tokens() -> None:
    rows, _ = said_of(msgspec.structs.replace(THERE, root="/srv/\u202eshop\n/\u0455hop"))
    assert "".join(rows).count("⟦U+") == 3
