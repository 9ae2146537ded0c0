"""The short way of commands that a running kernel answers at once: `hook`, `call`, and the reads.

A program waits for each of them, and most of their time would be imports. So the words are read here without
a library, and the kernel is asked over a blocking connection. Only what is right in every respect goes this
way: whatever is unusual is left to the ordinary command line, which also says what is wrong. Nothing has been
asked by then. What is printed is the same.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flytui.cli.command_texts import kept_text

if TYPE_CHECKING:
    from flycore.client.sync_client import SyncClient
    from flycore.model.json import JsonObject
    from flycore.registry.paths import RootPaths
    from flytui.cli.agent_tools import AgentRequest
    from flytui.cli.call_input import Pairs

TICK_SECONDS = 0.5
QUIET_SECONDS = 1.0
"""A call that ends sooner shows no progress."""
_FLAGS = {"call": ("--no-wait",), "hook": (), "status": (), "catalog": (), "why": ()}
_VALUES = {
    "call": ("--input", "--timeout-ms", "--say"),
    "hook": ("--without-console", "--wait"),
}
_COMMON_FLAGS = ("--json", "--plain")
_COMMON_VALUES = ("--root", "--workspace")


class Words(NamedTuple):
    """A command line that this way can take: the command, its operands, and its options by name."""

    command: str
    operands: tuple[str, ...]
    options: dict[str, str]


class OrdinaryWay(Exception):
    """This command line is left to the ordinary way. Nothing has been asked."""


def run_direct(words: Sequence[str]) -> int | None:
    """Run the command and return its exit code; None where the ordinary command line has to do it."""
    try:
        text = kept_text(words, os.environ)
        if text is not None:
            return print_all(text)
        if any(name.startswith("_FLYTUI") for name in os.environ):
            from flytui.cli.direct_reads import complete_names

            return complete_names(os.environ)
        read = read_words(words)
        return _COMMANDS[read.command](read)
    except OrdinaryWay:
        return None


def read_words(words: Sequence[str]) -> Words:
    """Return what the words say. Raises OrdinaryWay for anything that is not quite plain."""
    command, operands, options = "", [], dict[str, str]()
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            if command:
                operands.append(word)
            elif word in _FLAGS:
                command = word
            else:
                raise OrdinaryWay
            continue
        name, equals, value = word.partition("=")
        if name in options:
            raise OrdinaryWay
        if name in (*_COMMON_VALUES, *_VALUES.get(command, ())):
            options[name] = value if equals else next(rest, "")
        elif not equals and name in (*_COMMON_FLAGS, *_FLAGS.get(command, ())):
            options[name] = ""
        else:
            raise OrdinaryWay
    if not command or not all(_is_folder(options[name]) for name in _COMMON_VALUES if name in options):
        raise OrdinaryWay
    return Words(command, tuple(operands), options)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and os.access(path, os.R_OK)


def root_paths(words: Words) -> RootPaths:
    """Return the paths of the root that the words name."""
    from pathlib import Path

    from flycore.registry.paths import find_paths

    options = words.options
    return find_paths(options.get("--root"), options.get("--workspace"), os.environ, Path.cwd())


def open_root(words: Words, *, viewer: bool, notice: bool = True) -> tuple[RootPaths, SyncClient]:
    """Connect to the kernel of the root.

    Raises OrdinaryWay where there is none, or where something has to be said about the root first.
    """
    from pathlib import Path

    from flycore.client.sync_client import NoDirectKernel, open_direct
    from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE

    places = root_paths(words)
    if notice and "--root" not in words.options and not os.environ.get("FLYTUI_ROOT"):
        around = (
            folder / name
            for folder in places.app_root.parents
            for name in (REGISTRY_FILE, LEGACY_REGISTRY_FILE)
        )
        if places.app_root != Path(os.path.realpath(Path.cwd())) or any(map(os.path.lexists, around)):
            raise OrdinaryWay
    try:
        return places, open_direct(places, viewer=viewer)
    except (NoDirectKernel, UnicodeEncodeError):
        raise OrdinaryWay from None


class _Outcome(NamedTuple):
    """How a call ended: the payload of its result; or, without one, whether the kernel had accepted it."""

    payload: dict[str, Any] | None
    call_id: str = ""


def _wait_for_result(
    client: SyncClient, message_id: str, seconds: float | None, on_step: Any = None
) -> _Outcome | None:
    """Wait for the end of a call. None where the time is over; then the call was cancelled.

    `on_step` is called with each progress, and with None from time to time. Raises OrdinaryWay where the
    kernel did not accept the call.
    """
    from flycore.client.sync_client import ConnectionEnded

    deadline = None if seconds is None else time.monotonic() + seconds
    call_id = ""
    try:
        for message in client.answers(message_id, TICK_SECONDS):
            late = deadline is not None and time.monotonic() >= deadline
            if late and (message is None or message["type"] == "tool.progress"):
                client.cancel(message_id)
                return None
            if message is None:
                if on_step is not None:
                    on_step(None)
            elif message["type"] == "tool.result":
                return _Outcome(message["payload"], call_id)
            elif message["type"] == "tool.progress":
                call_id = message["payload"]["callId"]
                if on_step is not None:
                    on_step(message["payload"])
            else:
                raise OrdinaryWay
    except ConnectionEnded:
        pass
    if not call_id:  # the kernel reports progress before a call has any effect
        raise OrdinaryWay
    return _Outcome(None, call_id)


# `flytui hook`


def _hook(words: Words) -> int:
    from flytui.cli.hook_event import DEFAULT_WAIT, HOOKED, MOST_WAIT, begin

    begin()

    without, wait = words.options.get("--without-console", "deny"), words.options.get("--wait")
    try:
        seconds = DEFAULT_WAIT if wait is None else float(wait)
    except ValueError:
        raise OrdinaryWay from None
    plain = (
        len(words.operands) == 1
        and words.operands[0] in HOOKED
        and without in ("deny", "ask")
        and "--json" not in words.options
    )
    if not plain or not 0 <= seconds <= MOST_WAIT:
        raise OrdinaryWay
    try:
        request = _read_request(words)
        return 0 if request is None else _ask_about(words, request, without, seconds)
    except OrdinaryWay:
        raise
    except (SystemExit, KeyboardInterrupt):
        why = "ended by a signal"
    except Exception as error:  # noqa: BLE001 - a process boundary: any exit code but 2 would let the tool run
        why = f"{type(error).__name__}: {error}"
    from flytui.cli.commands.hook import refuse

    return refuse(why)


def _read_request(words: Words) -> AgentRequest | None:
    from flycore.model.json import read_strict
    from flycore.registry.paths import find_paths
    from flytui.cli.agent_tools import (
        AgentEventError,
        is_asked_by_other_hook,
        read_agent_request,
        with_program_folders,
    )
    from flytui.cli.hook_event import read_event

    try:
        event = read_strict(read_event())
        request = read_agent_request(event, words.operands[0])
    except (AgentEventError, ValueError, OSError):
        raise OrdinaryWay from None  # which reads the same event, and says what is wrong
    if request is None:
        return None
    from pathlib import Path

    places = find_paths(words.options.get("--root"), None, os.environ, Path.cwd())
    if is_asked_by_other_hook(event, words.operands[0], places):
        return None
    return with_program_folders(request, os.environ.get("PATH", ""), str(places.app_root))


def _ask_about(words: Words, request: AgentRequest, without: str, seconds: float) -> int:
    from flycore.model.json import canonical_json, digest
    from flytui.cli.caller_watch import end_with_caller
    from flytui.cli.hook_event import (
        ALLOWED,
        TO_THE_END_MS,
        hook_answer,
        is_allowed,
        print_answer,
        seconds_left,
    )

    keep = without == "deny"
    _, client = open_root(words, viewer=False)
    try:
        end_with_caller()
        message_id = client.call(
            request.action,
            request.input,
            timeout_ms=None,
            purpose=request.reason,
            inline_wait_ms=int(seconds * 1000) if keep else TO_THE_END_MS,
        )
        ended = _wait_for_result(client, message_id, seconds_left(seconds) if keep else seconds)
    finally:
        # A request that nobody waits for any more is withdrawn with its connection.
        client.close()
    payload = None if ended is None else ended.payload
    if payload is not None and is_allowed(
        payload["status"], payload["error"], payload["output"], digest(request.input)
    ):
        print_answer(canonical_json(hook_answer("allow", ALLOWED, request.client)))
        return 0
    from flytui.cli.commands.hook import decision

    results = () if ended is None else (_tool_result(request.action, ended),)
    print_answer(canonical_json(hook_answer(*decision(request, results, without), request.client)))
    return 0


def _tool_result(tool: str, ended: _Outcome) -> Any:
    """The result as a value, for what is not plain."""
    import msgspec

    from flycore.client.client import outcome_unknown
    from flycore.model.call import ToolResult

    if ended.payload is None:
        return outcome_unknown(tool, ended.call_id)
    return msgspec.convert(ended.payload, ToolResult)


# `flytui call`


def _call(words: Words) -> int:
    tool, entered = _call_input(words)
    timeout = words.options.get("--timeout-ms")
    if timeout is not None and (not timeout.isascii() or not timeout.isdigit() or int(timeout) < 1):
        raise OrdinaryWay
    _, client = open_root(words, viewer=False)
    progress = _Progress(tool, plain="--plain" in words.options)
    message_id, stopped, ended = "", 0, None
    try:
        message_id = client.call(
            tool,
            _typed_input(client, tool, entered),
            timeout_ms=None if timeout is None else int(timeout),
            purpose=words.options.get("--say", ""),
            inline_wait_ms=0 if "--no-wait" in words.options else 7 * 24 * 3_600_000,
        )
        ended = _wait_for_result(client, message_id, None, progress.step)
    except SystemExit as signalled:  # from the handler of `end_on_signals`
        stopped = signalled.code if isinstance(signalled.code, int) else 1
        client.cancel(message_id)
    finally:
        client.close()
        progress.end()
    try:
        return _print_call(words, tool, ended, stopped)
    except OSError as error:
        from flytui.cli.root_command import output_failed

        return output_failed(error)


def _call_input(words: Words) -> tuple[str, JsonObject | Pairs]:
    from flytui.cli.call_input import CallInputError, read_input_words, refuse_undecodable

    if not words.operands:
        raise OrdinaryWay
    tool, *rest = words.operands
    try:
        refuse_undecodable(tool, words.options.get("--say", ""))
        return tool, read_input_words(tuple(rest), words.options.get("--input"), _leave_stdin)
    except CallInputError:
        raise OrdinaryWay from None


def _leave_stdin(limit: int) -> bytes:
    """Leave standard input to the ordinary way."""
    raise OrdinaryWay


def _typed_input(client: SyncClient, tool: str, entered: JsonObject | Pairs) -> JsonObject:
    """Return the input as an object; `key=value` words get their types from the tool's schema."""
    from flycore.client.sync_client import ConnectionEnded, NoDirectKernel
    from flytui.cli.call_input import typed_input

    if isinstance(entered, dict):
        return entered
    if not entered:
        return {}
    try:
        return typed_input(entered, client.ask("tool.schema.get", {"tool": tool})["inputSchema"])
    except (ConnectionEnded, NoDirectKernel, OSError):
        raise OrdinaryWay from None


