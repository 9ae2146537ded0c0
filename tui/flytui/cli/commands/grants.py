"""`flytui grants`: lists leases, the person's own rules and blocked tools, and removes a rule or a block.

A change that lets more calls through is decided in the console, or on a terminal while
neither a console nor `flytui serve` has the root.
"""

from __future__ import annotations

import click
import msgspec

from flycore.model.approval import Lease, StandingRule
from flycore.model.diagnostics import Diagnostic
from flycore.model.question import Block
from flycore.policy.rule_file import remove_rule
from flycore.registry.paths import RootPaths
from flycore.rpc.methods import Client
from flytui.cli.command_group import SummaryGroup
from flytui.cli.documents import GrantsDocument
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import ask_kernel, console_has_root, decide
from flytui.cli.output import (
    EXIT_UNKNOWN,
    ask_yes_no,
    can_ask,
    print_error,
    print_json,
    print_line,
    print_table,
)
from flytui.text.kernels import clock_time

EXIT_REFUSED = 4
SHOWN_DIGEST = 12
LEAST_DIGEST = 8
"""The fewest characters of a rule's digest that are accepted as its ID."""
BLOCKS_RULE = "blocks-file"
GONE = "the tool was no longer blocked, or the list could not be written"
IN_CONSOLE = "open the screen Grants there (key 4) and press d"


class _Permissions(msgspec.Struct, frozen=True):
    at_console: str
    """Who has to decide instead of this command; empty if nobody has."""
    leases: tuple[Lease, ...]
    rules: tuple[StandingRule, ...]
    blocks: tuple[Block, ...]


@click.group(cls=SummaryGroup, invoke_without_command=True)
@common
def grants(invocation: Invocation) -> int:
    """List leases, your rules and blocked tools, or remove one."""
    if click.get_current_context().invoked_subcommand is None:
        return list_grants(invocation)
    return 0


@grants.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """List leases, your rules and blocked tools."""
    return list_grants(invocation)


@grants.command("revoke")
@click.argument("requested_id", metavar="ID")
@common
def revoke(invocation: Invocation, requested_id: str) -> int:
    """Remove a rule, or unblock a tool.

    You can end a lease only in the console. Removing a block, or a rule that asks or denies, lets more
    calls through: while a console is open, do that there; otherwise this command asks y/N on the terminal.
    """
    places = invocation.places()
    code = _revoke(places, requested_id)
    if invocation.as_json:
        _emit(_read_permissions(places))
    return code


def _revoke(places: RootPaths, requested_id: str) -> int:
    permissions = _read_permissions(places)
    rules = [rule for rule in permissions.rules if _matches_id(rule, requested_id)]
    if any(lease.id == requested_id for lease in permissions.leases):
        print_error(f"a lease can be ended only in the console that gave it: {IN_CONSOLE}")
        return EXIT_REFUSED
    if len({rule.digest for rule in rules}) > 1:
        print_error(f"{requested_id} fits {len(rules)} rules: write more of the ID")
        return EXIT_UNKNOWN
    if rules:
        return _remove_rule(places, rules[0], at_console=permissions.at_console)
    block = next((block for block in permissions.blocks if block.tool == requested_id), None)
    if block is not None:
        return _unblock(places, block, at_console=permissions.at_console)
    print_error(f"no lease, rule or block has the ID {requested_id}: flytui grants lists them")
    return EXIT_UNKNOWN


def list_grants(invocation: Invocation) -> int:
    """Prints leases, rules and blocks; the exit code is always 0."""
    permissions = _read_permissions(invocation.places())
    if invocation.as_json:
        _emit(permissions)
    elif not (permissions.leases or permissions.rules or permissions.blocks):
        print_line("no leases, rules or blocks: you are asked about every call that needs a person")
    else:
        headings = ("ID", "KIND", "WHAT", "WHO", "USED", "LAST", "ENDS", "FROM")
        print_table(invocation, headings, list(_rows(permissions)))
    return 0


def _emit(permissions: _Permissions) -> None:
    print_json(
        GrantsDocument(
            leases=permissions.leases,
            rules=permissions.rules,
            blocks=permissions.blocks,
        )
    )


