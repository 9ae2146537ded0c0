"""`flytui bundle`: makes, verifies and applies signed bundles of a team's entries, policy and kits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from flycore.model.approval import Outcome
from flycore.model.errors import BundleRefused
from flycore.offline.bundle_signature import create_key, fingerprint
from flycore.offline.bundles import (
    CHANGED,
    Bundle,
    BundlePlan,
    Standing,
    applied_bundles,
    apply_bundle,
    forget_key,
    is_key_of,
    make_bundle,
    plan_bundle,
    removal_changes,
    remove_bundle,
    trust_key,
    trusted_keys,
)
from flytui.cli.bundle_documents import BundleDocument, BundlesDocument, ListedBundle, ListedKey
from flytui.cli.command_group import SummaryGroup
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import (
    ask_yes_no,
    can_ask,
    print_error,
    print_json,
    print_line,
    print_strict,
    print_table,
)
from flytui.text.kernels import clock_time

EXIT_NOT_ASKED = 4
EXIT_REFUSED = 5
FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=SummaryGroup, invoke_without_command=True)
@common
def bundle(invocation: Invocation) -> int:
    """List, make, verify or apply signed bundles of a team.

    A bundle is one file with registry entries, policy and kits. It is applied for you, below your own files:
    its policy may only make things stricter, and its entries wait for trust like any others.
    """
    if click.get_current_context().invoked_subcommand is None:
        return _list_bundles(invocation)
    return 0


@bundle.command("list")
@common
def list_command(invocation: Invocation) -> int:
    """List the applied bundles and the keys that you trust."""
    return _list_bundles(invocation)


@bundle.command("key")
@click.argument("file", type=FILE)
@common
def key(invocation: Invocation, file: Path) -> int:
    """Make a private key for signing bundles, in the new file FILE, which only you can read.

    Tell your team the fingerprint that is printed by another way than the bundles take.
    """
    try:
        made = fingerprint(create_key(file))
    except BundleRefused as error:
        return _print_refusal(invocation, str(error))
    message = f"{file} holds the private key: keep it to yourself"
    if invocation.as_json:
        _print_document(outcome="key-made", fingerprint=made, message=message)
        return 0
    print_line(f"fingerprint {made}")
    print_line(message)
    return 0


@bundle.command("make")
@click.argument("out", type=FILE)
@click.option("--name", required=True, metavar="NAME", help="Name of the bundle: a-z 0-9 . _ -")
@click.option(
    "--number", required=True, type=int, metavar="N", help="Number, higher than that of the last one."
)
@click.option("--key", "key_file", required=True, type=FILE, help="Private key that signs it.")
@click.option("--registry", type=FILE, help="Registry with the entries.")
@click.option("--policy", type=FILE, help="Policy, without any allow.")
@click.option("--kits", type=FILE, help="Kits.")
@common
def make(
    invocation: Invocation,
    out: Path,
    name: str,
    number: int,
    key_file: Path,
    registry: Path | None,
    policy: Path | None,
    kits: Path | None,
) -> int:
    """Make the signed bundle OUT of a registry, a policy, kits, or some of them."""
    parts = {"registry": registry, "policy": policy, "kits": kits}
    named = {part: path.absolute() for part, path in parts.items() if path is not None}
    try:
        made = make_bundle(name, number, named, key_file, out.absolute())
    except BundleRefused as error:
        return _print_refusal(invocation, str(error))
    message = f"{out} is made: bundle {made.name}, number {made.number}"
    if invocation.as_json:
        _print_document(outcome="made", message=message, **_facts(made))
        return 0
    print_line(message)
    print_line(f"signed by  {fingerprint(made.key)}")
    print_line(f"digest     {made.digest}")
    return 0


@bundle.command("verify")
@click.argument("file", type=FILE)
@common
def verify(invocation: Invocation, file: Path) -> int:
    """Show who signed the bundle FILE, what is in it, and what applying it would change.

    The exit code is 0 only if the signature is good and you trust the key.
    """
    try:
        plan = plan_bundle(invocation.places().config_dir, file.absolute())
    except BundleRefused as error:
        return _print_refusal(invocation, str(error))
    code = 0 if plan.key_trusted else EXIT_NOT_ASKED
    if invocation.as_json:
        _print_plan_document(plan, "shown", "")
        return code
    _print_plan(plan)
    print_line(f"digest {plan.bundle.digest}")
    return code


@bundle.command("apply")
@click.argument("file", type=FILE)
@click.option("--digest", metavar="HEX", help="Apply it without asking if it has this digest.")
@click.option("--key", "fingerprint", metavar="HEX", help="Trust its key if it has this fingerprint.")
@click.option("--older", is_flag=True, help="With --digest: also one that does not follow the applied one.")
@common
def apply(
    invocation: Invocation, file: Path, digest: str | None, fingerprint: str | None, older: bool
) -> int:
    """Show what the bundle FILE would change, and apply it after you agreed.

    A key that you do not trust yet is asked about once, with its fingerprint. A bundle that does not follow
    the applied one, such as an older one, is said to be so.
    """
    config = invocation.places().config_dir
    try:
        plan = plan_bundle(config, file.absolute())
        if not invocation.as_json:
            _print_plan(plan)
        if plan.standing is Standing.SAME and plan.key_trusted:
            return _print_outcome(invocation, plan, "applied", "exactly this bundle is applied already", 0)
        refusal = _why_not_unasked(
            plan, digest, fingerprint, older, asks=not invocation.as_json and can_ask()
        )
        if refusal:
            return _print_outcome(invocation, plan, "shown", refusal, EXIT_NOT_ASKED)
        if not plan.key_trusted:
            named = fingerprint is not None and is_key_of(plan.bundle, fingerprint)
            question = "Is this the fingerprint that your team told you, and do you trust this key?"
            if not named and not ask_yes_no(question):
                message = "not applied: the key is not trusted"
                return _print_outcome(invocation, plan, "shown", message, EXIT_NOT_ASKED)
            trusted = trust_key(config, plan.bundle)
            if not trusted.accepted:
                return _print_outcome(invocation, plan, "refused", trusted.why_not, EXIT_REFUSED)
        if digest is None and not ask_yes_no(_apply_question(plan)):
            return _print_outcome(invocation, plan, "shown", "not applied", EXIT_NOT_ASKED)
        return _apply_shown(invocation, plan, config, file)
    except BundleRefused as error:
        return _print_refusal(invocation, str(error))


@bundle.command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common
def remove(invocation: Invocation, name: str, yes: bool) -> int:
    """Remove the applied bundle NAME after showing what that changes."""
    config = invocation.places().config_dir
    try:
        changes = removal_changes(config, name)
        if not invocation.as_json:
            _print_lines(changes)
        if changes and not yes:
            if invocation.as_json or not can_ask():
                return _print_refusal(
                    invocation, "not removed: run it on a terminal, or add --yes", EXIT_NOT_ASKED
                )
            if not ask_yes_no(f"Remove the bundle {name}?"):
                return _print_refusal(invocation, "not removed", EXIT_NOT_ASKED)
        outcome = remove_bundle(config, name)
    except BundleRefused as error:
        return _print_refusal(invocation, str(error))
    return _print_change(invocation, outcome, "removed", f"the bundle {name} is removed", name, changes)


@bundle.command("forget")
@click.argument("fingerprint")
@common
def forget(invocation: Invocation, fingerprint: str) -> int:
    """Trust the key with this FINGERPRINT no longer.

    What it signed stays applied until you remove it.
    """
    outcome = forget_key(invocation.places().config_dir, fingerprint)
    return _print_change(invocation, outcome, "key-forgotten", "the key is no longer trusted", "", ())


def _why_not_unasked(
    plan: BundlePlan, digest: str | None, fingerprint: str | None, older: bool, *, asks: bool
) -> str:
    """Return why a command that cannot ask, or that names what it wants, does not go on."""
    if digest is not None and plan.bundle.digest != digest.lower():
        return CHANGED
    if fingerprint is not None and not is_key_of(plan.bundle, fingerprint):
        return "not applied: another key than the one named signed it"
    if digest is not None and not plan.standing.is_expected and not older:
        return f"not applied: {_standing_text(plan)}; --older applies it all the same"
    if asks:
        return ""
    if digest is None:
        return "not applied: run it on a terminal, or add --digest with the digest shown"
    if not plan.key_trusted and fingerprint is None:
        return "not applied: nobody trusts its key; run it on a terminal, or add --key with its fingerprint"
    return ""


def _apply_shown(invocation: Invocation, plan: BundlePlan, config: Path, file: Path) -> int:
    outcome = apply_bundle(config, file.absolute(), plan.bundle.digest)
    if not outcome.accepted:
        return _print_outcome(invocation, plan, "refused", outcome.why_not, EXIT_REFUSED)
    message = f"bundle {plan.bundle.name}, number {plan.bundle.number}, is applied"
    if plan.bundle.part("registry") is not None:
        message += "; flytui trust shows its entries in each project, and lets you trust them"
    return _print_outcome(invocation, plan, "applied", message, 0)


def _standing_text(plan: BundlePlan) -> str:
    """What is unusual about the bundle, compared with the applied one; empty where nothing is."""
    number, applied = plan.bundle.number, plan.applied_number
    return {
        Standing.OLDER: f"it is OLDER: number {number}, and number {applied} is applied",
        Standing.OTHER: f"it has the same number {number} as the applied one, and another content",
        Standing.FOREIGN: f"it is signed by ANOTHER KEY than the applied bundle {plan.bundle.name}",
    }.get(plan.standing, "")


def _apply_question(plan: BundlePlan) -> str:
    unusual = _standing_text(plan)
    return f"Apply it, although {unusual}?" if unusual else "Apply it?"


def _print_plan(plan: BundlePlan) -> None:
    applied = f", and number {plan.applied_number} is applied" if plan.applied_number is not None else ""
    print_strict(f"bundle     {plan.bundle.name}, number {plan.bundle.number}{applied}")
    print_line(f"signed by  {plan.fingerprint}")
    print_line(f"key        {'trusted' if plan.key_trusted else 'NOT TRUSTED yet'}")
    unusual = _standing_text(plan)
    if unusual:
        print_strict(f"ATTENTION  {unusual}")
    _print_lines(plan.changes or ("nothing changes",))


def _print_lines(lines: Iterable[str]) -> None:
    # Each on one line: the texts in a bundle must not look like lines of flytui's own.
    for line in lines:
        print_strict(line, indented=True, one_line=True)


def _list_bundles(invocation: Invocation) -> int:
    config = invocation.places().config_dir
    try:
        applied = applied_bundles(config)
    except BundleRefused as error:
        return _print_refusal(invocation, str(error))
    keys = trusted_keys(config)
    trusted = {one.key for one in keys}
    document = BundlesDocument(
        bundles=tuple(
            ListedBundle(
                name=one.name,
                number=one.number,
                fingerprint=fingerprint(one.key),
                key_trusted=one.key in trusted,
            )
            for one in applied
        ),
        keys=tuple(ListedKey(fingerprint=fingerprint(one.key), name=one.name, at=one.at) for one in keys),
    )
    if invocation.as_json:
        print_json(document)
        return 0
    if not applied and not keys:
        print_line("no bundle is applied, and no key is trusted")
        return 0
    rows = [(one.name, str(one.number), one.fingerprint) for one in document.bundles]
    print_table(invocation, ("BUNDLE", "NUMBER", "SIGNED BY"), rows)
    print_table(
        invocation,
        ("KEY OF", "SINCE", "FINGERPRINT"),
        [(one.name, clock_time(one.at), one.fingerprint) for one in document.keys],
    )
    return 0


def _facts(made: Bundle) -> dict[str, Any]:
    return {
        "name": made.name,
        "number": made.number,
        "fingerprint": fingerprint(made.key),
        "digest": made.digest,
    }


def _print_document(**fields: Any) -> None:
    print_json(BundleDocument(**fields))


def _print_plan_document(plan: BundlePlan, outcome: str, message: str) -> None:
    _print_document(
        **_facts(plan.bundle),
        key_trusted=plan.key_trusted,
        standing=plan.standing.value,
        applied_number=plan.applied_number,
        changes=plan.changes,
        outcome=outcome,
        message=message,
    )


def _print_outcome(invocation: Invocation, plan: BundlePlan, outcome: str, message: str, code: int) -> int:
    if invocation.as_json:
        _print_plan_document(plan, outcome, message)
    else:
        (print_error if code else print_line)(message)
    return code


def _print_change(
    invocation: Invocation, outcome: Outcome, word: str, message: str, name: str, changes: tuple[str, ...]
) -> int:
    if not outcome.accepted:
        return _print_refusal(invocation, outcome.why_not)
    if invocation.as_json:
        _print_document(name=name, outcome=word, message=message, changes=changes)
    else:
        print_line(message)
    return 0


def _print_refusal(invocation: Invocation, why: str, code: int = EXIT_REFUSED) -> int:
    if invocation.as_json:
        _print_document(outcome="refused", message=why)
    else:
        print_error(why)
    return code
