"""The world kept true: what is asked whether it is well, what never is, and registries that flip quickly."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from flycore.model.enums import Effective, ProbeState, RuntimeState, Status
from kits.kernel import ECHO, Root, approved_call, approver_of, kernel_of, request, tool, until

pytestmark = pytest.mark.anyio

PROBED = """#!/bin/sh
read -r request
echo {name} >> {marks}
printf '{{"ok": true}}\\n'
"""
ASKED = {"probe": {"mode": "request"}}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def marks(root: Root) -> list[str]:
    """Names of the programs that ran."""
    file = root.base / "marks"
    return file.read_text().split() if file.exists() else []


def probed(root: Root, name: str) -> str:
    return PROBED.format(name=name, marks=root.base / "marks")


async def test_an_entry_nobody_trusts_is_not_asked_even_when_somebody_wants_to_know(root: Root) -> None:
    root.sidecar("own", probed(root, "own"), **ASKED)
    async with kernel_of(root) as kernel:
        await until(lambda: marks(root) == ["own"])
        root.sidecar("new", probed(root, "new"), **ASKED)
        await until(lambda: kernel.catalog().sidecar("new"))
        kernel.probe("new")
        kernel.probe("own")
        await until(lambda: marks(root).count("own") == 2)
    assert "new" not in marks(root)


async def test_asking_for_what_cannot_run_harms_nobody(root: Root) -> None:
    root.sidecar("own", probed(root, "own"), **ASKED)
    root.sidecars["broken"] = {"command": 7, "tools": [tool("broken.do")]}
    root.sidecars["missing"] = {"command": "./tools/none", "tools": [tool("missing.do")]}
    root.sidecars["off"] = {"command": "./tools/bin-own/run", "tools": [tool("off.do")], "enabled": False}
    root.write()
    async with kernel_of(root, trusted=False) as kernel:
        waiting = kernel.pending_trust()
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in waiting))
        await until(lambda: marks(root) == ["own"])
        for name in ("broken", "missing", "off", "nobody"):
            kernel.probe(name)
        kernel.probe("own")
        await until(lambda: marks(root) == ["own", "own"])


async def test_a_registry_that_flips_while_it_is_asked_starts_only_what_was_trusted(root: Root) -> None:
    root.sidecar("own", probed(root, "own"), **ASKED)
    good = root.sidecars["own"]
    root.sidecar("evil", probed(root, "evil"), **ASKED)
    evil = {**root.sidecars.pop("evil"), "tools": good["tools"]}
    root.write()
    async with kernel_of(root) as kernel:
        for round_ in range(60):
            root.sidecars = [{"own": good}, {"own": evil}, {}][round_ % 3]
            root.write()
            kernel.probe("own")
            await anyio.sleep(0.02)
        root.sidecars = {"own": good}
        root.write()
        await until(lambda: (view := kernel.catalog().sidecar("own")) and view.trusted)
        seen = len(marks(root))
        kernel.probe("own")
        await until(lambda: len(marks(root)) > seen)
    assert set(marks(root)) == {"own"}


async def test_a_crash_shows_in_the_catalog_at_once_and_a_good_call_mends_it(root: Root) -> None:
    flag = root.base / "well"
    root.sidecar("frail", f"#!/bin/sh\nread -r request\n[ -e {flag} ] && echo '{{\"ok\": true}}'\nexit 0\n")
    root.policy({"tool": "*", "decision": "allow", "because": "test"})
    async with kernel_of(root) as kernel:

        def state() -> RuntimeState | None:
            view = kernel.catalog().sidecar("frail")
            return view.stability.runtime if view else None

        assert (await kernel.call(request(kernel, "frail.do"))).status is Status.FAILED
        await until(lambda: state() is RuntimeState.SCHEMA_ERROR, 5)
        flag.touch()
        assert (await kernel.call(request(kernel, "frail.do"))).status is Status.SUCCESS
        await until(lambda: state() is RuntimeState.READY, 5)


async def test_a_changed_program_is_asked_again(root: Root) -> None:
    root.sidecar("own", probed(root, "own"), **ASKED)
    async with kernel_of(root) as kernel:
        await until(lambda: marks(root) == ["own"])
        root.sidecars["own"]["timeoutMs"] = 9_000
        root.write()
        await until(kernel.pending_trust)
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in kernel.pending_trust()))
        await until(lambda: marks(root) == ["own", "own"])
        await until(lambda: _health(kernel) is ProbeState.HEALTHY)


def _health(kernel) -> ProbeState | None:  # type: ignore[no-untyped-def]  # a Kernel, named only by the kit
    view = kernel.catalog().sidecar("own")
    return view.stability.probe if view else None


async def test_a_call_still_works_after_two_hundred_flips(root: Root) -> None:
    root.sidecar("echo", ECHO)
    good = dict(root.sidecars)
    async with kernel_of(root) as kernel:
        for round_ in range(200):
            root.sidecars = {} if round_ % 2 else good
            root.write()
            await anyio.lowlevel.checkpoint()
        root.sidecars = {**good, "last": {**good["echo"], "tools": [tool("last.do")]}}
        root.write()
        await until(lambda: kernel.catalog().sidecar("last"))
        view = kernel.catalog().sidecar("echo")
        assert view is not None
        assert view.stability.effective is Effective.AVAILABLE
        assert (await approved_call(kernel, "echo.do")).status is Status.SUCCESS


async def test_each_catalog_that_shows_something_else_has_a_higher_version(root: Root) -> None:
    root.sidecar("a", ECHO)
    async with kernel_of(root) as kernel:
        seen: dict[int, set[str]] = {}

        def look() -> set[str]:
            catalog = kernel.catalog()
            names = {view.id for view in catalog.sidecars}
            assert seen.setdefault(catalog.version, names) == names
            return names

        look()
        root.sidecar("b", ECHO)
        await until(lambda: look() == {"a", "b"})
        del root.sidecars["b"]
        root.write()
        await until(lambda: look() == {"a"})
        kernel.probe("a")
        assert len(seen) >= 3
        assert sorted(seen)[0] >= 1


async def test_only_trust_that_was_given_is_recorded(root: Root) -> None:
    root.sidecar("a", ECHO)
    root.sidecar("b", ECHO)
    async with kernel_of(root, trusted=False) as kernel:
        shown = {item.sidecar: item.digest for item in kernel.pending_trust()}
        outcome = await approver_of(kernel).trust((("a", shown["a"]), ("b", "0" * 64), ("c", shown["a"])))
        assert not outcome.accepted
        assert not (await approver_of(kernel).trust((("b", shown["a"]),))).accepted
    decided = [line for line in root.audit() if line["event"] == "TRUST_DECIDED"]
    assert [line["entries"] for line in decided] == [{"a": shown["a"]}]
