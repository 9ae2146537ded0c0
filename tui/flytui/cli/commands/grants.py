"""`flytui grants`: lists leases, the person's own rules and blocked tools, and removes a rule or a block.

A change that lets more calls through is decided in the console, or on a terminal while no kernel runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from flytui.cli.command_group import SummaryGroup
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import hold_root, query_kernel
from flytui.cli.output import (
    EXIT_UNKNOWN,
    ask_yes_no,
    can_ask,
    clock_time,
    print_error,
    print_json,
    print_line,
    print_table,
)

if TYPE_CHECKING:
    from flycore.model.approval import Lease, StandingRule
    from flycore.model.question import Block
    from flycore.registry.paths import RootPaths
    from flycore.rpc.methods import Client

EXIT_REFUSED = 4
SHOWN_DIGEST = 12
LEAST_DIGEST = 8
"""The fewest characters of a rule's digest that are accepted as its ID."""
IN_CONSOLE = "open the screen Grants there (key 4) and press d"


class _Permissions(msgspec.Struct, frozen=True):
    running: bool
    lasting: bool
    """Whether a console or `flytui serve` runs, in which a person decides; a kernel of `flytui mcp` or
    `flytui call` does not count."""
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
    calls through: while a kernel runs, do that in the console; without a kernel, this command asks y/N on
    the terminal.
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
        return _remove_rule(places, rules[0], running=permissions.lasting)
    block = next((block for block in permissions.blocks if block.tool == requested_id), None)
    if block is not None:
        return _unblock(places, block, running=permissions.lasting)
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
    from flytui.cli.documents import GrantsDocument

    print_json(
        GrantsDocument(
            running=permissions.running,
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
            str(rule.used) if permissions.running else "–",
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
    """Returns what the running kernel says; without a kernel, what the files say, and then there are no
    leases."""
    from flycore.offline.permissions import read_permissions
    from flycore.offline.root import LASTING_ROLES

    async def question(client: Client) -> _Permissions:
        lasting = (await client.status()).role in LASTING_ROLES
        return _Permissions(True, lasting, await client.leases(), await client.rules(), await client.blocks())

    seen = query_kernel(places, question)
    if seen is not None:
        return seen
    kept = read_permissions(places)
    for finding in kept.diagnostics:
        print_error(f"{finding.message} → {finding.remedy}")
    return _Permissions(False, False, (), kept.rules, kept.blocks)


def _remove_rule(places: RootPaths, rule: StandingRule, *, running: bool) -> int:
    """Removes the rule from its file and prints the outcome. Returns the exit code."""
    from flycore.model.enums import KernelRole
    from flycore.offline.permissions import remove_rule, remove_rule_unlogged

    words = f"the rule {rule.decision} {rule.tool} ({rule.where})"
    if rule.decision != "allow" and not _confirm_loosening(words, running=running):
        return EXIT_REFUSED
    # A kernel that runs watches the file and logs the change itself; without one, the change is logged here.
    if running:
        outcome = remove_rule_unlogged(places, rule)
    else:
        with hold_root(places, KernelRole.GRANTS) as root:
            outcome = remove_rule(root, rule)
    print_error(f"removed: {words}" if outcome.accepted else f"not removed: {outcome.why_not}")
    return 0 if outcome.accepted else EXIT_REFUSED


def _unblock(places: RootPaths, block: Block, *, running: bool) -> int:
    from flycore.model.enums import KernelRole
    from flycore.offline.permissions import unblock_tool

    if not _confirm_loosening(f"the block of {block.tool}", running=running):
        return EXIT_REFUSED
    with hold_root(places, KernelRole.GRANTS) as root:
        outcome = unblock_tool(root, block.tool)
    print_error(f"unblocked: {block.tool}" if outcome.accepted else f"not unblocked: {outcome.why_not}")
    return 0 if outcome.accepted else EXIT_REFUSED


def _confirm_loosening(words: str, *, running: bool) -> bool:
    """Returns whether a person at a terminal agrees that more calls are let through. While a kernel runs,
    only its console can ask that."""
    if running:
        print_error(
            f"without {words} more calls get through, so you have to decide in the console: {IN_CONSOLE}"
        )
        return False
    if not can_ask(err=True):
        print_error(
            f"without {words} more calls get through: run this command on a terminal, or open the console"
        )
        return False
    print_error(f"Without {words} more calls get through.")
    return ask_yes_no("Remove it?", err=True)
