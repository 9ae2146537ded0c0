"""The snapshot: which rung breaks, what is then not looked at, and what a person is told to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from flycore.catalog.builtin import KNOWN
from flycore.catalog.observations import Failure
from flycore.catalog.probes import ProbeFinding
from flycore.catalog.snapshot import (
    SidecarFacts,
    missing_stability,
    sidecar_stability,
    tool_variant_key,
)
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import (
    Decision,
    Discovery,
    Effective,
    Kind,
    Level,
    PathState,
    ProbeState,
    ReasonCode,
    RuntimeState,
    SandboxState,
    UpgradeState,
)
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry, ToolClaim
from flycore.model.stability import (
    ProbeEvidence,
    Reason,
    RuntimeEvidence,
    SandboxReport,
    Stability,
    ToolProbe,
)
from kits.tables import each_row

LADDER = ("discovery", "manifest", "path", "version", "probe", "runtime", "sandbox", "upgrade")
MakeEntry = Callable[..., SidecarEntry]
MakeProgram = Callable[..., ResolvedProgram]
MakeFacts = Callable[..., SidecarFacts]
BROKEN = Diagnostic(
    severity=Severity.ERROR,
    rule="type",
    message="timeoutMs must be a number",
    remedy="write 30000",
    pointer="/timeoutMs",
    position=Position(file="tools/external.tools.jsonc", line=9, column=3),
)


def _probe(state: ProbeState, code: ReasonCode | None = None, **tools: ToolProbe) -> ProbeFinding:
    reason = Reason(code=code, dimension="probe", message="m", remedy="r") if code else None
    named = {name.replace("_", "."): tool for name, tool in tools.items()}
    return ProbeFinding(state=state, reason=reason, evidence=ProbeEvidence(at=1.0, tools=named))


def _failure(state: RuntimeState, code: str = "") -> Failure:
    return Failure(state=state, evidence=RuntimeEvidence(at=1.0, code=code), last=1.0)


def _unresolved(make_program: MakeProgram, code: ReasonCode) -> ResolvedProgram:
    outside = code is ReasonCode.OUTSIDE_ROOT_DENIED
    state = PathState.OUTSIDE_ROOT_DENIED if outside else PathState.UNRESOLVED
    return make_program(state, reason=code, message="m", remedy="install it")


def _case(code: str, make_entry: MakeEntry, make_program: MakeProgram) -> tuple[dict[str, Any], str, str]:
    """Facts that lead to the code, the dimension it stands in, and the word that comes of it."""
    entry: dict[str, dict[str, Any]] = {
        "disabled": {"enabled": False, "disabled_reason": "later"},
        "manifest-invalid": {"problems": (BROKEN,)},
        "kind-unsupported": {"kind": Kind.EXECUTABLE, "command": ""},
        "core-incompatible": {"compatible_core": ">=9"},
        "protocol-incompatible": {"protocol_version": "9"},
        "version-unknown": {"package_id": "p", "package_version": "1"},
        "upgrade-staged": {"upgrade": UpgradeState.STAGED},
        "upgrade-applying": {"upgrade": UpgradeState.APPLYING},
        "rollback-required": {"upgrade": UpgradeState.ROLLBACK_REQUIRED},
        "upgrade-failed": {"upgrade": UpgradeState.FAILED},
    }
    facts: dict[str, dict[str, Any]] = {
        "version-unknown": {"installed_version": "2"},
        "probe-unavailable": {"probe": _probe(ProbeState.UNAVAILABLE, ReasonCode.PROBE_UNAVAILABLE)},
        "probe-timeout": {"probe": _probe(ProbeState.UNAVAILABLE, ReasonCode.PROBE_TIMEOUT)},
        "tool-unavailable": {"probe": _probe(ProbeState.UNAVAILABLE, ReasonCode.TOOL_UNAVAILABLE)},
        "probe-degraded": {"probe": _probe(ProbeState.DEGRADED, ReasonCode.PROBE_DEGRADED)},
        "probe-slow": {"probe": _probe(ProbeState.DEGRADED, ReasonCode.PROBE_SLOW)},
        "program-changed": {"probe": _probe(ProbeState.DEGRADED, ReasonCode.PROGRAM_CHANGED)},
        "schema-unknown": {"probe": _probe(ProbeState.DEGRADED, ReasonCode.SCHEMA_UNKNOWN)},
        "login-needed": {"probe": _probe(ProbeState.UNAVAILABLE, ReasonCode.LOGIN_NEEDED)},
        "secret-missing": {"missing_secrets": {"API_KEY": "not set"}},
        "runtime-failed": {"failure": _failure(RuntimeState.FAILED, "crashed")},
        "runtime-timed-out": {"failure": _failure(RuntimeState.TIMED_OUT)},
        "runtime-schema-error": {"failure": _failure(RuntimeState.SCHEMA_ERROR)},
        "folder-untrusted": {"trusted": False},
        "policy-denied": {"policy": lambda tool: (Decision.DENY, "no (policy.jsonc:3)")},
        "blocked": {"blocked": frozenset({"file.hash"})},
        "ceiling-exceeded": {"exceeded": ("network",)},
        "sandbox-unavailable": {"sandbox": SandboxReport(level=Level.DENIED, mechanism="no user namespaces")},
    }
    for path in ("command-not-found", "not-executable", "interpreter-missing", "outside-root-denied"):
        facts[path] = {"program": _unresolved(make_program, ReasonCode(path))}
    given = facts.get(code, {}) | ({"entry": make_entry(**entry[code])} if code in entry else {})
    return given, *PLACES[code]


PLACES = {
    "disabled": ("discovery", "disabled"),
    "manifest-invalid": ("manifest", "unavailable"),
    "command-not-found": ("path", "unavailable"),
    "not-executable": ("path", "unavailable"),
    "interpreter-missing": ("path", "unavailable"),
    "outside-root-denied": ("path", "unavailable"),
    "kind-unsupported": ("version", "unavailable"),
    "core-incompatible": ("version", "unavailable"),
    "protocol-incompatible": ("version", "unavailable"),
    "version-unknown": ("version", "degraded"),
    "probe-unavailable": ("probe", "unavailable"),
    "probe-timeout": ("probe", "unavailable"),
    "tool-unavailable": ("probe", "unavailable"),
    "probe-degraded": ("probe", "degraded"),
    "probe-slow": ("probe", "degraded"),
    "schema-unknown": ("probe", "degraded"),
    "program-changed": ("probe", "degraded"),
    "secret-missing": ("probe", "unavailable"),
    "login-needed": ("probe", "unavailable"),
    "runtime-failed": ("runtime", "degraded"),
    "runtime-timed-out": ("runtime", "degraded"),
    "runtime-schema-error": ("runtime", "degraded"),
    "folder-untrusted": ("sandbox", "unavailable"),
    "policy-denied": ("sandbox", "unavailable"),
    "blocked": ("sandbox", "unavailable"),
    "ceiling-exceeded": ("sandbox", "unavailable"),
    "sandbox-unavailable": ("sandbox", "unavailable"),
    "upgrade-staged": ("upgrade", "degraded"),
    "upgrade-applying": ("upgrade", "unavailable"),
    "rollback-required": ("upgrade", "unavailable"),
    "upgrade-failed": ("upgrade", "unavailable"),
}


def test_every_code_has_a_case() -> None:
    elsewhere = {
        "not-configured",
        "delegate-missing",
        "quota-limited",
        "dialect-unknown",
        "answered-unavailable",
        "permission-missing",
    }
    assert set(PLACES) | elsewhere == set(ReasonCode)


@pytest.mark.parametrize("code", sorted(PLACES))
def test_code(
    code: str,
    make_entry: MakeEntry,
    make_program: MakeProgram,
    make_facts: MakeFacts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if code == "kind-unsupported":  # of a version that runs fewer kinds: this one runs all
        for module in ("snapshot", "version"):
            monkeypatch.setattr(f"flycore.catalog.{module}.RUNNABLE_KINDS", (Kind.PROCESS_JSON,))
    given, dimension, word = _case(code, make_entry, make_program)
    found = sidecar_stability(make_facts(**({"probe": _probe(ProbeState.HEALTHY)} | given)))
    assert [(reason.code, reason.dimension) for reason in found.reasons] == [(code, dimension)]
    assert found.effective == word
    assert found.reasons[0].message
    assert found.reasons[0].remedy
    later = LADDER[LADDER.index(dimension) + 1 :]
    looked_at = [name for name in later if getattr(found, name) is not None]
    assert looked_at == ([] if word in ("unavailable", "disabled") else list(later))


def test_all_well(make_facts: MakeFacts) -> None:
    found = sidecar_stability(make_facts(probe=_probe(ProbeState.HEALTHY)))
    assert (found.effective, found.reasons) == (Effective.AVAILABLE, ())
    assert found.sandbox is SandboxState.ALLOWED


ACT = "archive.create"


@pytest.mark.parametrize(
    ("claim", "protocol", "bundled", "codes"),
    [
        ({"name": ACT}, "", False, ["dialect-unknown"]),
        ({"name": ACT}, "other/3", False, ["dialect-unknown"]),
        ({"name": ACT, "spec": {"name": ACT, "risk": "high"}}, "", False, ["dialect-unknown"]),
        ({"name": ACT}, "process-json/1", False, []),
        ({"name": ACT}, "", True, []),
        ({"name": ACT, "spec": {"name": ACT, "inputSchema": {"type": "object"}}}, "", False, []),
        ({"name": "file.hash"}, "", False, []),
        ({"name": "screen.screenshot"}, "", False, []),
        ({"name": "own.tool", "spec": {"name": "own.tool", "approvalClass": "write"}}, "", False, []),
    ],
)
def test_an_acting_tool_of_a_foreign_program_may_read_other_fields(
    make_entry: MakeEntry,
    make_facts: MakeFacts,
    claim: dict[str, Any],
    protocol: str,
    bundled: bool,
    codes: list[str],
) -> None:
    entry = msgspec.structs.replace(make_entry(), tools=(ToolClaim(**claim),))
    probe = ProbeFinding(state=ProbeState.HEALTHY, evidence=ProbeEvidence(at=1.0, protocol=protocol))
    facts = make_facts(entry, probe=probe, bundled=bundled)
    found = sidecar_stability(facts, claim["name"])
    assert [reason.code for reason in found.reasons] == codes
    assert found.effective is (Effective.DEGRADED if codes else Effective.AVAILABLE)
    assert sidecar_stability(facts).effective is Effective.AVAILABLE
    assert tool_variant_key(facts, claim["name"]) != tool_variant_key(facts, "x.y") or not codes


def test_what_stops_a_tool_is_its_first_reason(make_entry: MakeEntry, make_facts: MakeFacts) -> None:
    entry = msgspec.structs.replace(make_entry(), tools=(ToolClaim(name=ACT),))
    facts = make_facts(entry, policy=lambda tool: (Decision.DENY, "no"))
    codes = [reason.code for reason in sidecar_stability(facts, ACT).reasons]
    assert codes == ["policy-denied", "dialect-unknown"]


def test_probe_that_has_not_answered_stops_nothing(make_facts: MakeFacts) -> None:
    found = sidecar_stability(make_facts())
    assert (found.probe, found.runtime, found.effective) == (None, RuntimeState.READY, Effective.AVAILABLE)


def test_untrusted_is_looked_at_without_starting_anything(make_facts: MakeFacts) -> None:
    failed = _failure(RuntimeState.FAILED, "crashed")
    found = sidecar_stability(make_facts(trusted=False, probe=_probe(ProbeState.HEALTHY), failure=failed))
    assert (found.probe, found.runtime, found.sandbox) == (
        ProbeState.SKIPPED,
        RuntimeState.READY,
        SandboxState.DENIED,
    )
    assert found.evidence.probe is None


def test_command_nobody_followed_is_refused(make_facts: MakeFacts) -> None:
    found = sidecar_stability(make_facts(program=None))
    assert (found.path, found.effective) == (PathState.UNRESOLVED, Effective.UNAVAILABLE)


def test_manifest_reasons_carry_place_and_remedy(make_entry: MakeEntry, make_facts: MakeFacts) -> None:
    found = sidecar_stability(make_facts(make_entry(problems=(BROKEN,) * 9)))
    assert len(found.reasons) == 5
    assert found.reasons[0].message == "/timeoutMs: timeoutMs must be a number (tools/external.tools.jsonc:9)"
    assert found.reasons[0].remedy == "write 30000"
    assert len(found.evidence.violations) == 9


def test_warning_stays_evidence(make_entry: MakeEntry, make_facts: MakeFacts) -> None:
    warning = Diagnostic(severity=Severity.WARNING, rule="unknown-key", message="no such key")
    found = sidecar_stability(make_facts(make_entry(problems=(warning,))))
    assert (found.effective, found.reasons) == (Effective.AVAILABLE, ())
    assert found.evidence.violations == (warning,)


def test_remedy_names_the_line_of_the_key(make_entry: MakeEntry, make_facts: MakeFacts) -> None:
    entry = make_entry(enabled=False)
    line = entry.position.line
    text = f'"{entry.id}": {{ // off\n\n"enabled": false}}'
    found = sidecar_stability(make_facts(make_entry(enabled=False, text=text)))
    assert found.reasons[0].remedy == f'set "enabled" to true at {entry.position.file}:{line + 2}'


def test_a_reason_to_be_off_has_to_be_over_first(make_entry: MakeEntry, make_facts: MakeFacts) -> None:
    """`set enabled to true` alone would send people to a tool that is not there."""
    found = sidecar_stability(make_facts(make_entry(enabled=False, disabled_reason="comes later")))
    assert found.reasons[0].message == "comes later"
    assert found.reasons[0].remedy.startswith('once that no longer applies, set "enabled" to true at ')


def _desktop(make_entry: MakeEntry) -> SidecarEntry:
    tools = (
        "screen.screenshot",
        "computer.mouse",
        "computer.keyboard",
        "lsp.symbols",
        "task.background",
        "vision.ocr",
    )
    return make_entry("computer.native", tools)


@pytest.mark.parametrize(
    ("delegate", "lost"),
    [
        ("mouse", {"computer.mouse"}),
        ("keyboard", {"computer.keyboard"}),
        ("lsp", {"lsp.symbols"}),
        ("task", {"task.background"}),
        ("vision.ocr", {"vision.ocr"}),
        ("other", set()),
    ],
)
def test_missing_delegate_takes_only_its_tools(
    make_entry: MakeEntry, make_program: MakeProgram, make_facts: MakeFacts, delegate: str, lost: set[str]
) -> None:
    broken = _unresolved(make_program, ReasonCode.COMMAND_NOT_FOUND)
    facts = make_facts(_desktop(make_entry), delegates={delegate: broken}, probe=_probe(ProbeState.HEALTHY))
    assert sidecar_stability(facts).effective is Effective.AVAILABLE
    found = {tool: sidecar_stability(facts, tool) for tool in facts.entry.tool_names}
    assert {tool for tool, seen in found.items() if seen.effective is Effective.UNAVAILABLE} == lost
    for tool in lost:
        assert [reason.code for reason in found[tool].reasons] == [ReasonCode.DELEGATE_MISSING]
        assert found[tool].path is PathState.RESOLVED


@pytest.mark.parametrize(
    ("probed", "word", "code"),
    [
        (ToolProbe(status=ProbeState.UNAVAILABLE), "unavailable", "tool-unavailable"),
        (
            ToolProbe(status=ProbeState.UNAVAILABLE, code=ReasonCode.DELEGATE_MISSING),
            "unavailable",
            "delegate-missing",
        ),
        (ToolProbe(status=ProbeState.DEGRADED), "degraded", "probe-degraded"),
        (ToolProbe(status=ProbeState.HEALTHY), "available", None),
    ],
)
def test_probe_narrows_one_tool(
    make_entry: MakeEntry, make_facts: MakeFacts, probed: ToolProbe, word: str, code: str | None
) -> None:
    probe = _probe(ProbeState.HEALTHY, computer_mouse=probed)
    facts = make_facts(_desktop(make_entry), probe=probe, bundled=True)
    found = sidecar_stability(facts, "computer.mouse")
    assert found.effective == word
    assert [reason.code for reason in found.reasons] == ([code] if code else [])
    assert all(reason.remedy for reason in found.reasons)
    assert sidecar_stability(facts, "computer.keyboard").effective is Effective.AVAILABLE


def test_policy_is_asked_for_each_tool(make_entry: MakeEntry, make_facts: MakeFacts) -> None:
    decisions = {"computer.mouse": Decision.DENY, "computer.keyboard": Decision.ASK}
    facts = make_facts(
        _desktop(make_entry), policy=lambda tool: (decisions.get(tool, Decision.ALLOW), "because")
    )
    states = {tool: sidecar_stability(facts, tool).sandbox for tool in facts.entry.tool_names}
    assert states["computer.mouse"] is SandboxState.DENIED
    assert states["computer.keyboard"] is SandboxState.APPROVAL_REQUIRED
    assert states["screen.screenshot"] is SandboxState.ALLOWED
    assert sidecar_stability(facts).sandbox is SandboxState.APPROVAL_REQUIRED


@each_row("name", sorted(KNOWN))
def test_nothing_offers_it(name: str) -> None:
    found: Stability = missing_stability(KNOWN[name])
    assert (found.discovery, found.effective) == (Discovery.MISSING, Effective.UNAVAILABLE)
    (reason,) = found.reasons
    assert reason.code is ReasonCode.NOT_CONFIGURED
    assert reason.remedy
