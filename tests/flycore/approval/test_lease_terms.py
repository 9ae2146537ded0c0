"""Leases in full: until the caller leaves, for a group, for a host, under a condition; kept groups; undo."""

from __future__ import annotations

import anyio
import msgspec
import pytest

from flycore.approval.lease_folder import input_folder
from flycore.approval.leases import (
    LeaseChange,
    LeaseStore,
    lease_durations,
    lease_fault,
    lease_obstacle,
    lease_weakness,
    page_host,
)
from flycore.approval.requests import choices
from flycore.model.approval import UNTIL_LEFT, LeaseTerms, RuleTerms
from flycore.model.enums import Choice, Decision, LeaseScope, Risk, SealKind
from flycore.model.program import Seal, SealedDelegate, surroundings_of
from flycore.policy.rule_file import rule_fault
from kits.tables import each_row

WEB = {"tool": "web.fetch", "risk": Risk.MEDIUM, "host": "shop.example"}
URL = {"url": "https://shop.example/a"}


def terms(**more) -> LeaseTerms:
    return LeaseTerms(**{"minutes": 5, "calls": 3, **more})


def moved(request, **subject):
    return msgspec.structs.replace(request.subject, **subject)


@pytest.fixture
def living() -> set[int]:
    return {4121, 4122}


@pytest.fixture
def moves() -> list[tuple[LeaseChange, str]]:
    return []


@pytest.fixture
def leases(clock, living, moves) -> LeaseStore:
    return LeaseStore(
        clock, lambda move, lease, by: moves.append((move, lease.id)), lambda caller: caller.pid in living
    )


def test_a_lease_until_the_caller_leaves_outlives_an_hour_and_ends_with_the_caller(
    leases, make_request, clock, living, moves
) -> None:
    request = make_request()
    lease = leases.add(request, terms(minutes=UNTIL_LEFT))
    assert lease.expires_at == 0
    clock.advance(100_000)
    assert leases.match(request.subject, request.risk) is not None
    living.clear()
    assert leases.match(request.subject, request.risk) is None
    assert not leases.is_active(lease.id)
    assert moves[-1] == (LeaseChange.ENDED, lease.id)


def test_a_caller_nobody_can_see_leaving_is_not_offered_that(make_request, make_caller) -> None:
    request = make_request(caller=make_caller(pid=0))
    assert lease_fault(request, terms(minutes=UNTIL_LEFT))
    assert lease_fault(request, terms()) == ""


def test_a_group_lease_covers_the_other_tools_of_group_and_sidecar_alone(leases, make_request) -> None:
    request = make_request(group="desktop")
    leases.add(request, terms(scope=LeaseScope.GROUP))
    mouse = moved(request, tool="computer.mouse")
    assert leases.match(mouse, request.risk, "desktop") is not None
    assert leases.match(mouse, request.risk, "browser") is None
    assert leases.match(mouse, request.risk, "") is None
    for change in ({"seal": "other"}, {"entry": "other"}, {"caller": "x"}):
        assert leases.match(moved(request, tool="computer.mouse", **change), request.risk, "desktop") is None


def test_a_tool_lease_in_a_group_covers_no_other_tool_of_it(leases, make_request) -> None:
    request = make_request(group="desktop")
    leases.add(request, terms())
    assert leases.match(moved(request, tool="computer.mouse"), request.risk, "desktop") is None


def test_a_host_lease_covers_the_host_alone(leases, make_request) -> None:
    request = make_request(**WEB, input=URL)
    leases.add(request, terms(scope=LeaseScope.HOST))

    def covered(url: str, tool: str = "web.fetch") -> bool:
        return leases.match(moved(request, tool=tool, input={"url": url}), request.risk) is not None

    assert covered("https://SHOP.example:8443/other?x=1")
    assert covered("http://shop.example")
    for other in (
        "https://shop.example.evil.test/",
        "https://evil.test/shop.example",
        "https://shop.example@evil.test/",
        "https://evil.test\\@shop.example/",
        "https://evil.test#@shop.example/",
        "https://shop.example./",
        "ftp://shop.example/a",
        "//shop.example/a",
        "https://shop.example\t/",
        "https://ѕhop.example/",
    ):
        assert not covered(other), other
    assert not covered("https://shop.example/a", "web.download")


