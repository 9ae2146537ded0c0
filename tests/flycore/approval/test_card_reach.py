"""The reach on a card: short where everything is enforced and usual, and nothing is hidden by that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flycore.model.approval import ApprovalRequest
from flycore.model.enums import Level
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.model.stability import PermissionReport
from flycore.sandbox.detection import UNTRIED, LevelCheck, SandboxSupport
from flycore.sandbox.levels import CONFINING, MECHANISMS, report
from flytui.console.approvals.card_lines import why_lines
from flytui.text.card import CardStyle, render_card
from flytui.text.lines import text_of

Make = Callable[..., Any]
ENFORCED = SandboxSupport((LevelCheck(Level.ENFORCED, works=True),))
DEGRADED = SandboxSupport((LevelCheck(Level.DEGRADED, works=True),))
END = " · writes no files · no secrets · enforced"
OUTSIDE = "reads / outside this folder · writes ~/, a/../.. outside this folder"
QUIET, WARNS = CardStyle.REACH_OK, CardStyle.REACH_OPEN


def _request(
    make_request: Make,
    entry: SidecarEntry,
    support: SandboxSupport = ENFORCED,
    **more: Any,
) -> ApprovalRequest:
    found = report(entry, support, bundled=False)
    made: ApprovalRequest = make_request(
        level=found.level, reach=found.permissions, limits=found.limits, mechanism=found.mechanism, **more
    )
    return made


def _reach(request: ApprovalRequest, **more: Any) -> list[tuple[str, CardStyle]]:
    drawn = render_card(request, 2_000, **more)
    labels = [line.label for line in drawn]
    return [(line.text, line.style) for line in drawn[labels.index("reach") : labels.index("program")]]


CASES: list[tuple[Permissions, list[tuple[str, CardStyle]]]] = [
    (Permissions(), [("no network · no files · no secrets · enforced", QUIET)]),
    (
        Permissions(read=(".",), write=("notes", "out\u202e"), secrets=("KEY",)),
        [("no network · reads this folder · writes notes, out⟦U+202E⟧ · secrets KEY · enforced", QUIET)],
    ),
    (
        Permissions(write=("${input.output}/..",)),
        [("no network · reads no files · writes the folder of “output” · no secrets · enforced", QUIET)],
    ),
    (
        Permissions(network=True),
        [
            (
                "network: this machine's whole network · no files · no secrets · enforced",
                WARNS,
            )
        ],
    ),
    (
        Permissions(read=("/", "docs"), write=("~/", "a/../..")),
        [
            (
                OUTSIDE + " · no network · reads docs · no secrets · enforced",
                WARNS,
            )
        ],
    ),
    (
        Permissions(read=tuple(f"d{n}" for n in range(10))),
        [
            ("no network · reads d0, d1, d2 and 7 more (the key “why” names them)" + END, QUIET),
        ],
    ),
]


@pytest.mark.parametrize(("permissions", "lines"), CASES)
def test_only_what_is_unusual_warns_where_all_is_enforced(
    make_request: Make, make_entry: Make, permissions: Permissions, lines: list[tuple[str, CardStyle]]
) -> None:
    entry = make_entry(permissions=permissions, raw={"permissions": {}})
    assert _reach(_request(make_request, entry)) == lines


def test_a_folder_called_none_is_no_absence_of_folders(make_request: Make, make_entry: Make) -> None:
    entry = make_entry(permissions=Permissions(read=("none",), write=("no",)), raw={"permissions": {}})
    assert _reach(_request(make_request, entry)) == [
        ("no network · reads “none” · writes no · no secrets · enforced", QUIET)
    ]


def test_the_network_is_usual_for_a_tool_of_the_web(make_request: Make, make_entry: Make) -> None:
    entry = make_entry(permissions=Permissions(network=True), raw={"permissions": {}})
    assert [style for _, style in _reach(_request(make_request, entry, tool="web.search"))] == [QUIET]


def test_the_gaps_of_a_degraded_sandbox_warn(make_request: Make, make_entry: Make) -> None:
    request = _request(make_request, make_entry(raw={"permissions": {}}), DEGRADED)
    assert _reach(request)[0][0].endswith(" · partly enforced")
    assert (f"degraded: {MECHANISMS[Level.DEGRADED]}", WARNS) in _reach(request, unfolded=True)


def test_one_permission_that_is_open_is_said_for_itself(make_request: Make) -> None:
    reach = (
        PermissionReport(name="network", declared="none", enforced=True, why="w"),
        PermissionReport(name="files read", declared=".", enforced=False, why="it cannot be"),
    )
    request = make_request(level=Level.ENFORCED, reach=reach)
    assert _reach(request) == [("files read not enforced · no network · reads this folder · enforced", WARNS)]
    assert _reach(request, unfolded=True) == [
        ("no network · enforced", QUIET),
        ("files read: . · not enforced here · it cannot be", WARNS),
    ]


def test_that_there_is_no_sandbox_here_is_one_word_and_no_warning(
    make_request: Make, make_entry: Make
) -> None:
    entry = make_entry(permissions=Permissions(read=(".",)), raw={"permissions": {}})
    assert _reach(_request(make_request, entry, UNTRIED)) == [
        ("no network · reads this folder · writes no files · no secrets · not enforced", QUIET)
    ]


PATHS = st.lists(
    st.text("ab./~$ {", min_size=1, max_size=6).filter(lambda path: path.strip() == path), max_size=8
).map(tuple)
PERMISSIONS = st.builds(
    Permissions,
    network=st.booleans(),
    read=PATHS,
    write=PATHS,
    secrets=st.lists(st.text("KEY", min_size=1, max_size=5), max_size=6).map(tuple),
    desktop=st.booleans(),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    permissions=PERMISSIONS,
    support=st.sampled_from([ENFORCED, DEGRADED, UNTRIED]),
    declares=st.booleans(),
)
def test_every_permission_is_on_the_card_or_counted_there_and_named_on_the_page(
    make_request: Make,
    make_entry: Make,
    permissions: Permissions,
    support: SandboxSupport,
    declares: bool,
) -> None:
    entry = make_entry(permissions=permissions, raw={"permissions": {}} if declares else {})
    request = _request(make_request, entry, support)
    short, whole = _reach(request), _reach(request, unfolded=True)
    page = "\n".join(text_of(row) for row in why_lines(request, 4_000))
    card, full = " ".join(text for text, _ in short), " ".join(text for text, _ in whole)
    assert not permissions.network or "this machine's whole network" in card
    for names in (permissions.read, permissions.write, permissions.secrets):
        for name in names:
            assert name in page
            assert name in full or name == "."
            assert name in card or " more (the key “why”" in card or name == "."
            if name.startswith(("/", "~")):
                assert any(name in text and style is WARNS for text, style in short)
    for row in request.reach:
        if not row.enforced:
            assert any(row.declared in text and style is WARNS for text, style in whole)
            # Where the rest is confined, what is open is unusual.
            assert request.level not in CONFINING or f"{row.name} not enforced" in card
    assert "not enforced" in card or request.level in CONFINING


def test_the_page_has_a_row_for_each_limit(make_request: Make, make_entry: Make) -> None:
    request = _request(make_request, make_entry(raw={"permissions": {}}))
    page = "\n".join(text_of(row) for row in why_lines(request, 400))
    for row in request.limits:
        assert f"{row.name}: {row.declared}" in page
