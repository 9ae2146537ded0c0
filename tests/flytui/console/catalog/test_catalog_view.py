"""The Catalog driven by keys: columns, grouping, filter line, jump, why, difference, what is counted."""

from __future__ import annotations

import json

import msgspec
import pytest
from textual.binding import Binding

from flycore.catalog.reasons import definition_changed
from flycore.model.approval import Ask
from flycore.model.audit import Metrics, ToolMetrics
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Fix, FixKind
from flycore.model.enums import Effective, LeaseScope, ReasonCode, RequestState
from flycore.model.question import TrustItem
from flycore.model.stability import Reason
from flytui.console.app import FlytuiApp
from flytui.console.catalog.catalog_rows import Heading
from flytui.console.catalog.catalog_view import CatalogView
from flytui.console.catalog.reason_summary import summarise_reason
from flytui.console.screens.base import PageScreen
from flytui.console.screens.main import MainScreen
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import text_of
from kits.console import HandClock, console, drawn, press, rows_drawn, until
from kits.fake_kernel import World, world
from kits.tables import each_row
from kits.values import lease, request_of, sample_catalog, stability_of, trust_items

pytestmark = pytest.mark.anyio


def counted(tool: str, calls: int, failed: int) -> Metrics:
    """What the log adds up to for one tool."""
    own = ToolMetrics(
        tool=tool,
        calls=calls,
        success=calls - failed,
        failed=failed,
        denied=0,
        unavailable=0,
        other=0,
        open=0,
        ran=calls,
        total_ms=100,
        average_ms=10.0,
        p95_ms=20,
        last_executed="",
        last_error=None,
    )
    return Metrics(since="", until="", lines=1, unreadable=0, tools=(own,))


def explained(because: str) -> Catalog:
    """The sample catalog with a rule behind `file.hash`, and a changed entry behind `mock.echo`."""
    catalog = sample_catalog()
    views = tuple(
        msgspec.structs.replace(view, because=because) if view.capability.name == "file.hash" else view
        for view in catalog.capabilities
    )
    sidecars = tuple(
        msgspec.structs.replace(view, changed=('- /command: "old"', '+ /command: "new"'))
        if view.id == "mock.echo"
        else view
        for view in catalog.sidecars
    )
    return msgspec.structs.replace(catalog, capabilities=views, sidecars=sidecars)


async def test_columns_follow_the_width() -> None:
    place = world(metrics_value=counted("file.hash", 84, 2), leases_value=(lease("computer.mouse"),))
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        brief = ["STATE", "TOOL", "RISK", "WHY"]
        await until(pilot, lambda: drawn(app, "#titles").split() == brief)
        await pilot.resize_terminal(180, 40)
        await press(pilot, "s")
        titles = ["STATE", "TOOL", "SIDECAR", "RISK", "POLICY", "PROBE", "CALLS/ERR", "WHY"]
        await until(pilot, lambda: drawn(app, "#titles").split() == titles)
        await until(pilot, lambda: "84/2" in rows_drawn(app, "#catalog-rows"))
        text = {row.split()[2]: row for row in rows_drawn(app, "#catalog-rows").splitlines() if "." in row}
        assert "lease 4:10" in text["computer.mouse"]
        assert "12s 40ms" in text["computer.mouse"]
        assert "allow" in text["file.hash"]
        assert "the sidecar says: co" in text["mock.echo"]
        assert "external.tools.jsonc:10" in text["audio.speak"]
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: drawn(app, "#titles").split() == brief)
        await pilot.resize_terminal(60, 20)

        def narrow() -> bool:
            return all(len(row) <= 60 for row in rows_drawn(app, "#catalog-rows").splitlines())

        await until(pilot, narrow)
        assert "computer.keyboard" in rows_drawn(app, "#catalog-rows")


