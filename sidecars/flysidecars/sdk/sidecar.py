"""Registration of tools, and the run of one call.

A bug in a tool is not dressed up: its traceback goes to stderr and the program exits 1, which the
runner reports as `failed`, `exit` with the end of stderr. Failures that a tool names (`ToolFailed`)
and those of the operating system are answers.
"""

from __future__ import annotations

import errno

from flysidecars.sdk.call import Call, JsonObject
from flysidecars.sdk.failures import ToolFailed
from flysidecars.sdk.wire import Out, claim_stdout, read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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


def healthy() -> JsonObject:
    """A tool that is well, in a probe's answer."""
    return {"status": "healthy"}


def unavailable(reason: str, remedy: str, code: str = "tool-unavailable") -> JsonObject:
    """A tool that is not there, in a probe's answer."""
    return {"status": "unavailable", "code": code, "reason": reason, "remedy": remedy}


class Sidecar:
    """The tools of one program."""

    __slots__ = ("_probe", "_tools", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._tools: dict[str, Tool] = {}
        self._probe: Callable[[Probe], JsonObject] | None = None

    def tool(self, name: str) -> Callable[[Tool], Tool]:
        """Offer a function as the tool `name`; `ANY_TOOL` takes what nothing else does."""

        def register(function: Tool) -> Tool:
            if name in self._tools:
                raise ValueError(f"{self.name} registers {name} twice")
            self._tools[name] = function
            return function

        return register

    def probe(self, function: Callable[[Probe], JsonObject]) -> Callable[[Probe], JsonObject]:
        """Register what answers probes: it returns the fields of the answer (`tools`, `status`) or
        raises `Unavailable`. Without one, every tool is healthy."""
        self._probe = function
        return function

    def answer_probe(self) -> int:
        """Answer `--probe`, which reads no stdin; returns the exit code."""
        return _answer(claim_stdout(), lambda _: self._ask(Probe({}, None)))

    def answer_request(self) -> int:
        """Answer the one request on stdin; returns the exit code: 0 where the answer is `ok`."""
        return _answer(claim_stdout(), self._run)

    def _run(self, out: Out) -> JsonObject:
        call = Call(read_request(), out)
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


def _answer(out: Out, work: Callable[[Out], JsonObject]) -> int:
    try:
        answer = {"ok": True} | work(out) | {"ok": True}
    except ToolFailed as failure:
        answer = failure.answer()
    except OSError as failure:
        name = errno.errorcode.get(failure.errno or 0, "EIO")
        answer = ToolFailed("os-error", failure.strerror or type(failure).__name__, errno=name).answer()
    except KeyboardInterrupt:
        return 130
    out.send(answer)
    return 0 if answer["ok"] else 1
