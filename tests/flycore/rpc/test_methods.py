"""The table of methods: each is in it once, and whatever is made from the table covers it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from flycore.client.attach import CONNECTION_LOST, ConsoleApprover
from flycore.client.client import KernelClient
from flycore.kernel.approver import KernelApprover
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Outcome
from flycore.model.call import Caller
from flycore.model.enums import Choice, PackageAction, PackageScope
from flycore.model.errors import ConnectionLost, ProtocolError
from flycore.rpc.flyflor import EMPTY_READS
from flycore.rpc.method_row import EVERYTHING, NARROWED, Kind, Method, Who
from flycore.rpc.methods import BY_MESSAGE, METHODS, Approver, Client, methods_of
from flycore.server.local import LocalClient
from flycore.server.queries import Queries
from flycore.server.session import Session
from kits.tables import each_row

REPOSITORY = Path(__file__).resolve().parents[3]
CLIENTS = (LocalClient, KernelClient)
APPROVERS = (ConsoleApprover, KernelApprover)
BY_HAND = ("call", "events")
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "create_tool": ("hello", {"name": "hello"}),
    "answer_sampling": ("s-1", {"role": "assistant"}),
    "cancel": ("c-1",),
    "picture": ("c-1", 2),
    "probe": ("echo",),
    "nested_root": ("/outer/inner",),
    "undo_call": ("c1", False),
    "decide": ("r-1", "d1", Answer(choice=Choice.APPROVE_ONCE)),
    "edit": ("r-1", "d1", {"message": "x"}),
    "hold": ("r-1", True),
    "revoke": ("l-1",),
    "remove_rule": ("policy.jsonc:3", "d1"),
    "unblock": ("echo.ask",),
    "answer": ("q-1", "release"),
    "trust": ((("echo", "d1"),),),
    "enable": ("echo", False, "broken"),
    "permit": ("echo", "d1"),
    "import_server": (".mcp.json", "x", "d1"),
    "refuse_pairing": (7,),
    "plan_starter": (("mock.echo",),),
    "ask_package": (PackageAction.APPLY, "greet", PackageScope.USER),
    "stage_package": ("/srv/greet.zip", PackageScope.PROJECT),
    "change_package": (PackageAction.ROLLBACK, "greet", PackageScope.PROJECT, "d1"),
    "discard_package": ("greet", PackageScope.USER),
    "write_starter": (("mock.echo",), "d1"),
}
FRAMES = {
    "create_tool": ("tool.create", {"name": "hello", "definition": {"name": "hello"}}),
    "answer_sampling": ("sampling.answer", {"samplingId": "s-1", "result": {"role": "assistant"}}),
    "cancel": ("tool.cancel", {"callId": "c-1"}),
    "activity": ("history.list", {}),
    "picture": ("call.picture.get", {"callId": "c-1", "index": 2}),
    "metrics": ("tool.metrics.get", {}),
    "asks": ("ask.list", {}),
    "leases": ("lease.list", {}),
    "blocks": ("block.list", {}),
    "rules": ("rule.list", {}),
    "questions": ("question.list", {}),
    "panic": ("panic", {}),
    "pending_trust": ("trust.list", {}),
    "probe": ("sidecar.probe", {"sidecar": "echo"}),
    "refresh": ("root.refresh", {"probes": False}),
    "checks": ("doctor.get", {}),
    "starter": ("starter.get", {}),
    "plan_starter": ("starter.plan.get", {"sidecars": ["mock.echo"]}),
    "nested_root": ("root.nested", {"root": "/outer/inner"}),
    "undo_call": ("call.undo", {"callId": "c1", "look": False}),
    "status": ("gateway.status.get", {}),
    "catalog": ("capability.catalog.get", {"detail": True}),
    "decide": ("ask.decide", {"id": "r-1", "subjectDigest": "d1"}),
    "edit": ("ask.edit", {"id": "r-1", "subjectDigest": "d1", "input": {"message": "x"}}),
    "hold": ("ask.hold", {"id": "r-1", "held": True}),
    "revoke": ("lease.revoke", {"id": "l-1"}),
    "remove_rule": ("rule.remove", {"where": "policy.jsonc:3", "digest": "d1"}),
    "unblock": ("block.remove", {"tool": "echo.ask"}),
    "undo": ("approver.undo", {}),
    "answer": ("question.answer", {"id": "q-1", "option": "release", "text": "", "content": None}),
    "trust": ("trust.accept", {"accepted": [["echo", "d1"]]}),
    "enable": ("sidecar.enable", {"sidecar": "echo", "enabled": False, "reason": "broken"}),
    "permit": ("sidecar.permit", {"sidecar": "echo", "digest": "d1"}),
    "import_server": ("server.import", {"path": ".mcp.json", "name": "x", "digest": "d1"}),
    "refuse_pairing": ("console.refuse", {"pid": 7}),
    "packages": ("package.list", {}),
    "verify_packages": ("package.verify", {}),
    "ask_package": ("package.ask", {"action": "apply", "package": "greet", "scope": "user"}),
    "stage_package": ("package.stage", {"source": "/srv/greet.zip", "scope": "project"}),
    "change_package": (
        "package.change",
        {"action": "rollback", "package": "greet", "scope": "project", "digest": "d1", "agreed": True},
    ),
    "discard_package": ("package.discard", {"package": "greet", "scope": "user"}),
    "write_starter": ("starter.write", {"sidecars": ["mock.echo"], "digest": "d1"}),
}
"""What goes over the wire for each method, as it has always been. Of `decide` the answer is added."""
TOKEN_MAY = {
    *("client.hello", "ping", "gateway.status.get", "capability.catalog.get", "tool.schema.get"),
    *("event.subscribe", "event.unsubscribe", "tool.call", "tool.cancel", "tool.metrics.get"),
    *("ask.list", "ask.detail.get", "history.list", "history.detail.get", "call.picture.get"),
    *("lease.list", "block.list", "question.list", "trust.list", "rule.list"),
    *("sidecar.probe", "panic", "tool.create", "sampling.answer", "package.list"),
    *("confirm.list", *EMPTY_READS),
}
"""All that a client that comes with a token may send."""


def public(interface: type) -> set[str]:
    return {name for name in vars(interface) if not name.startswith("_")}


def defines(cls: type, interface: type, name: str) -> bool:
    """Whether the class has that method from anywhere but the interface."""
    return getattr(cls, name, None) not in (None, vars(interface)[name])


@pytest.mark.parametrize("interface", [Client, Approver])
def test_each_method_of_an_interface_is_one_row(interface: type) -> None:
    names = [method.name for method in methods_of(interface)]
    assert len(names) == len(set(names))
    assert set(names) == public(interface)


def test_each_message_is_one_row() -> None:
    assert len(BY_MESSAGE) == len(METHODS)
    assert {method.message for method in METHODS if method.who is Who.TOKEN} == TOKEN_MAY


def test_decisions_are_for_paired_consoles_and_nothing_else_is() -> None:
    for method in METHODS:
        assert (
            (method.kind is Kind.DECISION) == (method.who is Who.CONSOLE) == (method.interface == "Approver")
        )
        assert bool(method.refusal) == (method.who is Who.VIEWER)


@pytest.mark.parametrize("cls", CLIENTS)
def test_each_client_has_every_method(cls: type) -> None:
    assert all(defines(cls, Client, name) for name in public(Client))


@pytest.mark.parametrize("cls", APPROVERS)
def test_each_approver_has_every_method(cls: type) -> None:
    assert all(defines(cls, Approver, name) for name in public(Approver))


@each_row("method", [one for one in METHODS if one.interface], ids=lambda one: one.name)
def test_the_payload_s_first_fields_are_the_parameters(method: Method) -> None:
    if method.name in BY_HAND:
        return
    interface = Client if method.interface == "Client" else Approver
    hints = get_type_hints(getattr(interface, method.name))
    fields = msgspec.structs.fields(method.payload)
    parameters = list(method.signature.parameters)
    assert [hints[name] for name in parameters] == [field.type for field in fields[: len(parameters)]]
    assert all(not field.required for field in fields[len(parameters) :])


@each_row("method", METHODS, ids=lambda one: one.message)
def test_the_server_answers_every_message(method: Method) -> None:
    session = Session(unused(), unused(), Caller(door="socket", program="x"))
    answered = session.handler_of(method)
    if answered == session._decide:
        assert same_parameters(method, getattr(KernelApprover, method.name))
    elif answered == session._query:
        narrowed = method.agents_see == NARROWED
        assert same_parameters(method, getattr(Queries if narrowed else Kernel, method.name))
    else:
        assert method.name in ("", "status", "catalog", *BY_HAND, "cancel")
    if method.agents_see not in (EVERYTHING, NARROWED):
        assert method.result is not None


def unused() -> Any:
    """Stands for what a session that serves nobody does not touch."""
    return object()


def same_parameters(method: Method, function: Callable[..., Any]) -> bool:
    there = list(inspect.signature(function).parameters)[1:]
    return len(there) == len(method.signature.parameters)


class Recorder(KernelClient):
    """Remembers what would be sent, and fails as a connection does."""

    def __init__(self, error: Exception) -> None:
        self.sent: list[tuple[str, Any]] = []
        self._error = error

    async def ask_for(self, kind: str, payload: Any = None) -> Any:
        self.sent.append((kind, msgspec.json.decode(msgspec.json.encode(payload or {}))))
        raise self._error

    async def _answer(self, kind: str, payload: Any, *, again: bool) -> Any:
        return await self.ask_for(kind, payload)


@pytest.mark.anyio
@pytest.mark.parametrize("method", methods_of(Client), ids=lambda one: one.name)
async def test_a_read_sends_what_it_always_sent(method: Method) -> None:
    if method.name in BY_HAND:
        return
    recorder = Recorder(ConnectionLost("gone"))
    with pytest.raises(ConnectionLost):
        await getattr(recorder, method.name)(*ARGUMENTS.get(method.name, ()))
    assert recorder.sent == [FRAMES[method.name]]


@pytest.mark.anyio
@pytest.mark.parametrize("method", methods_of(Approver), ids=lambda one: one.name)
async def test_a_decision_sends_what_it_always_sent_and_says_why_it_does_not_count(method: Method) -> None:
    arguments = ARGUMENTS.get(method.name, ())
    for error, why_not in (
        (ConnectionLost("gone"), CONNECTION_LOST),
        (ProtocolError("x: y", code="x", said="y"), "y"),
    ):
        recorder = Recorder(error)
        outcome = await getattr(ConsoleApprover(recorder), method.name)(*arguments)
        assert outcome == (False if method.result is bool else Outcome(accepted=False, why_not=why_not))
        kind, payload = FRAMES[method.name]
        if method.name == "decide":
            payload = {**payload, "answer": msgspec.to_builtins(arguments[-1])}
        assert recorder.sent == [(kind, payload)]


def test_an_argument_too_many_is_refused_where_it_is_passed() -> None:
    leases = next(method for method in METHODS if method.name == "leases")
    with pytest.raises(TypeError):
        leases.bind(("x",), {})


def test_a_message_that_the_table_carries_is_named_nowhere_else() -> None:
    """A further read or decision touches the table, the shapes of payloads and the kernel, nothing else."""
    by_hand = ("status", "catalog", "cancel", *BY_HAND)
    messages = {method.message for method in METHODS if method.name and method.name not in by_hand}
    messages -= {"panic"}  # also a word that the console and the log use
    named: dict[str, set[str]] = {}
    for path in (REPOSITORY / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in messages:
                named.setdefault(node.value, set()).add(path.name)
    assert named == {message: {"methods.py"} for message in messages}
