"""Passes a request to a delegate and reads its answer in the way that the kernel does."""

from __future__ import annotations

import json

from flysidecars.media.engines import Engine
from flysidecars.run_program import environment, heartbeat, run
from flysidecars.sdk import Call, JsonObject, ToolFailed
from flysidecars.sdk.wire import encode

LIMIT_S = 3600.0
"""The longest run of a delegate, seconds. The kernel ends a call earlier; this is for use without one."""
MAX_ANSWER_BYTES = 4 * 1024 * 1024
_CODE = 64


def ask_delegate(call: Call, engine: Engine, file: int | None = None) -> JsonObject:
    """The fields of the delegate's answer.

    `file` is the descriptor of the input's file, which was opened and checked. The delegate inherits it, and
    the request names it in `file`. Raises `ToolFailed`: the failure that the delegate reports, or
    `delegate-failed` if it gives no valid answer.
    """
    request = {key: value for key, value in call.raw.items() if key not in ("persistent", "delegates")}
    if file is not None:
        # By descriptor: the path could lead to another file by the time the delegate opens it.
        request["file"] = f"/proc/self/fd/{file}"
    try:
        ran = run(
            engine.argv,
            encode(request) + b"\n",
            LIMIT_S,
            environment("XDG_RUNTIME_DIR", "PULSE_SERVER"),
            max_output_bytes=MAX_ANSWER_BYTES,
            check_cancelled=heartbeat(call, f"{engine} works"),
            inherited_fds=() if file is None else (file,),
        )
    except OSError as failed:
        raise _failed(engine, f"cannot be started: {failed.strerror}") from failed
    if ran.timed_out or ran.too_much:
        raise _failed(engine, "answered too much" if ran.too_much else "did not answer in time")
    answer = read_answer(ran.out)
    if answer is None or (answer["ok"] is True and ran.code != 0):
        raise _failed(engine, "gave no answer that can be read", exitCode=ran.code, stderr=ran.stderr_text())
    fields = {key: value for key, value in answer.items() if key not in ("ok", "requestId")}
    if answer["ok"] is True:
        return fields
    code, message = fields.pop("code", None), fields.pop("error", None)
    raise ToolFailed(
        code[:_CODE] if isinstance(code, str) and code else "failed",
        message if isinstance(message, str) and message else f"the {engine} failed",
        **{**fields, "engine": str(engine)},
    )


def read_answer(out: bytes) -> JsonObject | None:
    """The answer in a program's output; None if there is none.

    Event lines at the beginning are skipped. The answer is the rest as one document, or else the first line
    that is an object with `ok`.
    """
    lines = out.splitlines()
    while lines and "ok" not in (event := _object(lines[0]) or {"ok": 0}) and "event" in event:
        lines.pop(0)
    for text in (b"\n".join(lines), *lines):
        document = _object(text)
        if document is not None and isinstance(document.get("ok"), bool):
            return document
    return None


def _object(text: bytes) -> JsonObject | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _failed(engine: Engine, what: str, **fields: object) -> ToolFailed:
    return ToolFailed("delegate-failed", f"the {engine} {what}", engine=str(engine), **fields)