class _Progress:
    """Shows the progress of a call that takes longer, or that waits, as the ordinary way does."""

    def __init__(self, tool: str, *, plain: bool) -> None:
        self._tool, self._plain = tool, plain
        self._begun = time.monotonic()
        self._display: Any = None
        self._latest: dict[str, Any] | None = None

    def step(self, payload: dict[str, Any] | None) -> None:
        """Take a progress, or let time pass."""
        self._latest = payload or self._latest
        waits = payload is not None and str(payload.get("phase", "")).startswith("waiting")
        if self._display is None and not waits and time.monotonic() - self._begun < QUIET_SECONDS:
            return
        if self._display is None:
            from flytui.cli.call_progress import progress_display

            self._display = progress_display(
                self._tool, plain=self._plain, for_console=False, begun=self._begun
            )
            payload = self._latest
        if payload is None:
            self._display.tick()
        else:
            import msgspec

            from flycore.model.call import Progress

            self._display.show(msgspec.convert(payload, Progress))

    def end(self) -> None:
        """Erase the line, where one was drawn."""
        if self._display is not None:
            self._display.end()


def _print_call(words: Words, tool: str, ended: _Outcome | None, stopped: int) -> int:
    """Print the result and return the exit code."""
    payload = None if ended is None else ended.payload
    good = payload is not None and payload["status"] == "success" and payload["error"] is None
    if payload is not None and good and "--json" in words.options:
        print_text(json.dumps(payload, indent=2))
        return stopped
    if payload is not None and good and not payload["artifacts"] and not payload["warnings"]:
        from flysafe.text import safe_lines
        from flytui.cli.call_headline import success_line
        from flytui.cli.output import print_error

        for line in safe_lines(json.dumps(payload["output"], indent=2, ensure_ascii=False)):
            print_text(line)
        headline = success_line(
            payload["status"], payload["tool"], payload["sidecar"], payload["sandbox"],
            payload["durationMs"], payload["waitedMs"],
        )  # fmt: skip
        print_error(headline.replace("\n", "\n    "))
        return stopped
    from flytui.cli.call_text import cancelled_result, print_result
    from flytui.cli.output import print_json

    result = cancelled_result(tool) if ended is None else _tool_result(tool, ended)
    if "--json" in words.options:
        print_json(result)
    else:
        print_result(result)
    return stopped or int(result.exit_status)


# Reads


def _read(words: Words) -> int:
    from flytui.cli.direct_reads import show

    return show(words)


def print_all(text: str) -> int:
    """Print the whole output of a command, a safe text, and return the exit code. Raises OrdinaryWay where
    the encoding is one that the ordinary way replaces."""
    if sys.stdout.encoding.lower() != "utf-8":
        raise OrdinaryWay
    try:
        print_text(text)
    except OSError as error:
        from flytui.cli.root_command import output_failed

        return output_failed(error)
    return 0


def print_text(text: str) -> None:
    """Print a text that is safe. Raises OSError."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


_COMMANDS = {"call": _call, "hook": _hook, "status": _read, "catalog": _read, "why": _read}
