"""Entries that come from files outside of the registry: behind its own, with ids of their own, and no more
trusted than what came with a clone."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from flycore.approval.trust_store import TrustStore
from flycore.kernel.replaced_entries import settle_entries
from flycore.model.diagnostics import Position
from flycore.model.enums import Anchor, PathState, Source
from flycore.model.sidecar import Registry, SidecarEntry, ToolClaim
from flycore.registry.edits import switch_entry
from flycore.registry.entry import entry_digest, sorted_json
from flycore.registry.load import add_discovered
from flycore.registry.paths import find_paths
from flycore.registry.resolve import resolve_program

KINDS = [source for source in Source if source.discovered]


def found(name: str, source: Source = Source.EXECUTABLE, **fields) -> SidecarEntry:
    raw = {"kind": "executable", "file": f"/tools/{name}"}
    made = SidecarEntry(
        id=name,
        source=source,
        position=Position(file=f"tools/bin/{name}", line=1, column=1),
        command=f"./{name}",
        tools=(ToolClaim(name=name, spec={"name": name}),),
        raw=raw,
        digest=entry_digest(name, sorted_json(raw)),
        file=f"/tools/{name}",
        folder="/tools",
    )
    return msgspec.structs.replace(made, **fields)


def registry_of(*entries: SidecarEntry) -> Registry:
    return Registry(app_root="/app", config_dir="/c", workspace="/app", entries=entries, digest="d")


def test_they_come_last_and_lose_a_tool_to_the_registry_with_the_winner_named(make_entry) -> None:
    own = make_entry("mine", tools=(ToolClaim(name="echo"),))
    registry = add_discovered(registry_of(own), (found("echo"), found("other")))
    assert [entry.id for entry in registry.entries] == ["mine", "echo", "other"]
    (lost,) = registry.entries[1].problems
    assert "mine (tools/external.tools.jsonc:3)" in lost.message
    assert lost.position == registry.entries[1].position
    assert registry.entries[1].valid
    assert registry.entries[2].problems == ()


def test_a_taken_id_becomes_another_one_which_is_the_same_at_each_start(make_entry) -> None:
    own = make_entry("echo")
    here, there = found("echo"), found("echo", file="/elsewhere/echo")
    once, again = (
        [entry.id for entry in add_discovered(registry_of(own), order).entries]
        for order in ((here, there), (there, here))
    )
    assert set(once) == set(again)
    assert len(set(once)) == 3
    renamed = add_discovered(registry_of(own), (here,)).entries[1]
    assert renamed.digest != here.digest, "trust in one id is none in another"
    assert renamed.digest == entry_digest(renamed.id, sorted_json(renamed.raw))


def test_a_registry_with_other_discovered_entries_is_another_one() -> None:
    bare = registry_of()
    digests = {add_discovered(bare, entries).digest for entries in ((), (found("a"),), (found("b"),))}
    assert len(digests) == 3
    assert add_discovered(bare, ()) is bare


@pytest.mark.parametrize("source", KINDS)
def test_only_those_in_a_folder_of_the_user_are_trusted_by_their_place(source, tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "trust.json")
    assert not store.is_trusted(found("echo", source))
    assert store.is_trusted(found("echo", source, in_user_folder=True))


@pytest.mark.parametrize("source", KINDS)
def test_they_take_over_nothing_of_the_user_s_own_registry(make_entry, source) -> None:
    mine = make_entry("mine", source=Source.USER, tools=(ToolClaim(name="echo"),))
    project = make_entry("theirs", tools=(ToolClaim(name="more"),))
    registry = add_discovered(registry_of(project, mine), (found("echo", source),))
    settled = settle_entries(registry, frozenset({"theirs", "echo"}))
    assert [entry.id for entry in settled.entries] == ["theirs", "mine", "echo"]
    assert [problem.rule for problem in settled.entries[2].problems] == ["tool-conflict"]
    assert settled.entries[2].took_over == {}


def test_a_command_starts_in_the_folder_that_the_file_was_found_in(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "echo"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (folder / "out").symlink_to("/bin/sh")
    registry = registry_of()
    states = {}
    for command in ("./echo", "./out", "./absent"):
        resolved = resolve_program(
            command,
            (),
            entry=found("echo", folder=str(folder)),
            registry=registry,
            interpreter_dir=Path("/usr/bin"),
            path_env="",
        )
        states[command] = resolved.state
        assert resolved.base is Anchor.TOOLS
    assert states == {
        "./echo": PathState.RESOLVED,
        "./out": PathState.OUTSIDE_ROOT_DENIED,
        "./absent": PathState.UNRESOLVED,
    }


@pytest.mark.parametrize("source", KINDS)
def test_a_switch_in_a_registry_is_refused_for_them(source, tmp_path: Path) -> None:
    places = find_paths(str(tmp_path), None, dict(os.environ), tmp_path)
    edited = switch_entry(places, source, "echo", False, "", "tools/bin/echo")
    assert "tools/bin/echo is no registry" in edited.why_not