@each_row(
    ("tool", "input", "host"),
    [
        ("web.fetch", URL, "shop.example"),
        ("web.fetch", {"url": "http://[::1]:80/"}, "::1"),
        ("web.fetch", {"url": "http://[::1"}, ""),
        ("web.fetch", {"url": "http://a:99999/"}, ""),
        ("web.fetch", {"url": ["https://shop.example"]}, ""),
        ("web.search", {"query": "x"}, ""),
        ("browser.open", URL, ""),
        ("webx.fetch", URL, ""),
    ],
)
def test_the_host_is_told_for_web_tools_with_a_plain_address(tool, input, host) -> None:
    assert page_host(tool, input) == host


def test_a_condition_covers_what_meets_it(leases, make_request) -> None:
    request = make_request(input={"action": "type", "text": "a"})
    condition = {"properties": {"action": {"const": "type"}}, "required": ["action"]}
    assert lease_fault(request, terms(condition=condition)) == ""
    leases.add(request, terms(condition=condition))
    assert leases.match(moved(request, input={"action": "type", "text": "b"}), request.risk) is not None
    assert leases.match(moved(request, input={"action": "key"}), request.risk) is None
    assert leases.match(moved(request, input={}), request.risk) is None


@pytest.mark.parametrize(
    "condition",
    [
        {"properties": {"action": {"const": "key"}}},
        {"propertees": {}},
        {"type": "no such type"},
        {"$ref": "file:///etc/passwd"},
        {"pattern": "("},
        {"enum": [float("nan")]},
    ],
)
def test_a_condition_that_cannot_be_used_or_fails_this_very_call_is_refused(make_request, condition) -> None:
    request = make_request(input={"action": "type", "text": "a"})
    assert lease_fault(request, terms(condition=condition))


def test_impossible_scopes_are_refused(make_request) -> None:
    request = make_request()
    assert "group" in lease_fault(request, terms(scope=LeaseScope.GROUP))
    assert "host" in lease_fault(request, terms(scope=LeaseScope.HOST))
    assert lease_fault(request, terms(minutes=7))
    assert lease_fault(request, terms(calls=0))
    assert lease_fault(request, None)


def test_every_scope_keeps_the_guards_on_size_and_risk(leases, make_request) -> None:
    request = make_request(**WEB, input=URL, group="net")
    for scope in LeaseScope:
        leases.add(request, terms(scope=scope))
    large = moved(request, input={**URL, "body": "x" * 5000})
    assert leases.match(large, request.risk, "net") is None
    assert leases.match(request.subject, Risk.HIGH, "net") is None
    assert leases.match(request.subject, request.risk, "net") is not None


def test_use_is_counted(leases, make_request, clock) -> None:
    lease = leases.add(make_request(), terms())
    assert (lease.used, lease.last_used) == (1, clock.now())
    clock.advance(30)
    taken = leases.take(lease.id)
    assert (taken.used, taken.last_used, taken.calls_left) == (2, clock.now(), 1)


def test_a_revoked_lease_comes_back_with_what_it_had_left(leases, make_request, clock) -> None:
    request = make_request()
    lease = leases.add(request, terms())
    leases.take(lease.id)
    held = leases.withdraw(lease.id)
    assert leases.match(request.subject, request.risk) is None
    assert leases.withdraw(lease.id) is None
    clock.advance(100)
    assert leases.restore(held) == ""
    (back,) = leases.active()
    assert (back.calls_left, back.expires_at) == (1, lease.expires_at)
    held = leases.withdraw(lease.id)
    clock.advance(200)
    assert leases.restore(held)
    assert leases.active() == ()


def test_a_lease_from_before_everything_was_stopped_does_not_come_back(leases, make_request) -> None:
    request = make_request()
    held = leases.withdraw(leases.add(request, terms()).id)
    leases.revoke_all()
    assert "stopped" in leases.restore(held)
    again = leases.withdraw(leases.add(request, terms()).id)
    assert leases.restore(again) == ""
    assert [lease.id for lease in leases.active()] == [again.lease.id]


