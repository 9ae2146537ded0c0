"""What a kernel publishes about a changed catalog: lines of the log with the states after the change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flycore.audit.events import SNAPSHOT_CHANGED
from flycore.kernel.kernel import Kernel
from flycore.model.enums import Effective
from kits.kernel import ECHO, Root, approver_of, kernel_of, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO)
    return root


def lines(root: Root) -> list[dict[str, Any]]:
    """The lines of the log about changed catalogs."""
    return [line for line in root.audit() if line["event"] == SNAPSHOT_CHANGED]


def shown(kernel: Kernel) -> dict[str, str]:
    """The state of each tool and sidecar in the catalog, under the names of the log."""
    catalog = kernel.catalog()
    tools = {view.capability.name: view.stability.effective.value for view in catalog.capabilities}
    return tools | {f"sidecar:{view.id}": view.stability.effective.value for view in catalog.sidecars}


def last_states(root: Root) -> dict[str, str]:
    """What the log says of each tool and sidecar last."""
    return {name: state for line in lines(root) for name, state in line["states"].items()}


async def test_each_line_has_the_states_and_the_version_after_its_change(root: Root) -> None:
    async with kernel_of(root, trusted=False) as kernel:
        first = kernel.catalog().version
        waiting = kernel.pending_trust()
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in waiting))
        assert shown(kernel)["echo.do"] == Effective.AVAILABLE
        await until(lambda: last_states(root).get("echo.do") == Effective.AVAILABLE)
        assert lines(root)[-1]["version"] == kernel.catalog().version == first + 1
        assert (await approver_of(kernel).enable("echo", False, "not needed")).accepted
        await until(lambda: shown(kernel)["echo.do"] == Effective.DISABLED)
        await until(lambda: last_states(root).get("sidecar:echo") == Effective.DISABLED)
        assert lines(root)[-1]["states"]["echo.do"] == Effective.DISABLED
        root.sidecars.clear()
        root.write()
        await until(lambda: "echo.do" not in shown(kernel))
        await until(lambda: last_states(root).get("echo.do") == "gone")
        last = kernel.catalog().version
    versions = [line["version"] for line in lines(root) if line["version"] > first]
    assert versions == list(range(first + 1, last + 1))


async def test_the_log_ends_with_what_the_catalog_shows(root: Root) -> None:
    async with kernel_of(root) as kernel:
        root.sidecar("other", ECHO)
        await until(lambda: "other.do" in shown(kernel))
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in kernel.pending_trust()))
        await until(lambda: shown(kernel)["other.do"] == Effective.AVAILABLE)
        told = {name: state for name, state in last_states(root).items() if name in shown(kernel)}
        assert {"echo.do", "sidecar:echo", "other.do", "sidecar:other"} <= told.keys()
        assert told == {name: state for name, state in shown(kernel).items() if name in told}
