"""The sidecar `mock.echo`: answers any tool with the input it was sent, and fails on request.

Input: `delayMs` (progress while it waits), `bytes` (a filler of that size), `fail` (one of `FAILURES`).
Config: `probe` is `healthy`, `degraded`, `unavailable` or `slow`.
"""

from __future__ import annotations

import os
import signal
import time

from flysidecars.sdk import Call, JsonObject, Probe, Sidecar, ToolFailed, Unavailable
from flysidecars.sdk.sidecar import ANY_TOOL

MAX_BYTES = 256 * 1024 * 1024
MAX_DELAY_MS = 3_600_000
STEP_MS = 100
SLOW_PROBE_S = 1.2
"""Seconds that a slow probe takes: more than half of a probe's usual limit of 2 s, less than all of it."""

FAILURES = ("failed", "unavailable", "crash", "exit", "garbage", "hang", "stderr")

sidecar = Sidecar("mock.echo")


@sidecar.probe
def probe(question: Probe) -> JsonObject:
    """Report the state that `config.probe` names."""
    state = question.config.get("probe", "healthy")
    if state == "unavailable":
        raise Unavailable("mock.echo was told to be unavailable", 'set config.probe to "healthy"')
    if state == "degraded":
        return {
            "status": "degraded",
            "reason": "mock.echo was told to be degraded",
            "remedy": 'set config.probe to "healthy"',
        }
    if state == "slow":
        time.sleep(SLOW_PROBE_S)
    return {"status": "healthy"}


@sidecar.tool(ANY_TOOL)
def echo(call: Call) -> JsonObject:
    """Return the input, after the delay and with the filler that it names."""
    _wait(call, call.integer("delayMs", 0, MAX_DELAY_MS, 0))
    if "fail" in call.input:
        _fail(call, call.choice("fail", FAILURES))
    answer: JsonObject = {"tool": call.tool, "echo": call.input}
    if size := call.integer("bytes", 0, MAX_BYTES, 0):
        answer["filler"] = "x" * size
    return answer


def _wait(call: Call, delay_ms: int) -> None:
    for done in range(0, delay_ms, STEP_MS):
        call.progress(done, delay_ms, f"waited {done} of {delay_ms} ms")
        time.sleep(min(STEP_MS, delay_ms - done) / 1000)


def _fail(call: Call, way: str) -> None:
    match way:
        case "failed":
            raise ToolFailed("mock-failed", "mock.echo was told to fail", asked=way)
        case "unavailable":
            raise Unavailable("mock.echo was told to be unavailable", "ask without `fail`")
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "garbage":
            call.out.send_bytes(b"this is not JSON {\n")
            os._exit(0)
        case "hang":
            while True:
                signal.pause()
        case _:
            os.write(2, b"mock.echo writes to stderr\n" * 4000)
