"""Adds and removes single rules in a policy file that a person keeps; nothing else in the file changes.

A rule is inserted into the text, the result is parsed and compared with what it has to say, and only then
does it replace the file. Where anything is in doubt, nothing is written.
"""

from __future__ import annotations

import errno
import os
import stat
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import NamedTuple

from flycore.model.approval import ApprovalRequest, RuleTerms, StandingRule
from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Decision, Risk
from flycore.model.json import Json, JsonObject, canonical_json, digest
from flycore.policy.conditions import matches
from flycore.policy.default_decision import NOT_RULES
from flycore.policy.files import MAX_BYTES, SCHEMA_VERSION, PolicyFile, read_policy
from flycore.policy.looser_rules import rule_key
from flycore.policy.rules import Rule, RuleLayer
from flycore.registry.jsonc.edit import edited, insert_last, remove
from flycore.registry.jsonc.parse import read_jsonc
from flysafe.atomic import write_atomic
from flysafe.beneath import read_beneath

NEW_FILE = f'{{\n  "schemaVersion": {SCHEMA_VERSION},\n  "rules": [\n  ]\n}}\n'
ONE_LINE = 100
"""A rule of at most this many characters is written in one line."""
_NAMES: frozenset[str] = frozenset()


class AppendResult(Value, frozen=True, kw_only=True):
    """Whether the rule was written; `why_not` says why it was not."""

    written: bool
    why_not: str = ""
    where: str = ""
    """`file:line` of the rule."""
    key: str = ""
    """The key of the rule, as `flycore.policy.looser_rules` makes it."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """The faults of the rule where it was not written, and warnings about it where it was."""


def append_rule(path: Path, rule: JsonObject, *, names: frozenset[str] = _NAMES) -> AppendResult:
    """Add `rule` as the last one of the policy file at `path`, which is created where it is absent.

    The rule's own `match` examples are checked first; whoever writes a rule for a call gives that call as an
    example. Nothing is written where the file does not parse, is a link, changes meanwhile or cannot be
    written. Never raises for any of these.
    """
    try:
        text, mode = read_present(path)
        before, _ = read_policy(text.encode("utf-8"), RuleLayer.USER, str(path), names)
        if not before.ok:
            return _not_appended("the policy file does not parse: correct it first (see flytui policy check)")
        new = _with_rule(text, rule)
        if new is None:
            return _not_appended("the rule cannot be added to this file without changing something else")
        if len(new.encode("utf-8")) > MAX_BYTES:
            return _not_appended(f"the policy file would be larger than {MAX_BYTES} bytes")
        after, found = read_policy(new.encode("utf-8"), RuleLayer.USER, str(path), names)
        return _check_rule(path, text, new, mode, before, after, found)
    except OSError as error:
        return _not_appended(f"{path} cannot be written: {error.strerror or error}")
    except (ValueError, TypeError, RecursionError) as error:
        return _not_appended(f"the rule is not JSON, or the file is not UTF-8: {error}")


def _check_rule(
    path: Path,
    text: str,
    new: str,
    mode: int,
    before: PolicyFile,
    after: PolicyFile,
    found: tuple[Diagnostic, ...],
) -> AppendResult:
    """Write the new text if it holds exactly the old rules and the new one, and the new one is in force."""
    count = len(_rules_of(new)) - 1
    pointer = f"/rules/{count}"
    mine = tuple(item for item in found if f"{item.pointer}/".startswith(f"{pointer}/"))
    if any(item.severity is Severity.ERROR for item in mine):
        message = "; ".join(item.message for item in mine if item.severity is Severity.ERROR)
        return AppendResult(written=False, why_not=f"the rule would not work: {message}", diagnostics=mine)
    if not after.ok or len(after.rules) != len(before.rules) + 1:
        return _not_appended("with the rule in it, the file would not be read as you mean it")
    if [rule.digest_value() for rule in after.rules[:-1]] != [rule.digest_value() for rule in before.rules]:
        return _not_appended("another rule of the file would change")
    replace_text(path, text, new, mode)
    rule = after.rules[-1]
    return AppendResult(written=True, where=rule.place, key=rule_key(rule), diagnostics=mine)


def replace_text(path: Path, text: str, new: str, mode: int) -> None:
    """Replace the file's text, if it is still `text`, by `new`. Raises OSError where it is not, or where the
    file holds something else afterwards."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # An editor may have the file open: it is read once more before it is replaced, and once after.
    if read_present(path)[0] != text:
        raise OSError(errno.EBUSY, "it was changed meanwhile: try again")
    write_atomic(path, new.encode("utf-8"), mode)
    if read_present(path)[0] != new:
        raise OSError(errno.EIO, "another program changed it at once: look at what is in it")


