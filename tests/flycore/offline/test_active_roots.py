"""The roots that `flytui --all` finds: by the record of a kernel that runs, and by tickets that wait."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from flycore.approval.tickets import ticket_writer
from flycore.approval.waiters import Ticket
from flycore.kernel.lock import RootLock, lock_path
from flycore.model.approval import Ask
from flycore.model.enums import KernelRole, RequestState
from flycore.offline.active_roots import active_roots
from flycore.registry.paths import RootPaths, find_paths
from kits.values import request_of

FAR = 4e9
"""Unix time, long after any test."""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}


def root_at(folder: Path, environ: dict[str, str]) -> RootPaths:
    folder.mkdir(parents=True)
    places = find_paths(str(folder), None, environ, folder)
    places.state_dir.mkdir(parents=True, mode=0o700)
    return places


def write_ticket(places: RootPaths, app_root: Path, state: RequestState = RequestState.WAITING) -> None:
    request = msgspec.structs.replace(request_of(), app_root=str(app_root))
    ticket = Ticket(("caller", "digest"), Ask(request=request, state=state), 1, FAR)
    ticket_writer(places.state_dir, lambda problem: pytest.fail(str(problem)))((ticket,))


def test_a_root_is_found_while_a_kernel_holds_it(tmp_path: Path, environ: dict[str, str]) -> None:
    shop = root_at(tmp_path / "shop", environ)
    assert active_roots(environ) == ()
    with RootLock.acquire(shop, KernelRole.HEADLESS):
        assert active_roots(environ) == (str(shop.app_root),)
    assert active_roots(environ) == ()


def test_a_root_is_found_by_a_ticket_that_waits(tmp_path: Path, environ: dict[str, str]) -> None:
    shop, docs = root_at(tmp_path / "shop", environ), root_at(tmp_path / "docs", environ)
    write_ticket(shop, shop.app_root)
    write_ticket(docs, docs.app_root, RequestState.DENIED)
    assert active_roots(environ) == (str(shop.app_root),)


def test_a_record_that_names_another_root_leads_nowhere(tmp_path: Path, environ: dict[str, str]) -> None:
    shop, docs = root_at(tmp_path / "shop", environ), root_at(tmp_path / "docs", environ)
    write_ticket(shop, docs.app_root)
    with RootLock.acquire(shop, KernelRole.HEADLESS):
        record = json.loads(lock_path(shop).read_text())
        assert record["appRoot"] == str(shop.app_root)
        for named in (str(docs.app_root), "relative", "", "/no\x00where", f"{shop.app_root}\u202e"):
            lock_path(shop).write_text(json.dumps({**record, "appRoot": named}))
            assert active_roots(environ) == ()


def test_a_root_whose_folder_is_gone_is_left_out(tmp_path: Path, environ: dict[str, str]) -> None:
    shop = root_at(tmp_path / "shop", environ)
    write_ticket(shop, shop.app_root)
    shop.app_root.rmdir()
    assert active_roots(environ) == ()


def test_a_path_that_json_cannot_hold_keeps_no_kernel_from_opening(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    odd = root_at(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")), environ)
    with RootLock.acquire(odd, KernelRole.HEADLESS):
        assert json.loads(lock_path(odd).read_text())["appRoot"] == ""
        assert active_roots(environ) == ()