async def test_a_lease_for_a_group_or_until_its_caller_leaves_is_shown_where_it_holds() -> None:
    catalog = sample_catalog()
    hands = {"computer.keyboard", "computer.mouse"}
    views = tuple(
        msgspec.structs.replace(
            view, capability=msgspec.structs.replace(view.capability, exclusive="desktop")
        )
        if view.capability.name in hands
        else view
        for view in catalog.capabilities
    )
    place = world(leases_value=(lease("computer.mouse", seconds=0, scope=LeaseScope.GROUP, group="desktop"),))
    place.catalog_value = msgspec.structs.replace(catalog, capabilities=views)
    async with console(place, HandClock()) as (app, pilot):
        view = app.screen.query_one(CatalogView)
        assert {row.tool for row in view.tool_list.shown if row.policy == "lease"} == hands
        place.leases_value = ()
        place.publish("leases.changed")
        await until(pilot, lambda: not any(row.policy == "lease" for row in view.tool_list.shown))


async def test_grouping_by_sidecar_keeps_cursor_and_filter() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        view = app.screen.query_one(CatalogView)
        await press(pilot, "slash", *"!state:unav", "enter", "down", "down")
        tool = view.row.tool if view.row else ""
        names = [row.tool for row in view.tool_list.shown]
        await press(pilot, "g")
        assert view.row is not None
        assert view.row.tool == tool
        assert {row.tool for row in view.tool_list.shown} == set(names)
        rows = app.screen.query_one("#catalog-rows", VirtualList)
        headings = [row.text for row in rows._rows if isinstance(row, Heading)]
        assert [text.split(" ")[0] for text in headings] == sorted(text.split(" ")[0] for text in headings)
        assert any(text.startswith("utility.local") and "available" in text for text in headings)
        await press(pilot, "g")
        assert [row.tool for row in view.tool_list.shown] == names


async def test_a_filter_of_keys_narrows_and_says_what_it_does_not_know() -> None:
    place = world(leases_value=(lease("computer.mouse"),))
    async with console(place, HandClock()) as (app, pilot):
        view = app.screen.query_one(CatalogView)
        await press(pilot, "slash", *"policy:lease risk:high colour:red")
        assert [row.tool for row in view.tool_list.shown] == ["computer.mouse"]
        assert "no key colour" in drawn(app, "#notes")
        assert "1 of 8 match" in drawn(app, "#notes")
        await press(pilot, "escape")
        assert "no key" not in drawn(app, "#notes")
        assert len(view.tool_list.shown) == 8


async def test_a_jump_goes_to_the_tool_and_past_a_filter_that_hides_it() -> None:
    async with console(world(), HandClock()) as (app, pilot):
        view = app.screen.query_one(CatalogView)
        await press(pilot, "slash", *"mock", "enter", "colon", *"cmous", "enter")
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
        await until(pilot, lambda: view.row is not None and view.row.tool == "computer.mouse")
        assert len(view.tool_list.shown) == 8
        await press(pilot, "colon", *"zzzz")
        assert "no tool" in drawn(app, "#jump-keys")
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
        assert view.row is not None
        assert view.row.tool == "computer.mouse"
        await press(pilot, "colon", "down", "escape")
        assert view.row.tool == "computer.mouse"


async def test_why_names_the_reason_the_way_out_and_the_rule() -> None:
    place = world(leases_value=(lease("file.hash"),))
    place.catalog_value = explained("hashing is harmless (policy.jsonc:14)")
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        await press(pilot, "colon", *"file.hash", "enter", "w")
        page = drawn(app, "#page")
        for words in ("policy says allow", "hashing is harmless (policy.jsonc:14)", "claude", "3 calls left"):
            assert words in page
        await press(pilot, "y")
        assert json.loads(app.clipboard)["because"] == "hashing is harmless (policy.jsonc:14)"
        await press(pilot, "escape", "colon", *"keyboard", "enter", "w")
        page = drawn(app, "#page")
        assert "delegate-missing" in page
        assert "→ install xdotool" in page
        assert "agents are not shown" in page


async def test_what_changed_is_marked_and_its_difference_shown() -> None:
    place = world()
    place.catalog_value = explained("")
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        await press(pilot, "slash", *"state:changed", "enter")
        text = rows_drawn(app, "#catalog-rows")
        assert "± changed" in text
        assert "mock.echo" in text
        await press(pilot, "D")
        assert "old" in drawn(app, "#page")
        assert "new" in drawn(app, "#page")
        await press(pilot, "escape", "escape", "colon", *"file.hash", "enter", "D")
        assert isinstance(app.screen, PageScreen)
        assert "nothing changed" in drawn(app, "#page")


