"""Writing one more rule into a policy file that a person keeps: nothing else in it changes.

The rule is inserted into the text, the result is read back and compared with what it has to say, and only
then does it replace the file. Whatever is in doubt is refused, and nothing is written.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.json import Json, JsonObject
from flycore.policy.files import MAX_BYTES, SCHEMA_VERSION, PolicyFile, read_policy
from flycore.policy.rules import RuleLayer
from flycore.registry.jsonc.edit import edited, insert_last
from flycore.registry.jsonc.parse import read_jsonc
from flysafe.atomic import write_atomic
from flysafe.beneath import read_beneath

NEW_FILE = f'{{\n  "schemaVersion": {SCHEMA_VERSION},\n  "rules": [\n  ]\n}}\n'
ONE_LINE = 100
"""Characters of a rule that is written in one line."""
_NAMES: frozenset[str] = frozenset()


class AppendResult(Value, frozen=True, kw_only=True):
    """Whether the rule stands in the file now. `why_not` says why it does not."""

    written: bool
    why_not: str = ""
    where: str = ""
    """`file:line` of the rule."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """What is wrong with the rule where it was refused; doubts about it where it was written."""


def append_rule(path: Path, rule: JsonObject, *, names: frozenset[str] = _NAMES) -> AppendResult:
    """Add `rule` as the last one of the policy file at `path`, which is made where there is none.

    The rule's own `match` examples are checked before anything is written, so whoever writes a rule for a
    call puts that call there. Refused where the file as it stands does not parse, is a link, changes
    meanwhile, or could not be written. Never raises for any of these.
    """
    try:
        text, mode = read_present(path)
        before, _ = read_policy(text.encode("utf-8"), RuleLayer.USER, str(path), names)
        if not before.ok:
            return _not_appended("the policy file does not parse: mend it first (flytui policy check)")
        new = _with_rule(text, rule)
        if new is None:
            return _not_appended("the rule cannot be put into this file without changing something else")
        if len(new.encode("utf-8")) > MAX_BYTES:
            return _not_appended(f"the policy file would be larger than {MAX_BYTES} bytes")
        after, found = read_policy(new.encode("utf-8"), RuleLayer.USER, str(path), names)
        return _check_rule(path, text, new, mode, before, after, found)
    except OSError as error:
        return _not_appended(f"{path} cannot be written: {error.strerror or error}")
    except (ValueError, TypeError, RecursionError) as error:
        return _not_appended(f"the rule is no JSON, or the file is not UTF-8: {error}")


def _check_rule(
    path: Path,
    text: str,
    new: str,
    mode: int,
    before: PolicyFile,
    after: PolicyFile,
    found: tuple[Diagnostic, ...],
) -> AppendResult:
    """Write where the new file says what the old one said and the rule, in force as it is meant."""
    count = len(_rules_of(new)) - 1
    pointer = f"/rules/{count}"
    mine = tuple(item for item in found if f"{item.pointer}/".startswith(f"{pointer}/"))
    if any(item.severity is Severity.ERROR for item in mine):
        message = "; ".join(item.message for item in mine if item.severity is Severity.ERROR)
        return AppendResult(written=False, why_not=f"the rule would not hold: {message}", diagnostics=mine)
    if not after.ok or len(after.rules) != len(before.rules) + 1:
        return _not_appended("the file with the rule in it would not be read as it is meant")
    if [rule.digest_value() for rule in after.rules[:-1]] != [rule.digest_value() for rule in before.rules]:
        return _not_appended("another rule of the file would change")
    replace(path, text, new, mode)
    return AppendResult(written=True, where=after.rules[-1].place, diagnostics=mine)


def replace(path: Path, text: str, new: str, mode: int) -> None:
    """Replace what is still the old text by the new, and look whether it is there. OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if read_present(path)[0] != text:
        raise OSError(errno.EBUSY, "it was changed meanwhile; try again")
    write_atomic(path, new.encode("utf-8"), mode)
    if read_present(path)[0] != new:
        raise OSError(errno.EIO, "it was changed at once; look what is in it")


def read_present(path: Path) -> tuple[str, int]:
    """The file's text and mode; those of an empty one where there is none. OSError, UnicodeError."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return NEW_FILE, 0o600
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "it is a link: put the rule into the file it leads to")
    text = read_beneath(path.parent, path.name, MAX_BYTES).decode("utf-8")
    return text, stat.S_IMODE(status.st_mode)


def _with_rule(text: str, rule: JsonObject) -> str | None:
    """The text with the rule inserted; None where no insertion gives exactly the old value and the rule."""
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
