"""Registration of tools, and the run of one call.

A bug in a tool is not dressed up: its traceback goes to stderr and the program exits 1, which the
runner reports as `failed`, `exit` with the end of stderr (a process that stays answers `internal`, and
serves the next call). Failures that a tool names (`ToolFailed`)
and those of the operating system are answers.
"""

from __future__ import annotations

from types import FunctionType

from flysidecars.sdk.call import Call, JsonObject
from flysidecars.sdk.failures import ToolFailed, answer_of
from flysidecars.sdk.wire import AnswerWriter, RequestReader, claim_stdout, is_persistent, parse_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    Function = TypeVar("Function", bound=Callable[..., object])
    Tool = Callable[[Call], JsonObject]
    """Does the work and returns the fields of the answer, without `ok`."""

ANY_TOOL = "*"
"""Registered under this name, a function takes every tool that has none of its own."""


class Probe:
    """What a sidecar knows when it is asked whether it is well. By `--probe` there is no request:
    `delegates` is None, which means not known, and `config` is empty."""

    __slots__ = ("config", "delegates")

    def __init__(self, config: JsonObject, delegates: JsonObject | None) -> None:
        self.config = config
        self.delegates = delegates


def _takes_call(function: FunctionType) -> bool:
    """Whether it is written for one `Call`, not for the fields of an input."""
    code = function.__code__
    only = code.co_argcount == 1 and not code.co_kwonlyargcount
    return only and function.__annotations__.get(code.co_varnames[0]) in (Call, "Call", None)


def healthy() -> JsonObject:
    """A tool that is well, in a probe's answer."""
    return {"status": "healthy"}


def unavailable(reason: str, remedy: str, code: str = "tool-unavailable") -> JsonObject:
    """A tool that is not there, in a probe's answer."""
    return {"status": "unavailable", "code": code, "reason": reason, "remedy": remedy}


class Sidecar:
    """The tools of one program."""

    __slots__ = ("_probe", "_schemas", "_tools", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._tools: dict[str, Tool] = {}
        self._schemas: dict[str, JsonObject] = {}
        self._probe: Callable[[Probe], JsonObject] | None = None

    def tool(self, name: str) -> Callable[[Function], Function]:
        """Offer a function as the tool `name`; `ANY_TOOL` takes what nothing else does.

        A function of one `Call` reads its input itself. Any other is typed: its parameters are the fields
        of the input, checked by their annotations; one annotated `Call` is given the call. See `typed`.
        """

        def register(function: Function) -> Function:
            if name in self._tools:
                raise ValueError(f"{self.name} registers {name} twice")
            self._tools[name] = self._as_tool(name, function)
            return function

        return register

    def _as_tool(self, name: str, function: Callable[..., object]) -> Tool:
        described = " ".join((function.__doc__ or "").split("\n\n")[0].split())
        self._schemas[name] = {"name": name, "description": described, "inputSchema": {"type": "object"}}
        if not isinstance(function, FunctionType) or _takes_call(function):
            return function  # type: ignore[return-value]  # it takes a Call
        from flysidecars.sdk.typed_tools import as_tool, input_schema

        schema = self._schemas[name]["inputSchema"] = input_schema(function)
        return as_tool(function, schema)

    def probe(self, function: Callable[[Probe], JsonObject]) -> Callable[[Probe], JsonObject]:
        """Register what answers probes: it returns the fields of the answer (`tools`, `status`) or
        raises `Unavailable`. Without one, every tool is healthy."""
        self._probe = function
        return function

    def answer_probe(self) -> int:
        """Answer `--probe`, which reads no stdin; returns the exit code."""
        return _answer(claim_stdout(), lambda _: self._ask(Probe({}, None)))

    def answer_request(self) -> int:
        """Answer what stdin asks: one request up to the end of file, or, where the first line says that
        the process stays, a request a line. Returns the exit code: 0 where the one answer is `ok`."""
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
        """Answer `--schema`: the tools as a registry describes them."""
        tools = [schema for name, schema in self._schemas.items() if name != ANY_TOOL]
        claim_stdout().send({"name": self.name, "tools": tools})
        return 0

    def main(self, arguments: Sequence[str]) -> int:
        """Answer as the command line asks, `--probe`, `--schema` or nothing; returns the exit code."""
        if "--probe" in arguments:
            return self.answer_probe()
        return self.answer_schema() if "--schema" in arguments else self.answer_request()

    def _run(self, call: Call) -> JsonObject:
        if call.is_probe:
            return self._ask(Probe(call.config, call.delegates))
        tool = self._tools.get(call.tool) or self._tools.get(ANY_TOOL)
        if tool is None:
            raise ToolFailed("not-found", f"{self.name} has no tool {call.tool}", tools=sorted(self._tools))
        return tool(call)

    def _ask(self, probe: Probe) -> JsonObject:
        if self._probe is not None:
            return self._probe(probe)
        return {"tools": {name: healthy() for name in self._tools if name != ANY_TOOL}}


def _answer(out: AnswerWriter, work: Callable[[AnswerWriter], JsonObject]) -> int:
    try:
        answer = answer_of(lambda: work(out))
    except KeyboardInterrupt:
        return 130
    out.send(answer)
    return 0 if answer["ok"] else 1
