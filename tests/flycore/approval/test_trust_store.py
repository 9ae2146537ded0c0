"""Trust: given to exactly what was shown, kept on disk, and worth nothing where the file is not ours."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from flycore.approval.entry_summary import describe_entry
from flycore.approval.trust_store import TrustStore, set_digest
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Anchor, PathState, Source
from flycore.model.json import digest
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Delegate, Permissions, Registry


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state" / "trust.json")


@pytest.fixture
def entry(make_entry):
    def build(id: str = "a", **raw):
        return make_entry(id, raw=raw, digest=digest([id, raw]))

    return build


def registry_of(*entries) -> Registry:
    return Registry(app_root="/app", config_dir="/c", workspace="/app", entries=entries)


def lines(entry) -> tuple[str, ...]:
    return (f"command {entry.command}",)


def test_only_the_project_s_sound_entries_wait(store, entry) -> None:
    fault = Diagnostic(severity=Severity.ERROR, rule="r", message="m")
    replace = msgspec.structs.replace
    registry = registry_of(
        entry("a"),
        replace(entry("mine"), source=Source.USER),
        replace(entry("off"), enabled=False),
        replace(entry("bad"), problems=(fault,)),
    )
    (item,) = store.pending(registry, lines)
    assert (item.sidecar, item.changed, item.lines) == ("a", False, ("command flytui-sidecar",))
    assert store.trusted_ids(registry) == {"mine"}


def test_accepted_entries_survive_a_restart_until_they_change(store, entry, tmp_path: Path) -> None:
    path = tmp_path / "state" / "trust.json"
    a, b = entry("a", command="x"), entry("b")
    assert store.accept((("a", a.digest),), registry_of(a, b), 12.5).accepted
    assert path.stat().st_mode & 0o777 == 0o600
    again = TrustStore(path)
    assert again.is_trusted(a)
    assert not again.is_trusted(b)
    changed = entry("a", command="y")
    assert not again.is_trusted(changed)
    (item,) = again.pending(registry_of(changed), lines)
    assert item.changed
    assert item.lines == lines(changed)
    assert item.difference == ('- /command: "x"', '+ /command: "y"')
    kept = again.last_trusted("a")
    assert kept is not None
    assert (kept.raw, kept.digest) == ({"command": "x"}, a.digest)
    assert again.revoke(frozenset({"a"})).accepted
    assert not TrustStore(path).is_trusted(a)


def test_a_file_of_digests_alone_is_read_and_has_nothing_to_go_on_with(entry, tmp_path: Path) -> None:
    path, a = tmp_path / "trust.json", entry("a", v=1)
    path.write_text(f'{{"a": {{"digest": "{a.digest}", "at": 1.0}}}}')
    path.chmod(0o600)
    store = TrustStore(path)
    assert store.diagnostics == ()
    assert store.is_trusted(a)
    (item,) = store.pending(registry_of(entry("a", v=2)), lines)
    assert (item.changed, item.difference) == (True, ())


def test_more_than_is_read_again_is_not_written(
    tmp_path: Path, entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flycore.approval.trust_store.MAX_BYTES", 200)
    store = TrustStore(tmp_path / "state" / "trust.json")
    a, big = entry("a"), entry("b", text="x" * 200)
    assert store.accept((("a", a.digest),), registry_of(a), 1.0).accepted
    outcome = store.accept((("b", big.digest),), registry_of(a, big), 1.0)
    assert not outcome.accepted
    assert "200 bytes" in outcome.why_not
    assert store.is_trusted(a)
    assert not store.is_trusted(big)


def test_one_that_changed_meanwhile_is_not_trusted_but_the_rest_is(store, entry) -> None:
    shown, now, other = entry("a", v=1), entry("a", v=2), entry("b")
    outcome = store.accept(
        (("a", shown.digest), ("b", other.digest), ("gone", "d")), registry_of(now, other), 1.0
    )
    assert not outcome.accepted
    assert outcome.why_not == "changed since it was shown: a, gone"
    assert store.is_trusted(other)
    assert not store.is_trusted(now)
    assert not store.is_trusted(shown)


def test_an_empty_digest_is_no_digest(store, make_entry) -> None:
    bare = make_entry("a")
    assert not store.accept((("a", ""),), registry_of(bare), 1.0).accepted
    assert not store.is_trusted(bare)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"a": 1}', b'{"a": {"digest": "d"}}', b"\xff\xfe", b'{"a":' + b"[" * 5000],
)
def test_a_corrupt_file_trusts_nothing_and_says_so(tmp_path: Path, entry, content: bytes) -> None:
    path = tmp_path / "trust.json"
    path.write_bytes(content)
    path.chmod(0o600)
    store = TrustStore(path)
    (found,) = store.diagnostics
    assert found.position.file == str(path)
    a = entry("a")
    assert not store.is_trusted(a)
    assert store.accept((("a", a.digest),), registry_of(a), 1.0).accepted
    assert store.diagnostics == ()


def test_a_file_that_others_could_have_written_is_not_believed(store, entry, tmp_path: Path) -> None:
    path, a = tmp_path / "state" / "trust.json", entry("a")
    assert store.accept((("a", a.digest),), registry_of(a), 1.0).accepted
    for spoil in (lambda: path.chmod(0o666), lambda: path.chmod(0o620), lambda: relink(path)):
        path.chmod(0o600)
        assert TrustStore(path).is_trusted(a)
        spoil()
        spoilt = TrustStore(path)
        assert not spoilt.is_trusted(a)
        assert len(spoilt.diagnostics) == 1


def relink(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def test_what_cannot_be_written_is_not_trusted(entry, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = TrustStore(tmp_path / "file" / "trust.json")
    a = entry("a")
    outcome = store.accept((("a", a.digest),), registry_of(a), 1.0)
    assert not outcome.accepted
    assert "could not be written" in outcome.why_not
    assert not store.is_trusted(a)


def test_the_set_s_digest_ignores_order_and_nothing_else(store, entry) -> None:
    a, b, c = (store.pending(registry_of(entry(key)), lines)[0] for key in "abc")
    assert set_digest((a, b)) == set_digest((b, a))
    assert len({set_digest(items) for items in ((), (a,), (b,), (a, b), (a, b, c))}) == 5


def test_an_entry_in_plain_lines(make_entry) -> None:
    entry = make_entry(
        "x",
        command="./bin/x",
        args=("--a", "b\nnetwork no"),
        delegates={"keyboard": Delegate(command="kbd"), "gone": Delegate(command="none")},
        permissions=Permissions(network=True, read=(".",), secrets=("API_KEY",), desktop=True),
        env={"LANG": "C"},
        pass_env=("TZ",),
        config={"localCommands": ["rm"]},
        seal_in_place=True,
    )

    def program(path: str, state: PathState, interpreter: str = "") -> ResolvedProgram:
        return ResolvedProgram(
            state=state, mode="path", base=Anchor.APP, declared="x", path=path, interpreter=interpreter
        )

    resolutions = {
        "": program("/app/bin/x", PathState.RESOLVED, "/usr/bin/python3"),
        "keyboard": program("/usr/bin/kbd", PathState.RESOLVED),
        "gone": program("", PathState.UNRESOLVED),
    }
    assert describe_entry(entry, resolutions) == (
        'command "./bin/x" "--a" "b\\nnetwork no" → "/app/bin/x", run by "/usr/bin/python3"',
        'delegate "gone" "none" → not there now, but a program that is put there later would run',
        'delegate "keyboard" "kbd" → "/usr/bin/kbd"',
        "kind process-json, started in the app folder",
        "tools none",
        "network yes: the whole network of this machine",
        'reads "."',
        "writes no files",
        'secrets "API_KEY"',
        "desktop yes: screen, mouse and keyboard",
        'environment "LANG" = "C"',
        'environment taken from flytui\'s: "TZ"',
        'config {"localCommands": ["rm"]}',
        "runs in place: its seal is partial",
        'declared in "tools/external.tools.jsonc" line 3',
    )


@pytest.mark.root
def test_another_user_s_file_is_not_believed(store, entry, tmp_path: Path) -> None:
    path, a = tmp_path / "state" / "trust.json", entry("a")
    assert store.accept((("a", a.digest),), registry_of(a), 1.0).accepted
    os.chown(path, 12345, -1)
    assert not TrustStore(path).is_trusted(a)
