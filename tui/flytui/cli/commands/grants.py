"""`flytui grants`: leases, the person's own rules, and blocked tools; and taking one away.

What lets more through than before is decided in the console, or on a terminal while no kernel runs.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import clock_time, emit, note, say, table
from flytui.cli.reading import ask_running
from flytui.cli.unknown import EXIT_UNKNOWN

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.model.approval import Lease
    from flycore.model.canonical import JsonObject
    from flycore.model.question import Block
    from flycore.model.standing import StandingRule
    from flycore.registry.places import Places

EXIT_REFUSED = 4
SHOWN_DIGEST = 12
LEAST_DIGEST = 8
"""Of a rule's digest, as its ID."""
IN_CONSOLE = "open the screen Grants there (key 4) and press d"


@dataclass(frozen=True, slots=True)
class _Stands:
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
        _emit(_look(places))
    return code


def _revoke(places: Places, wanted: str) -> int:
    stands = _look(places)
    rules = [rule for rule in stands.rules if _means(rule, wanted)]
    if any(lease.id == wanted for lease in stands.leases):
        note(f"a lease is ended in the console that gave it: {IN_CONSOLE}")
        return EXIT_REFUSED
    if len({rule.digest for rule in rules}) > 1:
        note(f"{wanted} stands for {len(rules)} rules: write more of the ID")
        return EXIT_UNKNOWN
    if rules:
        return _take_out(places, rules[0], running=stands.for_good)
    block = next((block for block in stands.blocks if block.tool == wanted), None)
    if block is not None:
        return _unblock(places, block, running=stands.for_good)
    note(f"nothing stands under {wanted}: flytui grants lists it")
    return EXIT_UNKNOWN


def list_grants(invocation: Invocation) -> int:
    """Print what stands; always exit code 0."""
    stands = _look(invocation.places())
    if invocation.as_json:
        _emit(stands)
    elif not (stands.leases or stands.rules or stands.blocks):
        say("nothing stands: every call that needs a person asks one")
    else:
        headings = ("ID", "KIND", "WHAT", "WHO", "USED", "LAST", "ENDS", "FROM")
        table(invocation, headings, list(_rows(stands)))
    return 0


def _emit(stands: _Stands) -> None:
    from flytui.cli.documents import GrantsDocument

    emit(
        GrantsDocument(running=stands.running, leases=stands.leases, rules=stands.rules, blocks=stands.blocks)
    )


def _rows(stands: _Stands) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            lease.id,
            "lease",
            _covered(lease),
            str(lease.caller),
            f"{lease.used} of {lease.used + lease.calls_left}",
            _when(lease.last_used),
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
            _when(rule.last_used),
            "faulty" if rule.note else _when(rule.expires, "never"),
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
            _when(block.since or None),
            "unblocked",
            block.reason,
        )
        for block in stands.blocks
    ]


def _covered(lease: Lease) -> str:
    where = f" on {lease.host}" if lease.host else ""
    wide = f"group {lease.group}, from " if lease.scope.value == "group" else ""
    return f"{wide}{lease.tool}{where}{', with a condition' if lease.condition is not None else ''}"


def _when(moment: float | None, never: str = "–") -> str:
    return never if moment is None else clock_time(moment)


def _means(rule: StandingRule, wanted: str) -> bool:
    return len(wanted) >= LEAST_DIGEST and rule.digest.startswith(wanted)


def _look(places: Places) -> _Stands:
    """What the running kernel says; where none runs, what the files say: then there are no leases."""
    from flycore.kernel.lock import FOR_GOOD

    async def question(client: Client) -> _Stands:
        for_good = (await client.status()).role in FOR_GOOD
        return _Stands(True, for_good, await client.leases(), await client.rules(), await client.blocks())

    seen = ask_running(places, question)
    if seen is not None:
        return seen
    from flycore.approval.blocks import BlockBook
    from flycore.approval.standing_rules import read_rules

    blocks = BlockBook.load(places.blocks_file)
    for finding in blocks.diagnostics:
        note(f"{finding.message} → {finding.remedy}")
    return _Stands(False, False, (), read_rules(places.policy_file), blocks.all())


def _take_out(places: Places, rule: StandingRule, *, running: bool) -> int:
    """A kernel with a person notices by itself, and writes down that the policy is another."""
    words = f"the rule {rule.decision} {rule.tool} ({rule.where})"
    if rule.decision != "allow" and not _may_loosen(words, running=running):
        return EXIT_REFUSED
    if running:
        return _cut(places, rule, words)
    from flycore.audit.events import RULE_CHANGED, rule_changed
    from flytui.cli.holding import held_root
    from flytui.cli.recording import record

    told: JsonObject = {"tool": rule.tool, "decision": rule.decision, "because": rule.because}
    with held_root(places, role="grants"):
        record(places, RULE_CHANGED, rule_changed(rule.where, told, "removed", by="flytui grants"))
        return _cut(places, rule, words)


def _cut(places: Places, rule: StandingRule, words: str) -> int:
    from flycore.approval.standing_rules import remove_rule

    removed = remove_rule(places.policy_file, rule.where, rule.digest)
    note(f"removed: {words}" if removed.rule is not None else f"not removed: {removed.why_not}")
    return 0 if removed.rule is not None else EXIT_REFUSED


def _unblock(places: Places, block: Block, *, running: bool) -> int:
    from flycore.approval.blocks import BlockBook
    from flycore.audit.events import BLOCK_CHANGED, block_changed
    from flytui.cli.holding import held_root
    from flytui.cli.recording import record

    if not _may_loosen(f"the block of {block.tool}", running=running):
        return EXIT_REFUSED
    with held_root(places, role="grants"):
        book = BlockBook.load(places.blocks_file)
        record(places, BLOCK_CHANGED, block_changed(block.tool, "unblocked", by="flytui grants"))
        if book.unblock(block.tool) is None:
            note("not unblocked: it was not blocked any more, or the list could not be written")
            return EXIT_REFUSED
    note(f"unblocked: {block.tool}")
    return 0


def _may_loosen(words: str, *, running: bool) -> bool:
    """Whether a person at a terminal agrees that more is let through; where a kernel runs, its console is
    the place to say so."""
    if running:
        note(f"without {words} more is let through, so that is done in the console: {IN_CONSOLE}")
        return False
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        note(f"without {words} more is let through: run this on a terminal, or open the console")
        return False
    note(f"Without {words} more is let through.")
    click.echo("Take it away? y/N ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
