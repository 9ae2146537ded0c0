"""`flytui policy`: checks, explains and tries the rules that decide about calls. It changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flycore.catalog.builtin import READ, SHELL
from flycore.catalog.schemas import check_input, fill_defaults
from flycore.client.audit_log import last_lines
from flycore.model.approval import Verdict
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import QuestionKind
from flycore.model.json import JsonObject
from flycore.model.question import Question
from flycore.policy.evaluate import Policy, expired_rules
from flycore.policy.files import load_draft
from flycore.policy.replay import PastCall, past_calls, replay
from flycore.policy.rules import RuleLayer, caller_named
from flycore.registry.paths import PROJECT_POLICY_FILE
from flycore.rpc.methods import Client
from flytui.cli.call_input import CallInputError, read_input_words, typed_input
from flytui.cli.command_group import SummaryGroup
from flytui.cli.documents import PolicyCheckDocument, PolicyLayer, PolicyReplayDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel
from flytui.cli.output import (
    nearest_names,
    print_error,
    print_json,
    print_line,
    print_not_found,
    print_strict,
)
from flytui.cli.policy_text import explain_document, print_explanation, print_replay, unknown_document
from flytui.cli.shell_completion import tool_names

if TYPE_CHECKING:
    from flycore.offline.policy import OfflinePolicy

EXIT_ERRORS = 5
EXIT_USAGE = 2
DEFAULT_CALLS = 100
MOST_CALLS = 10_000
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=SummaryGroup)
@common
def policy(invocation: Invocation) -> int:
    """Check the rules, explain a decision, or try a draft."""
    return 0


@policy.command("check")
@click.argument("file", type=EXISTING, required=False)
@common
def check(invocation: Invocation, file: Path | None) -> int:
    """Report problems in the policy files in use, or in FILE.

    Exit 0, or 5 for an error.
    """
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.policy import read_offline_policy

    offline = read_offline_policy(invocation.places())
    read = offline.files.policy if file is None else _load_single_file(offline, file, invocation)
    diagnostics = (*read.diagnostics, *expired_rules(read, offline.now))
    layers = tuple(
        PolicyLayer(
            layer=item.source, file=item.file, present=item.present, ok=item.ok, rules=len(item.rules)
        )
        for item in read.layers
    )
    if invocation.as_json:
        print_json(PolicyCheckDocument(version=read.version, layers=layers, diagnostics=diagnostics))
    else:
        for layer in layers:
            print_line(f"{layer.layer:<7}  {layer.file}: {_layer_text(layer)}")
        _print_findings(diagnostics, print_line)
        if file is None:
            _print_waiting(invocation)
    return EXIT_ERRORS if any(item.severity is Severity.ERROR for item in diagnostics) else 0


def _print_waiting(invocation: Invocation) -> None:
    """Print the changes of the user's file that the running kernel does not count, if there are any."""

    async def ask(client: Client) -> tuple[Question, ...]:
        return await client.questions()

    for question in ask_kernel(invocation.places(), ask):
        if question.kind is QuestionKind.POLICY:
            print_line("waiting: the running kernel does not count these changes until you accept them")
            for line in question.lines:
                print_strict(f"  {line}")


@policy.command("explain")
@click.argument("tool", shell_complete=tool_names)
@click.argument("words", metavar="[JSON | KEY=VALUE…]", nargs=-1)
@click.option("--caller", "named", default="", metavar="NAME|PATH", help="Explain a call by this program.")
@common
def explain(invocation: Invocation, tool: str, words: tuple[str, ...], named: str) -> int:
    """Explain the decision about a call of TOOL.

    Prints the decision, the rules that concern the call, and the decision without rules.
    """
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.policy import read_offline_policy

    offline = read_offline_policy(invocation.places())
    capability = offline.capability(tool)
    if capability is None:
        near = nearest_names(offline.root_state.catalog, tool, sidecars=False)
        if invocation.as_json:
            print_json(unknown_document(tool, near, caller=named))
        return print_not_found(tool, near, sidecars=False)
    tool_input = _input(capability, words)
    if isinstance(tool_input, str):
        print_error(f"the input would be refused before policy decides: {tool_input}")
        return EXIT_USAGE
    in_force = offline.files.policy
    if not in_force.ok:
        _print_findings(in_force.diagnostics, print_error)
        print_error("a kernel that is already running still uses the last good rules of such a file")
    judgement = offline.evaluate(in_force, tool, tool_input, caller_named(named))
    sidecar = offline.sidecar(tool)
    document = explain_document(tool, sidecar, judgement, input_known=tool_input is not None, caller=named)
    if invocation.as_json:
        print_json(document)
    else:
        print_explanation(invocation, document)
    return 0


