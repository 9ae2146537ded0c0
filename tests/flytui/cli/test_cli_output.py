"""What commands print, without a process: tables, outcomes, checks."""

from __future__ import annotations

import os

import pytest

from flycore.kernel import doctor as checks
from flycore.model.audit import Verification
from flycore.model.call import Artifact, CallError, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import CheckState, Diagnostic, Position, Severity
from flycore.model.enums import Code, Effective, Level, ReasonCode, Source, Status
from flycore.model.sidecar import Permissions, SidecarEntry
from flytui.cli.call_text import cancelled_result, lost_result, outcome_lines
from flytui.cli.output import plain_table, print_line, print_strict
from flytui.console.doctor.terminal_checks import TerminalFacts, TmuxFacts, terminal_checks
from flytui.text.kernels import clock_time
from flytui.text.wrap import cell_width
from kits.tables import each_row
from kits.values import stability_of, tool_view

ROWS = (("● available", "a.b", "fine"), ("○ unavailable", "long.name", "because " * 20 + "of that"))
HEADINGS = ("STATE", "TOOL", "WHY")
WHERE = Position(file="tools/external.tools.jsonc", line=1, column=1)


@each_row("room", [40, 60, 80, 120, 1_000_000])
def test_a_table_wraps_and_loses_nothing(room: int) -> None:
    lines = plain_table(HEADINGS, ROWS, room)
    assert all(cell_width(line) <= room for line in lines)
    text = " ".join(" ".join(lines).split())
    assert " ".join(ROWS[1][2].split()) in text


def test_columns_stand_under_their_headings() -> None:
    heading, first, second = plain_table(HEADINGS, ROWS, 1_000)
    assert heading.index("WHY") == first.index("fine") == second.index("because")


WIDE = ("ID", "STATE", "TOOL", "CALLER", "HOW")
LONG = (("c" * 20, "✗ failed", "some.tool", "a caller with a name " * 2, "words " * 30),) * 2


