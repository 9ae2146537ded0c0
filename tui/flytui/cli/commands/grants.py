"""`flytui grants`: leases, the person's own rules, and blocked tools; and taking one away.

What lets more through than before is decided in the console, or on a terminal while no kernel runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

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
    table,
)

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.model.approval import Lease, StandingRule
    from flycore.model.question import Block
    from flycore.registry.paths import RootPaths

EXIT_REFUSED = 4
SHOWN_DIGEST = 12
LEAST_DIGEST = 8
"""Of a rule's digest, as its ID."""
IN_CONSOLE = "open the screen Grants there (key 4) and press d"


@dataclass(frozen=True, slots=True)
class _Permissions:
    running: bool
    for_good: bool
    """Whether what runs is a console, or `flytui serve` with one: a person decides there."""
    leases: tuple[Lease, ...]
    rules: tuple[StandingRule, ...]
    blocks: tuple[Block, ...]


@click.group(invoke_without_command=True)
@common
def grants(invocation: Invocation) -> int:
    """Leases, your rules and blocked tools. What they give is given in the console, never here."""
    if click.get_current_context().invoked_subcommand is None:
        return list_grants(invocation)
    return 0


@grants.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """Everything that stands."""
    return list_grants(invocation)


@grants.command("revoke")
@click.argument("wanted", metavar="ID")
@common
def revoke(invocation: Invocation, wanted: str) -> int:
    """Take out a rule, or unblock a tool.

    A lease lives in the kernel that made it and is ended in its console. So is, while a kernel runs, what
    lets more through: a rule that asks or denies, and a block. Without one a terminal is asked, y/N.
    """
    places = invocation.places()
    code = _revoke(places, wanted)
    if invocation.as_json:
        _emit(_read_permissions(places))
    return code


def _revoke(places: RootPaths, wanted: str) -> int:
    stands = _read_permissions(places)
    rules = [rule for rule in stands.rules if _matches_id(rule, wanted)]
    if any(lease.id == wanted for lease in stands.leases):
        print_error(f"a lease is ended in the console that gave it: {IN_CONSOLE}")
        return EXIT_REFUSED
    if len({rule.digest for rule in rules}) > 1:
        print_error(f"{wanted} stands for {len(rules)} rules: write more of the ID")
        return EXIT_UNKNOWN
    if rules:
        return _remove_rule(places, rules[0], running=stands.for_good)
    block = next((block for block in stands.blocks if block.tool == wanted), None)
    if block is not None:
        return _unblock(places, block, running=stands.for_good)
    print_error(f"nothing stands under {wanted}: flytui grants lists it")
    return EXIT_UNKNOWN


def list_grants(invocation: Invocation) -> int:
    """Print what stands; always exit code 0."""
    stands = _read_permissions(invocation.places())
    if invocation.as_json:
        _emit(stands)
    elif not (stands.leases or stands.rules or stands.blocks):
        print_line("nothing stands: every call that needs a person asks one")
    else:
        headings = ("ID", "KIND", "WHAT", "WHO", "USED", "LAST", "ENDS", "FROM")
        table(invocation, headings, list(_rows(stands)))
    return 0


def _emit(stands: _Permissions) -> None:
    from flytui.cli.documents import GrantsDocument

    print_json(
        GrantsDocument(running=stands.running, leases=stands.leases, rules=stands.rules, blocks=stands.blocks)
    )


def _rows(stands: _Permissions) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            lease.id,
            "lease",
            _lease_scope(lease),
            str(lease.caller),
            f"{lease.used} of {lease.used + lease.calls_left}",
            _time_text(lease.last_used),
            clock_time(lease.expires_at) if lease.expires_at else "when the caller leaves",
            f"request {lease.from_request}",
        )
        for lease in stands.leases
    ]
    rows += [
        (
            rule.digest[:SHOWN_DIGEST],
            "rule",
            f"{rule.decision} {rule.tool}",
            rule.caller or "every caller",
            str(rule.used) if stands.running else "–",
            _time_text(rule.last_used),
            "faulty" if rule.note else _time_text(rule.expires, "never"),
            f"request {rule.from_request}" if rule.from_request else rule.where,
        )
        for rule in stands.rules
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
        for block in stands.blocks
    ]


def _lease_scope(lease: Lease) -> str:
    where = f" on {lease.host}" if lease.host else ""
    wide = f"group {lease.group}, from " if lease.scope.value == "group" else ""
    return f"{wide}{lease.tool}{where}{', with a condition' if lease.condition is not None else ''}"


def _time_text(moment: float | None, never: str = "–") -> str:
    return never if moment is None else clock_time(moment)


def _matches_id(rule: StandingRule, wanted: str) -> bool:
    return len(wanted) >= LEAST_DIGEST and rule.digest.startswith(wanted)


def _read_permissions(places: RootPaths) -> _Permissions:
    """What the running kernel says; where none runs, what the files say: then there are no leases."""
    from flycore.offline.permissions import read_permissions
    from flycore.offline.root import LASTING_ROLES

    async def question(client: Client) -> _Permissions:
        for_good = (await client.status()).role in LASTING_ROLES
        return _Permissions(
            True, for_good, await client.leases(), await client.rules(), await client.blocks()
        )

    seen = query_kernel(places, question)
    if seen is not None:
        return seen
    kept = read_permissions(places)
    for finding in kept.diagnostics:
        print_error(f"{finding.message} → {finding.remedy}")
    return _Permissions(False, False, (), kept.rules, kept.blocks)


def _remove_rule(places: RootPaths, rule: StandingRule, *, running: bool) -> int:
    """A kernel with a person notices by itself, and writes down that the policy is another."""
    from flycore.model.enums import KernelRole
    from flycore.offline.permissions import edit_out_rule, remove_rule

    words = f"the rule {rule.decision} {rule.tool} ({rule.where})"
    if rule.decision != "allow" and not _confirm_loosening(words, running=running):
        return EXIT_REFUSED
    if running:
        outcome = edit_out_rule(places, rule)
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
    """Whether a person at a terminal agrees that more is let through; where a kernel runs, its console is
    the place to say so."""
    if running:
        print_error(f"without {words} more is let through, so that is done in the console: {IN_CONSOLE}")
        return False
    if not can_ask(err=True):
        print_error(f"without {words} more is let through: run this on a terminal, or open the console")
        return False
    print_error(f"Without {words} more is let through.")
    return ask_yes_no("Take it away?", err=True)
