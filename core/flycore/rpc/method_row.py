"""A row of the table in `methods.py`: the message of a method, its answer, and who may send it; and the
decorators that declare one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar, get_type_hints

import msgspec

from flycore.model.json import JsonObject
from flycore.model.question import PANIC_QUESTION
from flycore.rpc import console_messages as c
from flycore.rpc import messages as m

F = TypeVar("F", bound=Callable[..., Any])

EVERYTHING = "everything"
NARROWED = "narrowed"
_NO_PARAMETERS = inspect.Signature()


class Who(Enum):
    """Who may send a message."""

    TOKEN = "every client, also over TCP"  # noqa: S105 - a kind of client, no secret
    PROGRAM = "a program of this user, over the Unix socket"
    VIEWER = "a viewer, over the Unix socket"
    CONSOLE = "a paired console"


class Kind(Enum):
    """The purpose of a message."""

    CONNECTION = "manages the connection"
    READ = "reads"
    ACT = "acts"
    DECISION = "decides"


class UnimplementedError(Exception):
    """A method of an interface was called on a class that neither defines nor generates it."""


class Method(msgspec.Struct, frozen=True):
    """One row of the table."""

    message: str
    """Type of the request message."""
    answer: str
    """Type of the answer message."""
    shape: type[msgspec.Struct]
    """Payload of `answer`."""
    key: str = ""
    """Field of `shape` that is the result. Empty where the whole payload is the result, or nothing is."""
    payload: type[msgspec.Struct] = m.Query
    """Payload of `message`. Its first fields are the parameters, in their order. Only where every client may
    read with the message, or manage its connection, does the payload ignore unknown keys."""
    who: Who = Who.TOKEN
    kind: Kind = Kind.READ
    agents_see: str = NARROWED
    """What a client that is not a viewer gets. EVERYTHING: the whole result. A path of attributes such as
    `caller.key`: the items of a list in which that attribute is the key of this caller. NARROWED: what the
    method of this name of `Queries` returns. This is the default, so that a read that forgets to choose fails
    instead of showing everything."""
    refusal: str = ""
    """The error message for clients that are not viewers, for Who.VIEWER."""
    data: Any = None
    """The `data` of every answer, for a read of Flyflor that flytui has nothing for."""
    at_terminal: Callable[[msgspec.Struct], bool] | None = None
    """For a decision that a command may make after a person agreed on its terminal: whether this payload is
    such a decision. It is accepted only by a kernel that a command started, which has no console."""
    for_agents: str = ""
    """The error message for viewers, where only clients that call tools may send it; else empty."""
    interface: str = ""
    """`Client` or `Approver`; empty where neither has this method."""
    name: str = ""
    """Name of the method in the interface or in `Queries`. Empty where the session answers itself."""
    signature: inspect.Signature = _NO_PARAMETERS
    """Signature of the method, without `self`."""
    result: Any = None
    """Type of the method's result."""

    def bind(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the value of each parameter, in their order. Raises TypeError as a call does."""
        bound = self.signature.bind(*arguments, **named)
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def payload_of(self, arguments: tuple[Any, ...]) -> JsonObject:
        """Return the request payload that carries these values."""
        fields = msgspec.structs.fields(self.payload)
        return {
            field.encode_name: msgspec.to_builtins(value)
            for field, value in zip(fields, arguments, strict=False)  # a payload may have more than is passed
        }

    def arguments_in(self, payload: msgspec.Struct) -> tuple[Any, ...]:
        """Return the values of the parameters from a request payload."""
        return tuple(
            getattr(payload, name) for name in payload.__struct_fields__[: len(self.signature.parameters)]
        )

    def answer_of(self, result: Any) -> JsonObject:
        """Return the answer payload that carries a result."""
        value: Any = msgspec.to_builtins(result)
        return {self.key: value} if self.key else value or {}

    def result_in(self, payload: JsonObject) -> Any:
        """Return the result from an answer payload. Raises msgspec.ValidationError, KeyError."""
        return msgspec.convert(payload[self.key], self.result) if self.key else None


# The declaration of rows.

WIRE_METHODS: list[Method] = []
"""The rows of the methods that are declared so far."""


def wire_method(message: str, answer: str, shape: type[msgspec.Struct], **more: Any) -> Callable[[F], F]:
    """Decorate a method of `Client` or `Approver` and add its row; `more` are further fields of Method."""

    def add_row(function: F) -> F:
        interface, _, name = function.__qualname__.partition(".")
        signature = inspect.signature(function)
        _, *parameters = signature.parameters.values()
        row = Method(
            message,
            answer,
            shape,
            interface=interface,
            name=name,
            signature=signature.replace(parameters=parameters),
            result=get_type_hints(function)["return"],
            **more,
        )
        WIRE_METHODS.append(row)
        return function

    return add_row


def decision(
    message: str,
    payload: type[msgspec.Struct] = m.EmptyPayload,
    at_terminal: Callable[[msgspec.Struct], bool] | None = None,
) -> Callable[[F], F]:
    """Decorate a decision, which only a paired console may send, and a command as `at_terminal` says.

    The answer says whether the decision was accepted. The answer to a decision about a request also holds
    the request in its new state.
    """
    asks = message.startswith("ask.")
    answer, shape = ("ask.snapshot", m.AskSnapshot) if asks else ("ack", m.Ack)
    return wire_method(
        message,
        answer,
        shape,
        key="outcome",
        payload=payload,
        who=Who.CONSOLE,
        kind=Kind.DECISION,
        at_terminal=at_terminal,
    )


def always(payload: msgspec.Struct) -> bool:
    """Return True: every decision of that message may be made at a terminal."""
    return True


def releases_panic(payload: msgspec.Struct) -> bool:
    """Return whether the answer is the one that lets calls run again after everything was stopped."""
    return isinstance(payload, c.QuestionAnswer) and payload.id == PANIC_QUESTION
