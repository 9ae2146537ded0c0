"""A root that a command holds while no kernel runs: its lock, the log, and what is written under it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flycore.offline.panic import read_panic, release_everything, stop_everything, stop_next_kernel
from flycore.offline.permissions import read_permissions, unblock_tool
from flycore.offline.root import hold_root, take_root
from flycore.offline.trust import CHANGED, accept_trust, read_pending_trust, revoke_trust

from flycore.audit.events import PANIC, PANIC_RELEASED, TRUST_DECIDED
from flycore.client.audit_log import last_lines, verify_log
from flycore.kernel.lock import RootLock
from flycore.model.enums import KernelRole
from flycore.model.errors import RootBusy
from flycore.offline import root as offline_root
from flycore.offline.files import read_registry, set_enabled
from flycore.offline.tokens import add_token, make_token, read_tokens, revoke_token
from flycore.registry.paths import REGISTRY_FILE, RootPaths, find_paths


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RootPaths:
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run"), "PATH": "/usr/bin:/bin"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    app = tmp_path / "app"
    (app / "tools").mkdir(parents=True)
    tool = {"name": "my.echo", "description": "Says it.", "inputSchema": {"type": "object"}}
    tool |= {"approvalClass": "execute", "risk": "medium"}
    entry = {"command": "flytui-sidecar", "args": ["mock.echo"], "tools": [tool]}
    (app / REGISTRY_FILE).write_text(json.dumps({"schemaVersion": 2, "sidecars": {"one": entry}}))
    return find_paths(str(app), None, environ, tmp_path)


def events(places: RootPaths) -> list[object]:
    return [line["event"] for line in last_lines(places)]


@contextmanager
def held_elsewhere(places: RootPaths, role: KernelRole, leave: threading.Event) -> Iterator[None]:
    """Another thread's descriptor holds the lock until `leave` is set."""
    taken = threading.Event()

    def hold() -> None:
        with RootLock.acquire(places, role):
            taken.set()
            leave.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert taken.wait(20)
        yield
    finally:
        leave.set()
        thread.join(20)


def never() -> None:
    raise AssertionError("nobody has to be asked")


@pytest.mark.parametrize("role", [KernelRole.CONSOLE, KernelRole.HEADLESS])
def test_a_root_that_a_person_keeps_is_busy_at_once(places: RootPaths, role: KernelRole) -> None:
    began = time.monotonic()
    with (
        held_elsewhere(places, role, threading.Event()),
        pytest.raises(RootBusy) as busy,
        hold_root(places, KernelRole.TRUST, ask_to_yield=never, on_wait=lambda _: None),
    ):
        pass
    assert (busy.value.role, time.monotonic() - began < 5) == (role, True)


def test_a_provisional_kernel_is_asked_to_leave_and_the_person_is_told_once(
    places: RootPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline_root, "REPORT_AFTER_SECONDS", 0.0)
    leave, asked, waits = threading.Event(), [], []

    def ask_to_yield() -> None:
        asked.append(1)
        if len(asked) == 3:
            leave.set()

    with (
        held_elsewhere(places, KernelRole.PROVISIONAL, leave),
        hold_root(places, KernelRole.TRUST, ask_to_yield=ask_to_yield, on_wait=waits.append) as root,
    ):
        assert root.places is places
    assert len(asked) >= 3
    assert [busy.role for busy in waits] == [KernelRole.PROVISIONAL]


def test_a_command_that_does_not_leave_is_waited_for_only_so_long(
    places: RootPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline_root, "LONGEST_COMMAND_SECONDS", 0.2)
    with (
        held_elsewhere(places, KernelRole.GRANTS, threading.Event()),
        pytest.raises(RootBusy),
        hold_root(places, KernelRole.TRUST, ask_to_yield=lambda: None, on_wait=lambda _: None),
    ):
        pass


def test_trust_is_given_to_exactly_the_set_that_was_shown(places: RootPaths) -> None:
    shown = read_pending_trust(places)
    assert [item.sidecar for item in shown.items] == ["one"]
    with take_root(places, KernelRole.TRUST) as root:
        _, other = accept_trust(root, "0" * 64)
        pending, outcome = accept_trust(root, shown.digest)
        assert (other.accepted, other.why_not) == (False, CHANGED)
        assert (outcome.accepted, pending.digest) == (True, shown.digest)
        assert read_pending_trust(places).items == ()
        assert revoke_trust(root).accepted
    assert read_pending_trust(places).digest == shown.digest
    assert events(places) == [TRUST_DECIDED, TRUST_DECIDED]
    assert verify_log(places).exit_code == 0


def test_everything_is_stopped_once_and_released_as_it_was_shown(places: RootPaths) -> None:
    with take_root(places, KernelRole.PANIC) as root:
        assert (stop_everything(root).already, stop_everything(root).already) == (False, True)
        shown = read_panic(places)
        assert shown is not None
        stop_next_kernel(places)
        assert not release_everything(root, shown).accepted
        again = read_panic(places)
        assert again is not None
        assert release_everything(root, again).accepted
    assert read_panic(places) is None
    assert events(places) == [PANIC, PANIC_RELEASED]


def test_tokens_and_blocks_say_why_not(places: RootPaths) -> None:
    made = make_token()
    with take_root(places, KernelRole.TOKEN) as root:
        assert add_token(root, "ci", made.digest).accepted
        assert not add_token(root, "ci", made.digest).accepted
        assert read_tokens(places).name_of(made.token) == "ci"
        assert revoke_token(root, "ci").accepted
        assert not revoke_token(root, "ci").accepted
        assert not unblock_tool(root, "file.hash").accepted
    assert read_permissions(places).blocks == ()


def test_an_entry_is_switched_in_its_file(places: RootPaths) -> None:
    def outcome(sidecar: str, enabled: bool) -> tuple[str, bool]:
        made = set_enabled(places, {}, sidecar, enabled, "" if enabled else "noisy")
        return made.outcome, made.enabled

    assert outcome("one", True) == ("unchanged", True)
    assert outcome("one", False) == ("switched", False)
    entry = read_registry(places, {}).entry("one")
    assert entry is not None
    assert entry.disabled_reason == "noisy"
    assert outcome("two", True) == ("unknown", False)
    (places.app_root / REGISTRY_FILE).write_text("{")
    assert outcome("one", True) == ("refused", False)