async def test_a_program_that_changed_since_it_was_approved_marks_its_tool() -> None:
    gone = request_of(tool="computer.mouse", difference=('- /program/sha256: "1"', '+ /program/sha256: "2"'))
    place = world(asks_value=(Ask(request=gone, state=RequestState.DENIED),))
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        view = app.screen.query_one(CatalogView)
        assert [row.tool for row in view.tool_list.shown if row.changed] == ["computer.mouse"]
        await press(pilot, "colon", *"computer.mouse", "enter", "D")
        assert "/program/sha256" in drawn(app, "#page")


async def test_of_a_server_only_the_tools_that_wait_are_marked() -> None:
    place, catalog = world(), sample_catalog()
    both = [view for view in catalog.capabilities if view.sidecar == "computer.native"]
    assert len(both) > 1
    waits = both[0].capability.name
    why = definition_changed(waits, new=False)
    views = tuple(
        msgspec.structs.replace(view, stability=msgspec.structs.replace(view.stability, reasons=(why,)))
        if view.capability.name == waits
        else view
        for view in catalog.capabilities
    )
    place.catalog_value = msgspec.structs.replace(catalog, capabilities=views)
    place.trust_value = (
        TrustItem(sidecar="computer.native", digest="0" * 64, changed=True, tools=True, lines=("tools",)),
    )
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        await press(pilot, "escape")
        view = app.screen.query_one(CatalogView)
        await until(pilot, lambda: [row.tool for row in view.tool_list.shown if row.changed] == [waits])


async def test_rows_that_say_the_same_are_not_made_again() -> None:
    place = world()
    async with console(place, HandClock()) as (app, pilot):
        view = app.screen.query_one(CatalogView)
        before = {row.key: row for row in view.tool_list.shown}
        fresh = sample_catalog()
        views = tuple(
            msgspec.structs.replace(item, decision="deny") if item.capability.name == "mock.echo" else item
            for item in fresh.capabilities
        )
        place.catalog_value = msgspec.structs.replace(fresh, capabilities=views)
        place.trust_value = trust_items(0)
        place.publish("catalog.changed")
        await until(pilot, lambda: any(row.policy == "deny" for row in view.tool_list.shown))
        again = {row.key for row in view.tool_list.shown if before[row.key] is not row}
        assert again == {"tool mock.echo"}


@each_row("kind", list(FixKind))
def test_a_fix_names_a_key_that_the_catalog_has(kind: FixKind) -> None:
    reason = Reason(
        code=ReasonCode.DELEGATE_MISSING,
        dimension="path",
        message="xdotool is gone",
        remedy="a long way of saying what to do about it",
        fix=Fix(kind=kind, words="set delegates.keyboard"),
    )
    told = summarise_reason((reason, reason), "", "", changed=False)
    bound = {key for owner in (*CatalogView.__mro__, FlytuiApp) for key in _keys_of(owner)}
    assert told.key in bound
    wide, middle, narrow = (text_of(told.fitting(room)) for room in (80, 45, 12))
    way = f"{told.remedy} · {told.key}" if told.remedy else f"{told.key} {told.words}"
    assert wide.startswith(f"xdotool is gone → {way}")
    assert wide.endswith("(+1)")
    assert middle.startswith(f"xdotool is gone → {told.key} {told.words}")
    assert narrow == f"xdotool… → {told.key}"


def test_why_is_a_sentence_that_ends_with_its_remedy() -> None:
    reason = Reason(
        code=ReasonCode.TOOL_UNAVAILABLE,
        dimension="probe",
        message="no browser at 127.0.0.1:9222",
        remedy="start one: chromium --remote-debugging-port=9222",
    )
    told = summarise_reason((reason,), "", "Open a page", changed=False)
    whole = "no browser at 127.0.0.1:9222 → start one: chromium --remote-debugging-port=9222"
    assert text_of(told.fitting(80)) == whole
    assert told.cells == len(whole)
    assert text_of(told.fitting(50)) == f"{whole[:49].rstrip()}…"
    own = msgspec.structs.replace(reason, message="browser.open has no tab")
    named = summarise_reason((own,), "", "", changed=False, name="browser.open")
    assert text_of(named.fitting(80)).startswith("has no tab → ")
    assert text_of(summarise_reason((), "", "Open a page", changed=False).fitting(80)) == "Open a page"


