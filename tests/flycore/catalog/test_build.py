"""The catalog as a value: who has a tool, what is listed although nothing offers it, what changed."""

from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema
import msgspec
import pytest

from flycore.catalog.builtin import KNOWN
from flycore.catalog.diff import difference
from flycore.catalog.document import catalog_document, catalog_schema, visible_catalog
from flycore.catalog.observations import Failure
from flycore.catalog.probes import ProbeFinding
from flycore.kernel.doctor import check_sidecar
from flycore.model import enums
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import CheckState, Diagnostic, Severity
from flycore.model.enums import (
    Decision,
    Effective,
    PathState,
    ProbeState,
    ReasonCode,
    RuntimeState,
    SandboxState,
)
from flycore.model.sidecar import Registry, SidecarEntry, ToolClaim
from flycore.model.stability import ProbeEvidence, RuntimeEvidence, ToolProbe
from flycore.registry.load import mark_conflicts
from kits.tables import each_row

MakeEntry = Callable[..., SidecarEntry]
MakeCatalog = Callable[..., Catalog]


def _notes(count: int) -> tuple[ToolClaim, ...]:
    schema = {"type": "object"}
    names = [f"notes.n{number}" for number in range(count)]
    return tuple(ToolClaim(name=name, spec={"name": name, "inputSchema": schema}) for name in names)