def read_present(path: Path) -> tuple[str, int]:
    """Return the file's text and mode, or those of a new file where there is none. Raises OSError and
    UnicodeError."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return NEW_FILE, 0o600
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "it is a link: edit the file that it leads to")
    text = read_beneath(path.parent, path.name, MAX_BYTES).decode("utf-8")
    return text, stat.S_IMODE(status.st_mode)


def _with_rule(text: str, rule: JsonObject) -> str | None:
    """Return the text with the rule inserted; None where no insertion gives exactly the old rules and the new
    one."""
    value, index, problems = read_jsonc(text, "")
    rules = value.get("rules") if isinstance(value, dict) else None
    if index is None or not isinstance(value, dict) or not isinstance(rules, list):
        return None
    if any(item.severity is Severity.ERROR for item in problems):
        return None
    changes = insert_last(index, "/rules", rule, one_line=ONE_LINE)
    return edited(text, changes, {**value, "rules": [*rules, rule]})


def _rules_of(text: str) -> list[Json]:
    value, _, _ = read_jsonc(text, "")
    rules = value.get("rules") if isinstance(value, dict) else None
    return rules if isinstance(rules, list) else []


def _not_appended(why: str) -> AppendResult:
    return AppendResult(written=False, why_not=why)


# Listing and removing rules. A rule is named by its place and its digest, as it was shown to the person.
# Where another rule is at that place by now, or it was changed, nothing is removed.


class RemoveResult(NamedTuple):
    """A rule that was removed, with the texts that restoring it needs; or why none was."""

    why_not: str = ""
    rule: JsonObject | None = None
    before: str = ""
    after: str = ""


class _RulePosition(NamedTuple):
    value: Json
    where: str
    line: int
    column: int


def read_rules(path: Path, *, names: frozenset[str] = _NAMES) -> tuple[StandingRule, ...]:
    """Return every rule of the file, in its order; none where the file is absent or does not parse."""
    try:
        text, _ = read_present(path)
    except (OSError, UnicodeError):
        return ()
    file, _ = read_policy(text.encode("utf-8"), RuleLayer.USER, str(path), names)
    if not file.ok:
        return ()
    in_force = {(rule.line, rule.column): rule for rule in file.rules}
    return tuple(
        _user_rule(place, in_force.get((place.line, place.column))) for place in _rule_positions(path, text)
    )


def remove_rule(path: Path, where: str, shown: str) -> RemoveResult:
    """Remove the rule at `where` (`file:line`), if its digest is `shown`. Everything else in the file,
    comments included, stays as it is."""
    try:
        text, mode = read_present(path)
        places = _rule_positions(path, text)
        at = next(
            (
                index
                for index, place in enumerate(places)
                if place.where == where and digest(place.value) == shown
            ),
            None,
        )
        if at is None:
            return RemoveResult(
                "the rule has changed or moved since it was shown to you: look at the list again"
            )
        found = places[at].value
        new = _without(path, text, at)
        if new is None or not isinstance(found, dict):
            return RemoveResult("the rule cannot be removed without changing something else: edit the file")
        replace_text(path, text, new, mode)
    except OSError as error:
        return RemoveResult(f"{path} cannot be written: {error.strerror or error}")
    except (ValueError, RecursionError) as error:
        return RemoveResult(f"the policy file cannot be read: {error}")
    return RemoveResult(rule=found, before=text, after=new)


def restore_rule(path: Path, removed: RemoveResult) -> str:
    """Undo a removal. Where the file is as the removal left it, its former text is written; else the rule is
    added as the last one. Returns why that failed, or an empty text."""
    try:
        text, mode = read_present(path)
        if text == removed.after:
            replace_text(path, text, removed.before, mode)
            return ""
    except (OSError, UnicodeError) as error:
        return f"{path} cannot be written: {error}"
    return append_rule(path, removed.rule or {}).why_not


def _user_rule(place: _RulePosition, rule: Rule | None) -> StandingRule:
    raw = place.value if isinstance(place.value, dict) else {}
    if rule is None:
        note = "faulty, so it has no effect: flytui policy check says why"
    elif rule.decision.value != raw.get("decision"):
        note = "faulty, so it asks: flytui policy check says why"
    else:
        note = ""
    when = raw.get("when")
    return StandingRule(
        where=place.where,
        digest=digest(place.value),
        tool=str(raw.get("tool", "")),
        decision=str(raw.get("decision", "")),
        because=str(raw.get("because", "")),
        caller=str(raw.get("caller", "")),
        entry=str(raw.get("entry", "")),
        when=when if isinstance(when, dict) else None,
        expires=rule.expires if rule is not None else None,
        note=note,
    )


def _rule_positions(path: Path, text: str) -> tuple[_RulePosition, ...]:
    value, index, _ = read_jsonc(text, str(path))
    rules = value.get("rules") if isinstance(value, dict) else None
    if index is None or not isinstance(rules, list):
        return ()
    found: list[_RulePosition] = []
    for number, item in enumerate(rules):
        span = index.value(f"/rules/{number}")
        if span is not None:
            line, column = index.position(span.start)
            found.append(_RulePosition(item, f"{path}:{line}", line, column))
    return tuple(found)


def _without(path: Path, text: str, at: int) -> str | None:
    """Return the text without the rule at that index; None where no cut leaves exactly the others."""
    value, index, _ = read_jsonc(text, str(path))
    rules = value.get("rules") if isinstance(value, dict) else None
    if index is None or not isinstance(value, dict) or not isinstance(rules, list):
        return None
    remaining: JsonObject = {**value, "rules": [*rules[:at], *rules[at + 1 :]]}
    new = edited(text, remove(index, f"/rules/{at}"), remaining)
    problems = read_jsonc(new, str(path))[2] if new is not None else ()
    return None if any(item.severity is Severity.ERROR for item in problems) else new


# The rule that a person makes of one request. It carries that call as its `match` example, so a rule that
# would not match the call is refused. So is one that would change nothing, because a stricter rule wins.


MAX_EXAMPLE_BYTES = 65_536


def rule_fault(request: ApprovalRequest, terms: RuleTerms) -> str:
    """Return why these terms make no rule for that request, as far as that is known before it is written."""
    if not matches(terms.tool, request.tool):
        return f"the rule is for {terms.tool!r}, and this call is of {request.tool!r}: it would not match"
    if terms.caller and request.caller.is_sidecar:
        return "no rule for a caller covers a sidecar that calls a tool itself"
    # The example of a rule with a condition quotes the input into a plain file.
    if terms.when is not None and request.input_json != canonical_json(request.subject.input):
        return "the input holds a secret, which the example of a rule with a condition would write down"
    if terms.when is not None and len(request.input_json) > MAX_EXAMPLE_BYTES:
        return "the input is too large to be the example of a rule with a condition"
    if terms.decision is not Decision.ALLOW:
        return ""
    if request.risk is Risk.CRITICAL:
        return "each call of critical risk is asked"
    if request.partial or not all(seal.leasable for seal in request.seals):
        why = request.partial or "a change of it would not be noticed"
        return f"the rule would change nothing, because its seal is partial ({why}) and each call is asked"
    stricter = [
        rule for rule in request.why if rule.where not in NOT_RULES and rule.decision is not Decision.ALLOW
    ]
    if stricter:
        named = ", ".join(f"{rule.where} ({rule.decision.value})" for rule in stricter)
        return f"the rule would change nothing, because a stricter one wins: {named}"
    return ""


def write_rule(
    path: Path, request: ApprovalRequest, terms: RuleTerms, *, names: frozenset[str], now: float
) -> AppendResult:
    """Write the rule of these terms into the policy file at `path`. `now` is Unix time in seconds. A rule
    that is refused leaves the file as it was, and the result says why."""
    try:
        expires = expiry_of(terms.expires)
    except (ValueError, OverflowError):
        return AppendResult(written=False, why_not="the rule's last day is not a date: write YYYY-MM-DD")
    if expires is not None and expires.timestamp() <= now:
        return AppendResult(written=False, why_not="the rule's last day is over")
    rule: JsonObject = {"tool": terms.tool}
    example: JsonObject = {"tool": request.tool}
    if terms.caller:
        rule["caller"] = terms.caller
        example["caller"] = request.caller.executable or request.caller.program
    if request.origin and terms.decision is Decision.ALLOW:
        # Another program that takes the tool's name must not inherit what was said of this one.
        rule["entry"] = request.origin
    if terms.when is not None:
        rule["when"] = terms.when
        example["input"] = request.subject.input
    rule |= {"decision": terms.decision.value, "because": terms.because, "match": [example]}
    if expires is not None:
        rule["expires"] = expires.isoformat()
    return append_rule(path, rule, names=names)


def expiry_of(day: str) -> datetime | None:
    """Return the moment at which the day ends in this machine's time zone; None for an empty text. Raises
    ValueError and OverflowError."""
    if not day:
        return None
    return datetime.combine(date.fromisoformat(day) + timedelta(days=1), time.min).astimezone()
