"""The person's ceiling of permissions and the weakest level of a tool, in the snapshot and at a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flycore.catalog.registry_capability import excess_permissions
from flycore.model.enums import Effective, ReasonCode, SandboxState, Status
from flycore.model.sidecar import Permissions
from kits.kernel import ECHO, Root, kernel_of, permitted_call, until
from kits.tables import each_row

FULL = Permissions(network=True, read=(".",), write=("out", "${input.dir}"), secrets=("KEY",), desktop=True)


@each_row(
    ("ceiling", "found"),
    [
        (None, ()),
        (
            {},
            (
                "network",
                "files read .",
                "files write out",
                "files write ${input.dir}",
                "secret KEY",
                "desktop",
            ),
        ),
        (
            {"network": True, "fs": {"read": ["/"], "write": ["/"]}, "secrets": ["KEY"], "desktop": True},
            (),
        ),
        (
            {"network": "yes", "fs": {"read": ["."], "write": ["."]}, "secrets": "KEY", "desktop": True},
            ("network", "secret KEY"),
        ),
        (
            {"network": True, "fs": [], "secrets": ["KEY"], "desktop": 1},
            ("files read .", "files write out", "files write ${input.dir}", "desktop"),
        ),
    ],
)
def test_what_is_too_much(ceiling: dict[str, Any] | None, found: tuple[str, ...]) -> None:
    assert excess_permissions(FULL, ceiling) == found


@each_row(
    ("path", "top", "within"),
    [
        ("a/b", "a", True),
        ("ab", "a", False),
        ("a/../../b", ".", False),
        ("../x", ".", False),
        ("/etc", ".", False),
        ("~/x", ".", False),
        ("a/../b", "a", False),
        ("/srv/x", "/srv", True),
        ("./a", "a", True),
        ("${input.a}/..", ".", True),
        ("out/${input.a}", "out", True),
        ("out/${input.a}", "docs", False),
        ("/srv/${input.a}", ".", False),
        ("${HOME}/x", ".", False),
        ("${input.a}${HOME}", ".", False),
    ],
)
def test_a_path_is_within_by_its_name(path: str, top: str, within: bool) -> None:
    assert (excess_permissions(Permissions(read=(path,)), {"fs": {"read": [top]}}) == ()) is within


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"sandbox": {"minimum": {"own.do": "enforced"}}}, ReasonCode.SANDBOX_UNAVAILABLE),
    ],
)
async def test_it_holds_in_the_snapshot_and_at_the_call(
    tmp_path: Path, settings: dict[str, Any], code: ReasonCode
) -> None:
    root = Root(tmp_path)
    # A tool of the desktop: no machine can confine it.
    root.sidecar("own", ECHO, permissions={"network": True, "desktop": True})
    root.policy({"tool": "*", "decision": "allow", "because": "test"})
    file = root.places.config_dir / "config.jsonc"
    async with kernel_of(root) as kernel:
        assert (await permitted_call(kernel, "own.do")).status is Status.SUCCESS
        file.write_text(json.dumps(settings))

        def told() -> ReasonCode | None:
            view = kernel.catalog().sidecar("own")
            assert view is not None
            reasons = view.stability.reasons
            return reasons[0].code if reasons else None

        await until(lambda: told() is code)
        view = kernel.catalog().sidecar("own")
        assert view is not None
        assert (view.stability.sandbox, view.stability.effective) == (
            SandboxState.DENIED,
            Effective.UNAVAILABLE,
        )
        assert (await permitted_call(kernel, "own.do")).status is Status.UNAVAILABLE
        file.write_text("{}")
        await until(lambda: told() is None)
        assert (await permitted_call(kernel, "own.do")).status is Status.SUCCESS


@pytest.mark.anyio
async def test_the_limit_of_tools_of_agents_binds_no_entry_that_a_person_has_trusted(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("own", ECHO, permissions={"network": True, "desktop": True})
    root.policy({"tool": "*", "decision": "allow", "because": "test"})
    root.settings(security={"max_permissions": {"network": False}})
    async with kernel_of(root) as kernel:
        assert (await permitted_call(kernel, "own.do")).status is Status.SUCCESS