def test_two_leases_of_one_group_never_wait_for_each_other(leases, make_request, make_caller) -> None:
    one, two = make_caller("one", 4121), make_caller("two", 4122)
    first = leases.add(make_request("a", caller=one, group="desktop"), terms())
    leases.add(make_request("b", caller=two, group="desktop"), terms())
    assert leases.reserving_lease("desktop", one.key) is None
    assert leases.reserving_lease("desktop", two.key).id == first.id
    assert leases.reserving_lease("browser", two.key) is None
    leases.revoke(first.id)
    assert leases.reserving_lease("desktop", two.key) is None
    assert leases.reserving_lease("desktop", one.key) is not None


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["time", "revoked", "used up", "left", "left early", "blocked"])
async def test_a_kept_group_is_free_when_its_lease_ends(leases, make_request, clock, living, end) -> None:
    request = make_request(group="desktop")
    minutes = UNTIL_LEFT if end == "left" else 5
    lease = leases.add(request, terms(minutes=minutes, calls=2))
    done = anyio.Event()

    async def other() -> None:
        await leases.wait_until_free("desktop", "other")
        done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        await anyio.wait_all_tasks_blocked()
        assert not done.is_set()
        match end:
            case "time":
                clock.advance(300)
            case "revoked":
                leases.revoke(lease.id)
            case "used up":
                leases.take(lease.id)
            case "left" | "left early":
                living.clear()
                clock.advance(2)
            case "blocked":
                leases.end_tool(request.tool)
        with anyio.fail_after(30):
            await done.wait()


