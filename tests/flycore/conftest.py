"""A clock without waiting, and requests, capabilities and entries to decide about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from flycore.model.approval import ApprovalRequest, Subject
from flycore.model.call import Caller
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Position
from flycore.model.enums import Layer, Level, Risk, SealKind, Source
from flycore.model.json import JsonObject, canonical_json
from flycore.model.program import Seal
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import PermissionReport


class FakeClock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._sleepers: list[anyio.Event] = []

    def now(self) -> float:
        return 1_000_000.0 + self._elapsed

    def monotonic(self) -> float:
        return 500.0 + self._elapsed

    async def sleep_until(self, monotonic: float) -> None:
        while self.monotonic() < monotonic:
            event = anyio.Event()
            self._sleepers.append(event)
            await event.wait()

    def advance(self, seconds: float) -> None:
        self._elapsed += seconds
        sleepers, self._sleepers = self._sleepers, []
        for event in sleepers:
            event.set()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def build_caller(name: str = "claude", pid: int = 4121) -> Caller:
    return Caller(door="socket", program=name, executable=f"/usr/bin/{name}", pid=pid, started=77)


def build_request(
    id: str = "r1",
    *,
    caller: Caller | None = None,
    input: JsonObject | None = None,
    tool: str = "computer.keyboard",
    risk: Risk = Risk.HIGH,
    seal: Seal | None = None,
    subject: dict[str, Any] | None = None,
    **fields: Any,
) -> ApprovalRequest:
    who = caller or build_caller()
    given = {"action": "type", "text": "hello" if id == "r1" else f"hello {id}"} if input is None else input
    sealed = seal or Seal(kind=SealKind.BUNDLED, digest="ab" * 32, program="/usr/bin/flytui-sidecar")
    base: dict[str, Any] = {
        "caller": who.key,
        "tool": tool,
        "input": given,
        "seal": sealed.digest,
        "delegates": {},
        "entry": "e" * 64,
        "permissions": "p" * 64,
        "level": Level.HOST_CONTROL,
        "env_names": ("LANG",),
        "policy": "v1",
    }
    about = Subject(**{**base, **(subject or {})})
    defaults: dict[str, Any] = {
        "call_id": f"call-{id}",
        "sidecar": "computer.native",
        "app_root": "/srv/shop",
        "effect": "type “hello” into the window",
        "input_json": canonical_json(given),
        "reach": (PermissionReport(name="network", declared="none", enforced=False, why="not yet"),),
        "level": Level.HOST_CONTROL,
        "asked_at": 0.0,
        "expires_at": 0.0,
    }
    return ApprovalRequest(
        id=id,
        caller=who,
        tool=tool,
        risk=risk,
        seal=sealed,
        subject=about,
        subject_digest=about.digest(),
        **{**defaults, **fields},
    )


@pytest.fixture
def make_caller() -> Callable[..., Caller]:
    return build_caller


@pytest.fixture
def make_request() -> Callable[..., ApprovalRequest]:
    return build_request


@pytest.fixture
def make_capability() -> Callable[..., Capability]:
    def build(name: str = "file.hash", **fields: Any) -> Capability:
        defaults: dict[str, Any] = {
            "layer": Layer.ATOMIC,
            "family": name.partition(".")[0],
            "sidecar": None,
            "description": "",
            "summary": "",
            "effect": "",
            "risk": Risk.LOW,
            "approval_class": ("read",),
            "input_schema": {},
            "output_schema": {},
            "read_only": True,
        }
        return Capability(name=name, **{**defaults, **fields})

    return build


@pytest.fixture
def make_entry() -> Callable[..., SidecarEntry]:
    def build(id: str = "utility.local", **fields: Any) -> SidecarEntry:
        position = Position(file="tools/external.tools.jsonc", line=3, column=5)
        defaults: dict[str, Any] = {
            "source": Source.PROJECT,
            "position": position,
            "command": "flytui-sidecar",
        }
        return SidecarEntry(id=id, **{**defaults, **fields})

    return build