async def test_the_list_takes_the_width_that_its_sentences_need_before_the_ladder_does() -> None:
    catalog = sample_catalog()
    told = Reason(code=ReasonCode.TOOL_UNAVAILABLE, dimension="probe", message="m" * 30, remedy="r" * 40)
    views = tuple(
        msgspec.structs.replace(view, stability=stability_of(Effective.UNAVAILABLE, reasons=(told,)))
        if view.capability.name == "computer.mouse"
        else view
        for view in catalog.capabilities
    )
    place = World(catalog_value=msgspec.structs.replace(catalog, capabilities=views))
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        await until(pilot, lambda: told.remedy in rows_drawn(app, "#catalog-rows"))
        assert not app.screen.query_one("#ladder").display
        await press(pilot, "s")
        assert app.screen.query_one("#ladder").display
        await press(pilot, "s")
        assert not app.screen.query_one("#ladder").display
    async with console(place, HandClock(), (180, 40)) as (app, pilot):
        await until(pilot, lambda: told.remedy in rows_drawn(app, "#catalog-rows"))
        assert app.screen.query_one("#ladder").display


async def test_the_ladder_follows_the_row_while_a_filter_is_typed() -> None:
    async with console(world(), HandClock(), (180, 40)) as (app, pilot):
        await until(pilot, lambda: drawn(app, "#ladder") != "")
        await press(pilot, "slash", *"mock")
        await until(pilot, lambda: "mock.echo" in drawn(app, "#ladder"))
        await press(pilot, "escape", "slash", *"keyboard")
        await until(pilot, lambda: "computer.keyboard" in drawn(app, "#ladder"))


async def test_probing_again_is_offered_only_where_it_is_the_remedy() -> None:
    catalog = sample_catalog()
    probe = Fix(kind=FixKind.PROBE, words="probe it again")
    slow = Reason(code=ReasonCode.PROBE_SLOW, dimension="probe", message="slow", remedy="wait", fix=probe)
    gone = Reason(code=ReasonCode.TOOL_UNAVAILABLE, dimension="probe", message="gone", remedy="start it")
    made = {"computer.mouse": slow, "computer.keyboard": gone}
    views = tuple(
        msgspec.structs.replace(
            view,
            stability=stability_of(Effective.UNAVAILABLE, reasons=(made[view.capability.name],)),
        )
        if view.capability.name in made
        else view
        for view in catalog.capabilities
    )
    place = World(catalog_value=msgspec.structs.replace(catalog, capabilities=views))
    async with console(place, HandClock(), (200, 40)) as (app, pilot):
        await until(pilot, lambda: "slow" in rows_drawn(app, "#catalog-rows"))
        rows = app.screen.query_one("#catalog-rows", VirtualList)
        rows.select_key("tool computer.mouse")
        await until(pilot, lambda: "R probe again" in drawn(app, "#keys"))
        rows.select_key("tool computer.keyboard")
        await until(pilot, lambda: "R probe again" not in drawn(app, "#keys"))


def _keys_of(owner: type) -> set[str]:
    return {item.key for item in owner.__dict__.get("BINDINGS", ()) if isinstance(item, Binding)}


async def test_a_look_alike_letter_in_the_name_of_an_entry_is_marked() -> None:
    """An entry that is not valid is shown, too, and its name may be anything."""
    catalog = sample_catalog()
    views = tuple(
        msgspec.structs.replace(view, id="s\u0441reen.local") if view.id == "broken.one" else view
        for view in catalog.sidecars
    )
    place = world()
    place.catalog_value = msgspec.structs.replace(catalog, sidecars=views)
    async with console(place, HandClock()) as (app, pilot):
        await until(pilot, lambda: "(s⟦U+0441⟧" in rows_drawn(app, "#catalog-rows"))
        assert "\u0441" not in rows_drawn(app, "#catalog-rows")