def test_empty_registry_lists_every_known_tool(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog()
    assert [view.capability.name for view in catalog.capabilities] == sorted(KNOWN)
    assert {view.stability.effective for view in catalog.capabilities} == {Effective.UNAVAILABLE}
    assert {view.source for view in catalog.capabilities} == {"none", "plan"}
    assert visible_catalog(catalog) == ()


def test_first_in_the_file_has_the_tool(make_entry: MakeEntry, make_catalog: MakeCatalog) -> None:
    first, second = make_entry("a", ("file.hash",)), make_entry("b", ("file.hash", "vision.ocr"))
    catalog = make_catalog(first, second)
    owners = {view.capability.name: view.sidecar for view in catalog.capabilities if view.sidecar}
    assert owners == {"file.hash": "a", "vision.ocr": "b"}


def test_warning_of_the_loser_is_shown(make_entry: MakeEntry, make_catalog: MakeCatalog) -> None:
    entries = mark_conflicts((make_entry("a"), make_entry("b")))
    loser = make_catalog(*entries).sidecar("b")
    assert loser is not None
    (warning,) = loser.stability.evidence.violations
    assert (warning.severity, loser.stability.effective) == (Severity.WARNING, Effective.AVAILABLE)
    assert "file.hash is offered by a" in warning.message


def test_broken_entry_leaves_the_others_alone(make_entry: MakeEntry, make_catalog: MakeCatalog) -> None:
    error = Diagnostic(severity=Severity.ERROR, rule="x", message="broken")
    claims = (
        ToolClaim(name="no.such"),
        ToolClaim(name="workspace.read"),
        ToolClaim(name="vision.ocr", spec={"name": 3}),
    )
    entry = msgspec.structs.replace(make_entry("broken", problems=(error,)), tools=claims)
    catalog = make_catalog(entry, make_entry())
    assert catalog.capability("no.such") is None
    own = catalog.capability("workspace.read")
    assert own is not None
    assert own.sidecar is None
    views = {name: catalog.capability(name) for name in ("vision.ocr", "file.hash")}
    assert {name: view and view.stability.effective for name, view in views.items()} == {
        "vision.ocr": Effective.UNAVAILABLE,
        "file.hash": Effective.AVAILABLE,
    }
    assert views["vision.ocr"] is not None
    assert views["vision.ocr"].stability.reasons[0].code is ReasonCode.MANIFEST_INVALID


def test_untrusted_unless_said_otherwise(make_entry: MakeEntry, make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_entry(), trusted=frozenset())
    view = catalog.capability("file.hash")
    assert view is not None
    assert view.stability.reasons[0].code is ReasonCode.FOLDER_UNTRUSTED


def test_policy_narrows_one_tool(make_entry: MakeEntry, make_catalog: MakeCatalog) -> None:
    def policy(capability: object, entry: object) -> tuple[Decision, str]:
        denied = getattr(capability, "name", "") == "vision.ocr"
        return (Decision.DENY, "never") if denied else (Decision.ALLOW, "fine")

    catalog = make_catalog(make_entry("a", ("file.hash", "vision.ocr")), policy=policy)
    views = {view.capability.name: view for view in catalog.capabilities}
    assert (views["vision.ocr"].decision, views["file.hash"].decision) == ("deny", "allow")
    assert views["vision.ocr"].stability.sandbox is SandboxState.DENIED
    assert [view.capability.name for view in visible_catalog(catalog)] == ["file.hash"]


def test_every_unavailable_tool_has_a_reason_and_a_remedy(
    make_entry: MakeEntry, make_catalog: MakeCatalog
) -> None:
    entries = [
        make_entry("off", ("vision.ocr",), enabled=False),
        make_entry("lost", ("web.fetch",)),
        make_entry("new", ("file.hash",)),
    ]
    for view in make_catalog(*entries, programs={}, trusted=frozenset()).capabilities:
        assert view.stability.effective in (Effective.UNAVAILABLE, Effective.DISABLED)
        assert all(reason.message and reason.remedy for reason in view.stability.reasons)
        assert view.stability.reasons


def _probed(at: float, tool: str = "healthy") -> ProbeFinding:
    tools = {"file.hash": ToolProbe(status=ProbeState(tool))}
    evidence = ProbeEvidence(at=at, duration_ms=int(at), stderr_tail=str(at), tools=tools)
    return ProbeFinding(state=ProbeState.HEALTHY, evidence=evidence)


@pytest.mark.parametrize(
    ("down", "state"),
    [((), "available"), (("vision.ocr",), "degraded (1 of 2)"), (("vision.ocr", "file.hash"), "unavailable")],
)
def test_a_sidecar_is_as_well_as_its_tools(
    make_entry: MakeEntry, make_catalog: MakeCatalog, down: tuple[str, ...], state: str
) -> None:
    entry = make_entry("a", ("file.hash", "vision.ocr"))
    unwell = ToolProbe(status=ProbeState.UNAVAILABLE, reason="no program", remedy="install it")
    evidence = ProbeEvidence(at=1.0, tools=dict.fromkeys(down, unwell))
    probe = ProbeFinding(state=ProbeState.HEALTHY, evidence=evidence)
    view = make_catalog(entry, probes={"a": probe}).sidecar("a")
    assert view is not None
    assert view.state_text == state
    ladder = {0: ProbeState.HEALTHY, 1: ProbeState.DEGRADED, 2: ProbeState.UNAVAILABLE}[len(down)]
    assert view.stability.probe is ladder
    assert (view.stability.runtime is None) is (len(down) == 2)
    checks = list(check_sidecar(view))
    assert [check.state for check in checks] == [CheckState.OK if not down else CheckState.WARN]
    assert checks[0].message.startswith(state)
    assert ("no program" in checks[0].message) == bool(down)


def test_the_ladder_of_a_plan_is_that_of_the_tool_that_blocks_it(
    make_entry: MakeEntry, make_catalog: MakeCatalog
) -> None:
    used = KNOWN["computer.use"].over
    lost = make_catalog(make_entry("a", used), programs={})
    plan, tool = lost.capability("computer.use"), lost.capability(used[0])
    assert plan is not None
    assert tool is not None
    assert plan.stability.path is tool.stability.path is PathState.UNRESOLVED
    assert plan.stability.effective is Effective.UNAVAILABLE
    (reason,) = plan.stability.reasons
    assert reason.dimension == "path"
    assert f"computer.use needs {used[0]} and {len(used) - 1} more" in reason.message
    off = make_catalog(make_entry("a", used, enabled=False)).capability("computer.use")
    assert off is not None
    assert off.stability.effective is Effective.UNAVAILABLE
    assert off.stability.reasons[0].dimension == "discovery"


def _failed(at: float) -> Failure:
    evidence = RuntimeEvidence(at=at, code="crashed", message=f"at {at}")
    return Failure(state=RuntimeState.FAILED, evidence=evidence, last=at)


def test_ages_and_durations_are_no_difference(make_entry: MakeEntry, make_catalog: MakeCatalog) -> None:
    def built(at: float) -> Catalog:
        entry = make_entry()
        probes, failures = {entry.id: _probed(at)}, {entry.id: _failed(at)}
        return make_catalog(entry, probes=probes, failures=failures, now=at, version=int(at))

    old, new = built(1.0), built(2.0)
    assert old != new
    assert difference(old, new) == ()


def test_difference_names_what_changed(make_entry: MakeEntry, make_catalog: MakeCatalog) -> None:
    entry = make_entry("a", ("file.hash", "vision.ocr"))
    note = Diagnostic(severity=Severity.INFO, rule="x", message="m")
    old = make_catalog(entry)
    probed = make_catalog(entry, probes={"a": _probed(1.0, "unavailable")})
    assert "file.hash" in difference(old, probed)
    assert difference(old, make_catalog()) == ("file.hash", "vision.ocr", "sidecar:a")
    grown = make_catalog(entry, msgspec.structs.replace(entry, id="n", tools=_notes(1)))
    assert difference(old, grown) == ("notes.n0", "sidecar:n")
    registry = Registry(
        app_root="/root", config_dir="/config", workspace="/root", entries=(entry,), diagnostics=(note,)
    )
    assert difference(old, make_catalog(entry, registry=registry)) == ("diagnostics",)


def test_ten_thousand_tools_share_their_snapshot(make_entry: MakeEntry, make_catalog: MakeCatalog) -> None:
    entry = msgspec.structs.replace(make_entry("many"), tools=_notes(10_000))
    old, new = make_catalog(entry), make_catalog(entry)
    assert len(old.capabilities) == 10_000 + len(KNOWN)
    assert len({id(view.stability) for view in old.capabilities if view.sidecar}) == 1
    assert difference(old, new) == ()
    assert len(catalog_document(old)["capabilities"]) == 10_000 + len(KNOWN)


def test_document_is_what_its_schema_says(make_entry: MakeEntry, make_catalog: MakeCatalog) -> None:
    entries = [
        make_entry("off", ("vision.ocr",), enabled=False),
        make_entry("lost", ("web.fetch",)),
        make_entry(),
        msgspec.structs.replace(
            make_entry("n", seal_in_place=True), tools=(ToolClaim(name="a.b", spec={"name": "a.b"}),)
        ),
    ]
    catalog = make_catalog(
        *entries, probes={"utility.local": _probed(1.0)}, failures={"utility.local": _failed(1.0)}
    )
    document = catalog_document(catalog)
    jsonschema.Draft202012Validator.check_schema(catalog_schema())
    jsonschema.Draft202012Validator(catalog_schema()).validate(json.loads(json.dumps(document)))
    rows = {row["name"]: row for row in document["capabilities"]}
    assert {name: rows[name]["status"] for name in ("file.hash", "vision.ocr", "a.b")} == {
        "file.hash": "ready",
        "vision.ocr": "error",
        "a.b": "schema-unknown",
    }
    assert rows["vision.ocr"]["errorMessage"] == rows["vision.ocr"]["reasons"][0]["message"]
    assert rows["file.hash"]["discoveredAt"] == "2023-11-14T22:13:20+00:00"
    assert rows["file.hash"]["source"] == "registry:project"
    assert rows["file.hash"]["stability"]["effective"] == rows["file.hash"]["effective"] == "degraded"


@each_row(
    ("place", "values"),
    [
        ("discovery", enums.Discovery),
        ("manifest", enums.Manifest),
        ("path", enums.PathState),
        ("version", enums.VersionState),
        ("probe", enums.ProbeState),
        ("runtime", enums.RuntimeState),
        ("sandbox", enums.SandboxState),
        ("upgrade", enums.UpgradeState),
    ],
)
def test_schema_knows_every_state(place: str, values: type[enums.Discovery]) -> None:
    rule = catalog_schema()["$defs"]["stability"]["properties"][place]
    assert {value for value in rule["enum"] if value is not None} == {value.value for value in values}


def test_schema_knows_every_reason_and_word() -> None:
    definitions = catalog_schema()["$defs"]
    assert set(definitions["reason"]["properties"]["code"]["enum"]) == {code.value for code in ReasonCode}
    assert set(definitions["effective"]["enum"]) == {word.value for word in Effective}
    assert set(definitions["sidecar"]["properties"]["kind"]["enum"]) == {kind.value for kind in enums.Kind}
    assert set(definitions["capability"]["properties"]["risk"]["enum"]) == {risk.value for risk in enums.Risk}
