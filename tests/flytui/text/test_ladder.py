"""The probe's rung: how a sidecar answered, and of an MCP server what it is."""

from __future__ import annotations

from flycore.model.enums import Discovery, PathState, ProbeState, ReasonCode
from flycore.model.stability import Evidence, ProbeEvidence, Reason, Stability
from flytui.text.ladder import ladder_lines
from flytui.text.lines import text_of


def drawn(note: str) -> str:
    """The ladder's text."""
    probe = ProbeEvidence(at=100.0, duration_ms=40, note=note)
    found = Stability(
        discovery=Discovery.CONFIGURED, probe=ProbeState.HEALTHY, evidence=Evidence(probe=probe)
    )
    return "\n".join("".join(part.text for part in line) for line in ladder_lines(found, 105.0, 100))


def test_what_an_mcp_server_calls_itself_is_shown_and_never_obeyed() -> None:
    text = drawn("connected: notes 1.2 \x1b[31m, MCP 2026-07-28, 8 tools")
    assert "connected: notes 1.2" in text
    assert "8 tools" in text
    assert "\x1b" not in text


def test_a_sidecar_without_a_note_has_no_line_for_it() -> None:
    assert drawn("").count("\n") == drawn("connected").count("\n") - 1


def test_a_reason_of_a_dimension_that_was_not_reached_is_shown() -> None:
    needs = Reason(code=ReasonCode.PROBE_UNAVAILABLE, dimension="probe", message="no browser", remedy="start")
    found = Stability(discovery=Discovery.CONFIGURED, path=PathState.UNRESOLVED, reasons=(needs,))
    assert any("no browser" in text_of(row) for row in ladder_lines(found, 0.0, 100))