@pytest.mark.anyio
async def test_the_end_of_a_lease_is_noticed_without_anybody_asking(
    leases, make_request, clock, moves
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(leases.watch)
        await anyio.wait_all_tasks_blocked()
        lease = leases.add(make_request(), terms())
        await anyio.wait_all_tasks_blocked()
        clock.advance(300)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert moves == [(LeaseChange.MADE, lease.id), (LeaseChange.ENDED, lease.id)]


def test_a_seal_that_cannot_be_held_still_makes_no_allow(make_request) -> None:
    seal = Seal(kind=SealKind.FILE, digest="cd" * 32, program="/x", leasable=False)
    request = make_request(seal=seal)
    made = {decision: RuleTerms(decision=decision, tool=request.tool, because="b") for decision in Decision}
    assert rule_fault(request, made[Decision.ALLOW])
    assert rule_fault(request, made[Decision.DENY]) == ""


PARTIAL = Seal(kind=SealKind.SYSTEM, digest="cd" * 32, program="/usr/bin/make", partial=("may run files",))


@pytest.mark.parametrize(("minutes", "offered"), [(5, True), (15, True), (60, False), (UNTIL_LEFT, False)])
@pytest.mark.parametrize("which", ["program", "delegate"])
def test_a_lease_on_a_partial_seal_is_short(make_request, minutes: int, offered: bool, which: str) -> None:
    delegate = SealedDelegate(name="hand", argv=("/usr/bin/make",), seal=PARTIAL)
    parts = {"seal": PARTIAL} if which == "program" else {"delegates": (delegate,)}
    request = make_request(risk=Risk.MEDIUM, letter="", **parts)
    why_not = lease_fault(request, LeaseTerms(minutes=minutes, calls=5))
    assert (why_not == "") is offered
    assert offered or "its seal is partial (may run files): 15 minutes at most" in why_not


@pytest.mark.parametrize(("risk", "offered"), [(Risk.LOW, True), (Risk.MEDIUM, True), (Risk.HIGH, False)])
def test_a_partial_seal_of_high_risk_has_no_lease_and_no_rule_allows_it(make_request, risk, offered) -> None:
    request = make_request(seal=PARTIAL, risk=risk)
    assert (Choice.LEASE in choices(request)) is offered
    made = {decision: RuleTerms(decision=decision, tool=request.tool, because="b") for decision in Decision}
    assert "its seal is partial (may run files)" in rule_fault(request, made[Decision.ALLOW])
    assert [rule_fault(request, made[decision]) for decision in (Decision.ASK, Decision.DENY)] == ["", ""]


def test_a_lease_on_a_partial_seal_ends_when_its_working_folder_changes(clock, make_request) -> None:
    seal = msgspec.structs.replace(PARTIAL, surroundings="ab" * 32)
    store, request = LeaseStore(clock), make_request(seal=seal)
    store.add(request, LeaseTerms(minutes=5, calls=5))
    same, other = (
        surroundings_of((seal,)),
        surroundings_of((msgspec.structs.replace(seal, surroundings="x"),)),
    )
    assert store.match(request.subject, request.risk, "", same) is not None
    assert store.match(request.subject, request.risk, "", other) is None
    assert store.match(request.subject, request.risk, "", "") is None


def test_a_lease_for_one_input_covers_that_input_alone(clock, make_request) -> None:
    store, request = LeaseStore(clock), make_request()
    store.add(request, LeaseTerms(minutes=5, calls=5, scope=LeaseScope.INPUT))
    other = msgspec.structs.replace(request.subject, input={"action": "type", "text": "hullo"})
    assert store.match(request.subject, request.risk) is not None
    assert store.match(other, request.risk) is None


@pytest.mark.parametrize(
    ("input", "covered"),
    [
        ({"path": "notes/b.md", "text": "x"}, True),
        ({"path": "notes/deep/../b.md", "text": "x"}, True),
        ({"path": "notes", "text": "x"}, True),
        ({"path": "other/b.md", "text": "x"}, False),
        ({"path": "notes/../other/b.md", "text": "x"}, False),
        ({"path": "/etc/passwd", "text": "x"}, False),
        ({"path": "link/b.md", "text": "x"}, False),
        ({"path": "notes/out/b.md", "text": "x"}, False),
        ({"path": "notes-2/b.md", "text": "x"}, False),
        ({"text": "x"}, False),
        ({"path": "notes/b.md", "dest": "notes/c.md", "text": "x"}, False),
        ({"path": "notes/b.md", "text": "/etc/passwd"}, False),
        ({"path": "notes/b.md", "text": "x", "command": "cat /etc/passwd"}, False),
        ({"path": ["notes/b.md", "other/c.md"], "text": "x"}, False),
    ],
)
def test_a_lease_for_a_folder_covers_paths_below_it(clock, make_request, tmp_path, input, covered) -> None:
    for name in ("notes", "other", "notes-2"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "notes" / "out").symlink_to(tmp_path / "other")
    approved = {"path": "notes/a.md", "text": "hi"}
    folder = input_folder(approved, str(tmp_path))
    assert folder == str((tmp_path / "notes").resolve())
    request = make_request(input=approved, folder=folder, app_root=str(tmp_path))
    store = LeaseStore(clock)
    store.add(request, LeaseTerms(minutes=5, calls=50, scope=LeaseScope.FOLDER))
    subject = msgspec.structs.replace(request.subject, input=input)
    assert (store.match(subject, request.risk) is not None) is covered


@pytest.mark.parametrize(
    "input", [{}, {"text": "a"}, {"command": "ls notes", "cwd": "notes"}, {"path": "/x"}, {"url": "a/b"}]
)
def test_no_folder_is_offered_where_none_is_certain(tmp_path, input) -> None:
    assert input_folder(input, str(tmp_path)) == ""


def test_the_weakness_of_a_partial_seal_is_said(make_request) -> None:
    seal = Seal(kind=SealKind.FOLDER, digest="cd" * 32, program="/x", partial=("runs Makefile",))
    request = make_request(seal=seal, risk=Risk.MEDIUM, letter="")
    assert lease_durations(request) == (5, 15)
    assert lease_weakness(request) == (
        "this program may change or load other files (runs Makefile);"
        " flytui checks only the file that it starts"
    )
    assert lease_obstacle(request) == ""
    high = make_request(seal=seal, risk=Risk.HIGH, letter="k")
    assert lease_obstacle(high) == "high risk, and flytui cannot watch all that may run: runs Makefile"
    assert lease_weakness(make_request()) == ""