@pytest.mark.parametrize("room", [40, 60, 80])
def test_a_table_without_room_becomes_lines_of_its_own(room: int) -> None:
    lines = plain_table(WIDE, LONG, room)
    assert all(cell_width(line) <= room for line in lines)
    first, second = lines[: len(lines) // 2], lines[len(lines) // 2 + 1 :]
    assert first == second
    assert [line.split()[0] for line in first if line[:1].strip()] == list(WIDE)
    assert " ".join(" ".join(first).split()).endswith("words words words")


@pytest.mark.parametrize("payload", ["\x1b[2J", "\u202e", "\x9b31m", "\u200b", "\ud800", "a\tb", "[/nope]"])
def test_printed_text_obeys_nobody(payload: str, capfd: pytest.CaptureFixture[str]) -> None:
    print_line(f"before {payload} after")
    print_strict(f"before {payload} after")
    printed = capfd.readouterr().out
    assert printed.count("\n") == 2
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert (payload in printed) is payload.isprintable()


def test_decisions_are_shown_with_lookalikes_as_tokens(capfd: pytest.CaptureFixture[str]) -> None:
    print_strict("p\u0430ypal")
    assert "⟦U+0430⟧" in capfd.readouterr().out


def failed(code: str, **details: object) -> ToolResult:
    """A failed result with those details."""
    error = CallError(code=code, message="it went wrong", hint="mend it", details=dict(details))  # type: ignore[arg-type]  # plain JSON
    return ToolResult(status=Status.FAILED, tool="t", sidecar="s", call_id="c", error=error)


def test_every_violation_is_said_with_its_pointer() -> None:
    listed = [{"pointer": f"/a/{n}", "message": "is wrong"} for n in range(30)] + [
        {"pointer": "", "message": "x"}
    ]
    lines = outcome_lines(failed(Code.INVALID_INPUT, violations=listed))
    assert lines[0] == "failed: invalid-input: it went wrong"
    assert [line.strip() for line in lines[1:-1]] == [f"/a/{n}: is wrong" for n in range(30)] + ["/: x"]
    assert lines[-1] == "  → mend it"


def test_further_reasons_follow_the_first() -> None:
    reasons = [{"code": code, "message": f"{code} it is", "remedy": "do"} for code in ("one", "two")]
    lines = outcome_lines(failed(ReasonCode.COMMAND_NOT_FOUND, reasons=reasons, nearest=["x"], exitCode=3))
    assert lines[1:] == ["  two: two it is → do", "  exitCode: 3", "  → mend it"]


@pytest.mark.parametrize(
    ("status", "code", "message", "said"),
    [
        (Status.DENIED, Code.DENIED, "denied by a person: not now", "denied by a person: not now"),
        (Status.FAILED, Code.FAILED, "x does not exist", "failed: x does not exist"),
        (Status.DENIED, Code.NO_APPROVER, "no console is open", "denied: no-approver: no console is open"),
    ],
)
def test_a_headline_repeats_no_word(status: Status, code: Code, message: str, said: str) -> None:
    error = CallError(code=code, message=message, details={"reason": "not now", "path": "/x"})
    result = ToolResult(status=status, tool="t", sidecar=None, call_id="c", error=error)
    assert outcome_lines(result)[0] == said
    assert ("  reason: not now" in outcome_lines(result)) == ("not now" not in message)


def test_a_success_says_how_it_ran() -> None:
    result = ToolResult(
        status=Status.SUCCESS,
        tool="screen.screenshot",
        sidecar="computer.native",
        call_id="c",
        duration_ms=12,
        waited_ms=3400,
        sandbox=Level.NONE,
        artifacts=(Artifact(path="/a/b.png", mime_type="image/png", bytes=7),),
        warnings=("output /x: odd",),
    )
    assert outcome_lines(result) == [
        "success: screen.screenshot by computer.native (in 12 ms, sandbox none, waited 3.4 s)",
        "  artifact /a/b.png (image/png, 7 bytes)",
        "  warning: output /x: odd",
    ]


def test_results_without_an_answer_have_their_exit_codes() -> None:
    assert cancelled_result("t").exit_status == 130
    assert lost_result("t").exit_status == 7
    assert lost_result("t").status is Status.UNKNOWN


def test_a_clock_time_is_a_date_and_a_time() -> None:
    assert len(clock_time(0.0)) == len("1970-01-01 00:00:00")


def entry(**fields: object) -> SidecarEntry:
    """A sidecar's entry."""
    return SidecarEntry(id="s", source=Source.PROJECT, position=WHERE, **fields)  # type: ignore[arg-type]  # as the test says


@pytest.mark.parametrize(
    ("code", "state"),
    [(0, CheckState.OK), (1, CheckState.FAIL), (3, CheckState.WARN), (4, CheckState.FAIL)],
)
def test_the_state_of_the_log(code: int, state: CheckState) -> None:
    found = Verification(exit_code=code, lines=3, message="so it is", file="f", line=2, seq=2)
    check = checks.check_audit(found)
    assert check.state is state
    assert bool(check.fix) is (code != 0)


@pytest.mark.parametrize(("version", "state"), [((3, 11, 0), CheckState.OK), ((3, 10, 9), CheckState.FAIL)])
def test_python_is_new_enough(version: tuple[int, ...], state: CheckState) -> None:
    assert checks.check_python(version).state is state


def test_a_diagnostic_names_its_place_and_its_fix() -> None:
    finding = Diagnostic(
        severity=Severity.ERROR, rule="r", message="bad", remedy="write good", position=WHERE, excerpt="x\n^"
    )
    _, check = checks.check_registry(("f",), (finding,))
    assert check.state is CheckState.FAIL
    assert check.message == "tools/external.tools.jsonc:1:1: bad\nx\n^"
    assert check.fix == "write good"


def test_no_registry_is_something_to_look_at() -> None:
    (check,) = checks.check_registry((), ())
    assert check.state is CheckState.WARN
    assert "flytui init" in check.message
    assert "flytui init" in check.fix


@pytest.mark.parametrize("down", [0, 1, 7])
def test_doctor_counts_tools_and_nothing_is_well_while_one_is_down(down: int) -> None:
    well = tuple(tool_view(f"a.up{at}", "a", stability_of()) for at in range(3))
    lost = stability_of(Effective.UNAVAILABLE)
    ill = tuple(tool_view(f"b.down{at}", "b", lost) for at in range(down))
    check = checks.check_tools(Catalog(version=1, app_root="/srv", sidecars=(), capabilities=(*well, *ill)))
    assert check.state is (CheckState.WARN if down else CheckState.OK)
    assert check.message.startswith(f"3 of {3 + down} tools can be called")
    assert ("b.down0" in check.message) == bool(down)
    assert ("and 3 more" in check.message) == (down == 7)


@each_row(
    ("mode", "uid", "state"),
    [
        (0o40700, 0, CheckState.OK),
        (0o40755, 0, CheckState.FAIL),
        (0o40700, 1, CheckState.FAIL),
        (0o100700, 0, CheckState.FAIL),
        (0o120777, 0, CheckState.FAIL),
    ],
)
def test_the_socket_folder_is_the_users_alone(mode: int, uid: int, state: CheckState) -> None:
    found = os.stat_result((mode, 0, 0, 1, uid, 0, 0, 0, 0, 0))
    assert checks.check_socket("/run/x", found, 0, True).state is state


@each_row(
    ("size", "encoding", "state"),
    [
        (None, "ascii", CheckState.OK),
        ((80, 24), "utf-8", CheckState.OK),
        ((59, 24), "utf-8", CheckState.WARN),
        ((80, 19), "utf-8", CheckState.WARN),
        ((80, 24), "ascii", CheckState.WARN),
    ],
)
def test_a_terminal_that_the_console_fits(
    size: tuple[int, int] | None, encoding: str, state: CheckState
) -> None:
    found = next(terminal_checks(TerminalFacts(size, encoding, {}, None)))
    assert (found.name, found.state) == ("terminal", state)


@each_row(
    ("environ", "tmux", "states"),
    [
        ({"NO_COLOR": "1", "TERM": "vt100"}, None, ["colours ok"]),
        ({"COLORTERM": "truecolor", "TERM": "xterm"}, None, ["colours ok"]),
        ({"TERM": "tmux-256color"}, TmuxFacts(True, "on"), ["colours ok", "tmux ok", "clipboard ok"]),
        ({"TERM": "vt100"}, TmuxFacts(True, "external"), ["colours warn", "tmux ok", "clipboard warn"]),
        (
            {"TERM": "tmux-256color"},
            TmuxFacts(True, "on", "off"),
            ["colours ok", "tmux ok", "keyboard focus warn", "clipboard ok"],
        ),
        ({"TERM": "linux"}, TmuxFacts(False, ""), ["colours warn", "tmux warn"]),
    ],
)
def test_what_a_terminal_can_do_is_said(
    environ: dict[str, str], tmux: TmuxFacts | None, states: list[str]
) -> None:
    _, *found = terminal_checks(TerminalFacts((80, 24), "utf-8", environ, tmux))
    assert [f"{check.name} {check.state.value}" for check in found] == states
    assert all(check.fix for check in found if check.state is CheckState.WARN)


@pytest.mark.parametrize(
    ("desktop", "environ", "present", "states"),
    [
        (False, {}, {}, []),
        (True, {}, {}, ["display warn", "xdotool warn"]),
        (True, {"DISPLAY": ":1"}, {"xdotool": True}, ["display ok", "xdotool ok"]),
    ],
)
def test_programs_are_looked_for_where_a_tool_needs_them(
    desktop: bool, environ: dict[str, str], present: dict[str, bool], states: list[str]
) -> None:
    entries = (entry(permissions=Permissions(desktop=desktop)),)
    found = checks.check_desktop(entries, environ, present)
    assert [f"{check.name} {check.state.value}" for check in found] == states
