"""Registers the tools of a sidecar and runs their calls.

A `ToolFailed` or an `OSError` becomes an answer. Any other exception is a bug: in a one-shot process its
traceback goes to stderr and the program exits with 1, which the kernel reports as `failed` with the
code `exit` and the end of stderr; a persistent process answers with the code `internal` and serves the
next call.
"""

from __future__ import annotations

import os
import sys
from types import FunctionType

from flysidecars.sdk.call import Call, JsonObject
from flysidecars.sdk.failures import ToolFailed, answer_of
from flysidecars.sdk.wire import (
    AnswerWriter,
    RequestReader,
    claim_stdout,
    encode,
    is_persistent,
    parse_request,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    Function = TypeVar("Function", bound=Callable[..., object])
    Tool = Callable[[Call], JsonObject]
    """Does the work of a call and returns the fields of the answer, without `ok`."""

PROTOCOL = "process-json/1"
"""What the answer to a probe names: a tool of a known name reads the fields that flytui describes."""
TOOL_NAME = "FLYTUI_TOOL_NAME"
"""The variable that names the called tool where stdin is the input alone, because the program described
itself with `--schema`."""
ANY_TOOL = "*"
"""A function registered under this name serves every tool that has no function of its own."""


class Probe:
    """The settings that a probe function may use.

    With `--probe` there is no request: `delegates` is None, which means unknown, and `config` is empty.
    """

    __slots__ = ("config", "delegates")

    def __init__(self, config: JsonObject, delegates: JsonObject | None) -> None:
        self.config = config
        self.delegates = delegates


def _takes_call(function: FunctionType) -> bool:
    """Whether the function takes one `Call` instead of the fields of the input."""
    code = function.__code__
    only = code.co_argcount == 1 and not code.co_kwonlyargcount
    return only and function.__annotations__.get(code.co_varnames[0]) in (Call, "Call", None)


def healthy() -> JsonObject:
    """The state of a tool that works, for a probe's answer."""
    return {"status": "healthy"}


def unavailable(reason: str, remedy: str, code: str = "tool-unavailable") -> JsonObject:
    """The state of a tool that cannot work, for a probe's answer, with the reason and the remedy."""
    return {"status": "unavailable", "code": code, "reason": reason, "remedy": remedy}


class Sidecar:
    """A sidecar program: its tools, its probe, and the loop that answers requests."""

    __slots__ = ("_probe", "_schemas", "_tools", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._tools: dict[str, Tool] = {}
        self._schemas: dict[str, JsonObject] = {}
        self._probe: Callable[[Probe], JsonObject] | None = None

    def tool(self, name: str) -> Callable[[Function], Function]:
        """Register a function as the tool `name`, or as the fallback with `ANY_TOOL`.

        A function with one parameter of type `Call` reads the input itself. The parameters of any other
        function are the fields of the input, which `typed_tools` checks against their annotations; a
        parameter annotated `Call` receives the call.
        """

        def register(function: Function) -> Function:
            if name in self._tools:
                raise ValueError(f"{self.name} registers {name} twice")
            self._tools[name] = self._as_tool(name, function)
            return function

        return register

    def _as_tool(self, name: str, function: Callable[..., object]) -> Tool:
        described = " ".join((function.__doc__ or "").split("\n\n")[0].split())
        self._schemas[name] = {
            "name": name,
            "description": described,
            "input_schema": {"type": "object"},
            "output_schema": {"type": "object"},
        }
        if not isinstance(function, FunctionType) or _takes_call(function):
            return function  # type: ignore[return-value]  # it takes a Call
        from flysidecars.sdk.typed_tools import as_tool, input_schema

        schema = self._schemas[name]["input_schema"] = input_schema(function)
        return as_tool(function, schema)

    def probe(self, function: Callable[[Probe], JsonObject]) -> Callable[[Probe], JsonObject]:
        """Register the function that answers probes. It returns the fields of the answer (`tools`,
        `status`) or raises `Unavailable`. Without such a function every tool is healthy."""
        self._probe = function
        return function

    def answer_probe(self) -> int:
        """Answer `--probe`, which does not read stdin. Returns the exit code."""
        return _answer(claim_stdout(), lambda _: self._answer_probe_fields(Probe({}, None)))

    def answer_request(self) -> int:
        """Answer the request on stdin, which ends with the end of file.

        If the first line is a request with `persistent`, stdin holds one request a line instead. Returns
        the exit code: 0 if the one answer is `ok`, and at the end of a persistent process.
        """
        out, source = claim_stdout(), RequestReader()
        try:
            first = source.line()
        except ToolFailed as failure:
            out.send(failure.answer())
            return 1
        if is_persistent(first):
            from flysidecars.sdk.persistent import serve

            return serve(self._run, out, source, first)
        return _answer(out, lambda out: self._run(Call(parse_request(first + source.rest()), out)))

    def answer_schema(self) -> int:
        """Answer `--schema` in the form of executables that describe themselves: the object of the one tool,
        or an array of several. Returns the exit code."""
        tools = [schema for name, schema in self._schemas.items() if name != ANY_TOOL]
        claim_stdout().send_bytes(encode(tools[0] if len(tools) == 1 else tools) + b"\n")
        return 0

    def _answer_input(self, tool: str) -> int:
        """Answer a call of a program that described itself: stdin is the input alone, stdout the output, and
        stderr says why there is none. Returns the exit code."""
        out, source = claim_stdout(), RequestReader()

        def run() -> JsonObject:
            # The environment is the kernel's, and an input of a call may hold anything: it is no request.
            given = parse_request(source.line() + source.rest() or b"{}")
            return self._run(Call({"tool": tool, "input": given, "projectDir": os.getcwd()}, out))

        answer = answer_of(run)
        if answer["ok"]:
            out.send({key: value for key, value in answer.items() if key != "ok"})
            return 0
        sys.stderr.write(f"{answer.get('error', '')}\n")
        return 1

    def main(self, arguments: Sequence[str]) -> int:
        """Answer as the arguments say (`--probe`, `--schema` or none). Returns the exit code."""
        if "--probe" in arguments:
            return self.answer_probe()
        if "--schema" in arguments:
            return self.answer_schema()
        tool = os.environ.get(TOOL_NAME, "")
        return self._answer_input(tool) if tool in self._tools else self.answer_request()

    def _run(self, call: Call) -> JsonObject:
        if call.is_probe:
            return self._answer_probe_fields(Probe(call.config, call.delegates))
        tool = self._tools.get(call.tool) or self._tools.get(ANY_TOOL)
        if tool is None:
            raise ToolFailed("not-found", f"{self.name} has no tool {call.tool}", tools=sorted(self._tools))
        return tool(call)

    def _answer_probe_fields(self, probe: Probe) -> JsonObject:
        if self._probe is not None:
            return {"protocol": PROTOCOL, **self._probe(probe)}
        tools: JsonObject = {name: healthy() for name in self._tools if name != ANY_TOOL}
        return {"protocol": PROTOCOL, "tools": tools}


def _answer(out: AnswerWriter, work: Callable[[AnswerWriter], JsonObject]) -> int:
    try:
        answer = answer_of(lambda: work(out))
    except KeyboardInterrupt:
        return 130
    out.send(answer)
    return 0 if answer["ok"] else 1