def _rows(permissions: _Permissions) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            lease.id,
            "lease",
            _lease_scope(lease),
            str(lease.caller),
            f"{lease.used} of {lease.used + lease.calls_left}",
            _time_text(lease.last_used),
            clock_time(lease.expires_at) if lease.expires_at else "when the caller ends",
            f"request {lease.from_request}",
        )
        for lease in permissions.leases
    ]
    rows += [
        (
            rule.digest[:SHOWN_DIGEST],
            "rule",
            f"{rule.decision} {rule.tool}",
            rule.caller or "every caller",
            str(rule.used),
            _time_text(rule.last_used),
            "faulty" if rule.note else _time_text(rule.expires, "never"),
            f"request {rule.from_request}" if rule.from_request else rule.where,
        )
        for rule in permissions.rules
    ]
    return rows + [
        (
            block.tool,
            "block",
            "every tool" if block.tool == "*" else block.tool,
            "every caller",
            "–",
            _time_text(block.since or None),
            "unblocked",
            block.reason,
        )
        for block in permissions.blocks
    ]


def _lease_scope(lease: Lease) -> str:
    where = f" on {lease.host}" if lease.host else f" below {lease.folder}" if lease.folder else ""
    wide = f"group {lease.group}, from " if lease.scope.value == "group" else ""
    return f"{wide}{lease.tool}{where}{', with a condition' if lease.condition is not None else ''}"


def _time_text(moment: float | None, never: str = "–") -> str:
    return never if moment is None else clock_time(moment)


def _matches_id(rule: StandingRule, requested_id: str) -> bool:
    return len(requested_id) >= LEAST_DIGEST and rule.digest.startswith(requested_id)


def _read_permissions(places: RootPaths) -> _Permissions:
    """Returns what the kernel says, and prints why a list cannot be trusted."""

    async def question(client: Client) -> tuple[_Permissions, tuple[Diagnostic, ...]]:
        busy = console_has_root(await client.status())
        leases, rules, blocks = await client.leases(), await client.rules(), await client.blocks()
        return _Permissions(busy, leases, rules, blocks), (await client.catalog(True)).diagnostics

    permissions, diagnostics = ask_kernel(places, question)
    for finding in diagnostics:
        if finding.rule == BLOCKS_RULE:
            print_error(f"{finding.message} → {finding.remedy}")
    return permissions


def _remove_rule(places: RootPaths, rule: StandingRule, *, at_console: str) -> int:
    """Removes the rule from its file and prints the outcome. Returns the exit code."""
    words = f"the rule {rule.decision} {rule.tool} ({rule.where})"
    if rule.decision != "allow" and not _confirm_loosening(words, at_console):
        return EXIT_REFUSED
    if at_console:
        # Fewer calls get through without it. A kernel with a console notices the edit of the file.
        removed = remove_rule(places.policy_file, rule.where, rule.digest)
        accepted, why_not = removed.rule is not None, removed.why_not
    else:
        outcome = decide(places, lambda approver: approver.remove_rule(rule.where, rule.digest))
        accepted, why_not = outcome.accepted, outcome.why_not
    print_error(f"removed: {words}" if accepted else f"not removed: {why_not}")
    return 0 if accepted else EXIT_REFUSED


def _unblock(places: RootPaths, block: Block, *, at_console: str) -> int:
    if not _confirm_loosening(f"the block of {block.tool}", at_console):
        return EXIT_REFUSED
    accepted = decide(places, lambda approver: approver.unblock(block.tool))
    print_error(f"unblocked: {block.tool}" if accepted else f"not unblocked: {GONE}")
    return 0 if accepted else EXIT_REFUSED


def _confirm_loosening(words: str, at_console: str) -> bool:
    """Returns whether a person at a terminal agrees that more calls are let through. While a console has the
    root, only it can ask that."""
    if at_console:
        print_error(f"without {words} more calls get through, and {at_console}: {IN_CONSOLE}")
        return False
    if not can_ask(err=True):
        print_error(
            f"without {words} more calls get through: run this command on a terminal, or open the console"
        )
        return False
    print_error(f"Without {words} more calls get through.")
    return ask_yes_no("Remove it?", err=True)