@policy.command("replay")
@click.option(
    "--last", "count", type=click.IntRange(1, MOST_CALLS), default=DEFAULT_CALLS, show_default=True,
    help="How many calls of the log to try.",
)  # fmt: skip
@click.option("--draft", type=EXISTING, help="Rules to try in place of your own policy.jsonc.")
@common
def replay_command(invocation: Invocation, count: int, draft: Path | None) -> int:
    """Show how earlier calls would be decided now, or by a draft."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.policy import read_offline_policy

    places = invocation.places()
    offline = read_offline_policy(places)
    tried = offline.files.policy if draft is None else _with_draft(offline, draft)
    if not tried.ok:
        _print_findings(tried.diagnostics, print_error)
        return EXIT_ERRORS

    def judge(call: PastCall) -> Verdict | None:
        capability = offline.capability(call.tool)
        filled = call.input if capability is None else fill_defaults(capability.input_schema, call.input)
        judged = offline.evaluate(tried, call.tool, filled if isinstance(filled, dict) else None, call.caller)
        rules = judged.rules or ((judged.default,) if judged.default is not None else ())
        return None if judged.decision is None else Verdict(decision=judged.decision, rules=rules)

    calls = past_calls(last_lines(places), count)
    found = replay(calls, judge, None if draft is None else str(_absolute(draft)))
    if invocation.as_json:
        print_json(PolicyReplayDocument(draft=str(draft or ""), calls=found, diagnostics=tried.diagnostics))
        return 0
    _print_findings(tried.diagnostics, print_error)
    print_replay(invocation, found)
    return 0


def _input(capability: Capability, words: tuple[str, ...]) -> JsonObject | str | None:
    """Returns the input as policy would see it, None if no input is given, or a text that says why it
    would be refused. Raises UsageError for words that cannot be read."""
    if not words:
        return None
    try:
        parsed = read_input_words(words, None, _no_stdin)
    except CallInputError as problem:
        raise click.UsageError(str(problem)) from None
    raw = parsed if isinstance(parsed, dict) else typed_input(parsed, capability.input_schema)
    if capability.name in (SHELL, READ):
        raw = {"cwd": os.getcwd(), **raw}  # an agent always says in which folder it works
    filled, violations = check_input(capability.input_schema, raw)
    return "; ".join(f"{item.pointer} {item.message}".strip() for item in violations) or filled


def _no_stdin(limit: int) -> bytes:
    raise click.UsageError("write the input after the tool's name")


def _absolute(file: Path) -> Path:
    return file.resolve()


def _load_single_file(offline: OfflinePolicy, file: Path, invocation: Invocation) -> Policy:
    """Returns a policy of FILE alone, as the project's file if FILE is that one, else as a user's file."""
    path = _absolute(file)
    project = (invocation.places().app_root / PROJECT_POLICY_FILE).resolve()
    layer = RuleLayer.PROJECT if path == project else RuleLayer.USER
    read, diagnostics = load_draft(path, layer, offline.names())
    return Policy(layers=(read,), diagnostics=diagnostics)


def _with_draft(offline: OfflinePolicy, draft: Path) -> Policy:
    """Returns the policy files in use, with the draft in place of the user's; the diagnostics are the
    draft's alone."""
    read, diagnostics = load_draft(_absolute(draft), RuleLayer.USER, offline.names())
    others = offline.files.policy.layers
    layers = tuple(read if layer.source is RuleLayer.USER else layer for layer in others)
    return Policy(layers=layers, diagnostics=diagnostics)


def _layer_text(layer: PolicyLayer) -> str:
    if not layer.present:
        return "not used" if not layer.ok else "no file"
    rules = "1 rule" if layer.rules == 1 else f"{layer.rules} rules"
    return f"{rules} in force" if layer.ok else "does not parse"


def _print_findings(diagnostics: tuple[Diagnostic, ...], out: Callable[[str], None]) -> None:
    for item in diagnostics:
        where = f"{item.position}: " if item.position else ""
        out(f"{item.severity.value:<7}  {where}{item.message}")
        for line in item.excerpt.splitlines():
            out(f"         {line}")
        if item.remedy:
            out(f"         → {item.remedy}")
