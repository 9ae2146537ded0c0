"""What can be done about a reason: from the kernel's table, never from what a program said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flycore.catalog.fixes import PACKAGES, Machine, probe_again_remedy
from flycore.catalog.probes import ProbeFinding
from flycore.catalog.snapshot import SidecarFacts, sidecar_stability
from flycore.kernel.root_state import find_host_tools
from flycore.model.catalog import Catalog
from flycore.model.diagnostics import Fix, FixKind
from flycore.model.enums import PathState, ProbeState, ReasonCode
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import ProbeEvidence, Reason, ToolProbe

FILE = "tools/external.tools.jsonc"
DEBIAN = Machine(manager="apt-get", prefix=("sudo",), absent=frozenset({"xdotool", "tesseract"}))
EVIL = Fix(kind=FixKind.COMMAND, words="mend", argv=("rm", "-rf", "/"))
MakeFacts = Callable[..., SidecarFacts]
MakeEntry = Callable[..., SidecarEntry]
MakeProgram = Callable[..., ResolvedProgram]


def fix_of(facts: SidecarFacts, tool: str | None = None) -> Fix | None:
    return sidecar_stability(facts, tool).reasons[0].fix


def lost(make_program: MakeProgram, **fields: Any) -> ResolvedProgram:
    given: dict[str, Any] = {"reason": ReasonCode.COMMAND_NOT_FOUND, "message": "m", "remedy": "r"}
    return make_program(PathState.UNRESOLVED, **(given | fields))


@pytest.mark.parametrize(
    ("manager", "prefix", "program", "argv"),
    [
        ("apt-get", ("sudo",), "tesseract", ("sudo", "apt-get", "install", "tesseract-ocr")),
        ("apt-get", (), "xdotool", ("apt-get", "install", "xdotool")),
        ("dnf", ("sudo",), "espeak-ng", ("sudo", "dnf", "install", "espeak-ng")),
        ("pacman", ("sudo",), "tesseract", ("sudo", "pacman", "-S", "tesseract", "tesseract-data-eng")),
        ("brew", (), "chromium", ("brew", "install", "--cask", "chromium")),
        ("apt-get", ("su", "-c"), "tesseract", ("su", "-c", "apt-get install tesseract-ocr")),
    ],
)
def test_a_known_program_that_is_missing_is_installed(
    make_facts: MakeFacts,
    make_program: MakeProgram,
    manager: str,
    prefix: tuple[str, ...],
    program: str,
    argv: tuple[str, ...],
) -> None:
    machine = Machine(manager=manager, prefix=prefix)
    fix = fix_of(make_facts(program=lost(make_program, wanted=program), machine=machine))
    assert fix is not None
    assert (fix.kind, fix.argv) == (FixKind.COMMAND, argv)


@pytest.mark.parametrize("wanted", ["", "my-own-program", "xdotool; rm -rf /", "--reinstall"])
def test_an_unknown_program_is_never_handed_to_a_package_manager(
    make_facts: MakeFacts, make_entry: MakeEntry, make_program: MakeProgram, wanted: str
) -> None:
    entry = make_entry(text='"utility.local": {\n  "tools": [],\n  "command": "x"}')
    fix = fix_of(make_facts(entry, program=lost(make_program, wanted=wanted), machine=DEBIAN))
    assert fix is not None
    assert (fix.kind, fix.argv, fix.file, fix.line) == (FixKind.EDIT, (), FILE, 5)


def test_a_file_without_the_permission_is_made_executable(
    make_facts: MakeFacts, make_program: MakeProgram
) -> None:
    program = lost(make_program, reason=ReasonCode.NOT_EXECUTABLE, shut="/srv/shop/-rf")
    fix = fix_of(make_facts(program=program))
    assert fix is not None
    assert fix.argv == ("chmod", "u+x", "--", "/srv/shop/-rf")


def test_a_delegate_that_leads_nowhere_is_edited_at_its_place(
    make_facts: MakeFacts, make_entry: MakeEntry, make_program: MakeProgram
) -> None:
    entry = make_entry(
        "computer.native",
        ("computer.mouse",),
        text='"computer.native": {\n  "delegates": {"mouse": {"command": "./m"}}}',
    )
    facts = make_facts(entry, delegates={"mouse": lost(make_program)})
    fix = fix_of(facts, "computer.mouse")
    assert fix is not None
    assert (fix.kind, fix.file, fix.line) == (FixKind.EDIT, FILE, 4)


def test_what_a_probe_says_and_a_cache_kept_is_never_run(make_facts: MakeFacts) -> None:
    reason = Reason(
        code=ReasonCode.PROBE_UNAVAILABLE, dimension="probe", message="m", remedy="run rm -rf /", fix=EVIL
    )
    kept = ProbeFinding(state=ProbeState.UNAVAILABLE, reason=reason, evidence=ProbeEvidence(at=1.0))
    found = sidecar_stability(make_facts(probe=kept)).reasons[0]
    assert found.remedy == "run rm -rf /"
    assert found.fix is None


@pytest.mark.parametrize(
    ("code", "remedy", "again"),
    [
        (ReasonCode.PROBE_UNAVAILABLE, "start a browser", False),
        (ReasonCode.TOOL_UNAVAILABLE, "start a browser", False),
        (ReasonCode.PROBE_UNAVAILABLE, "", True),
        (ReasonCode.PROBE_TIMEOUT, "raise its limit", True),
        (ReasonCode.PROBE_SLOW, "raise its limit", True),
    ],
)
def test_asking_again_is_offered_only_where_that_is_the_remedy(
    make_facts: MakeFacts, code: ReasonCode, remedy: str, again: bool
) -> None:
    facts = make_facts()
    words = remedy or probe_again_remedy(facts.entry)
    reason = Reason(code=code, dimension="probe", message="m", remedy=words)
    kept = ProbeFinding(state=ProbeState.UNAVAILABLE, reason=reason, evidence=ProbeEvidence(at=1.0))
    found = sidecar_stability(make_facts(probe=kept)).reasons[0]
    assert (found.fix is not None and found.fix.kind is FixKind.PROBE) is again


@pytest.mark.parametrize(
    ("bundled", "machine", "kind"),
    [
        (True, DEBIAN, FixKind.COMMAND),
        (True, Machine(manager="apt-get"), FixKind.EDIT),
        (True, Machine(absent=frozenset({"xdotool"})), FixKind.EDIT),
        (False, DEBIAN, FixKind.EDIT),
    ],
)
def test_what_a_bundled_sidecar_needs_is_known_without_its_words(
    make_facts: MakeFacts, make_entry: MakeEntry, bundled: bool, machine: Machine, kind: FixKind
) -> None:
    entry = make_entry("computer.native", ("computer.mouse",))
    tools = {
        "computer.mouse": ToolProbe(
            status=ProbeState.UNAVAILABLE,
            code=ReasonCode.DELEGATE_MISSING,
            reason="no",
            remedy="install other-thing",
        )
    }
    probe = ProbeFinding(state=ProbeState.HEALTHY, evidence=ProbeEvidence(at=1.0, tools=tools))
    fix = fix_of(make_facts(entry, probe=probe, bundled=bundled, machine=machine), "computer.mouse")
    assert fix is not None
    assert fix.kind is kind
    assert "other-thing" not in " ".join(fix.argv)


def test_every_argument_of_the_table_is_a_plain_word() -> None:
    words = [word for by in PACKAGES.values() for package in by.values() for word in package]
    assert all(word.isascii() and word.replace("-", "").replace("_", "").isalnum() for word in words)


@pytest.mark.parametrize(("registry", "kind"), [("", FixKind.INIT), (FILE, FixKind.EDIT)])
def test_a_tool_nobody_offers_leads_to_a_first_registry_or_into_the_one_there_is(
    make_catalog: Callable[..., Catalog], registry: str, kind: FixKind
) -> None:
    catalog = make_catalog(registry_file=registry)
    fixes = {view.capability.name: view.stability.reasons[0].fix for view in catalog.capabilities}
    fix = fixes["file.hash"]
    assert fix is not None
    assert (fix.kind, fix.file) == (kind, registry)
    assert fixes["browser.use"] == fixes["browser.open"]


def test_fixes_survive_the_wire(make_facts: MakeFacts) -> None:
    stability = sidecar_stability(make_facts(trusted=False))
    again = msgspec.json.decode(msgspec.json.encode(stability), type=type(stability))
    assert again == stability
    assert again.reasons[-1].fix == Fix(kind=FixKind.TRUST, words="see what it would run, and decide")


def test_the_machine_is_looked_at_on_path_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dnf", "sudo", "xdotool"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = find_host_tools({"PATH": str(tmp_path)})
    assert (found.manager, found.prefix) == ("dnf", ("sudo",))
    assert "xdotool" not in found.absent
    assert "tesseract" in found.absent
    assert find_host_tools({"PATH": "."}).manager == ""
    (tmp_path / "sudo").rename(tmp_path / "su")
    found = find_host_tools({"PATH": str(tmp_path)})
    assert (found.manager, found.prefix) == ("dnf", ("su", "-c"))
    (tmp_path / "su").unlink()
    assert find_host_tools({"PATH": str(tmp_path)}).manager == ""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_host_tools({"PATH": str(tmp_path)}).prefix == ()
