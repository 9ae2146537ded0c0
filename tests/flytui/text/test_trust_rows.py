"""The rows of entries that wait for trust: what is usual is dim, what is unusual is marked."""

from __future__ import annotations

import pytest

from flycore.model.enums import ProgramAuthor
from flycore.model.question import TrustFacts, TrustItem
from flytui.text.lines import Tone, text_of, width_of
from flytui.text.trust_rows import AUTHOR_WORDS, in_order, title_row, trust_row

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


@pytest.mark.parametrize(
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
