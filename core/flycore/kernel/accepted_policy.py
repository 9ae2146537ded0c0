"""The policy that counts in one kernel: the user's, the project's, and that of the bundles that the user
applied. What the files hold beyond that and lets more through, waits.

Any program of the user can write these files. So a looser rule counts only if a console of this kernel wrote
it, if a person accepts it, or from the next start of a kernel, which logs it.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

import msgspec

from flycore.audit import events as audit_events
from flycore.model.json import JsonObject
from flycore.policy.evaluate import Policy
from flycore.policy.files import PolicyFile
from flycore.policy.looser_rules import KeyedRules, LooserRules, find_looser_rules, keyed, rule_key
from flycore.policy.rules import Rule, RuleLayer
from flycore.store.json_store import Store

MAX_BYTES = 8_388_608
_LogLines = tuple[tuple[str, JsonObject], ...]


class AcceptedPolicy:
    """The rules that count in one kernel. `apply` is not for two threads at once; the notes are."""

    def __init__(self, path: Path, policy: Policy) -> None:
        """`policy` is what the files held at the start; all of it counts. `path` is where the accepted rules
        are kept for the next kernel."""
        self._store = _rules_store(path)
        self._stored: KeyedRules | None = None
        """The rules in the file, once this object keeps it."""
        layer = _user_layer(policy)
        self._usable = layer is not None and layer.ok
        self._accepted: dict[str, Rule] = {}
        if layer is not None and layer.ok:
            self._accepted = keyed((*layer.rules, *self._further_rules(policy)))
        self.waiting = LooserRules()
        self._lines: list[tuple[str, JsonObject]] = []
        self._logged: frozenset[str] = frozenset()
        """The keys of the waiting rules that the log has."""
        self._lock = Lock()
        self._reads = 0
        self._written: dict[str, int] = {}
        """The key of each rule that a console wrote, and how many reads had begun by then."""
        self._removed: dict[str, int] = {}

    # The notes of a console's own changes are made on the event loop, directly after the file was changed. A
    # read in another thread that began before may have seen either version, so a note holds until one that
    # began after it.

    def begin_read(self) -> None:
        """Count a read of the files. Call it before they are read."""
        with self._lock:
            self._reads += 1

    def note_written(self, key: str) -> None:
        """Note that a console wrote that rule into the file."""
        with self._lock:
            self._written[key] = self._reads
            self._removed.pop(key, None)

    def note_removed(self, key: str) -> None:
        """Note that a console removed that rule from the file."""
        with self._lock:
            self._removed[key] = self._reads
            self._written.pop(key, None)

    def take_lines(self) -> _LogLines:
        """Return the log lines that are due."""
        lines, self._lines = tuple(self._lines), []
        return lines

    def start(self) -> None:
        """Compare the accepted rules with those that the last kernel left, and keep them from now on.

        What lets more through than then counts, and a log line says so.
        """
        stored = keyed(self._store.value or ())
        # Without a file, this is the first start in this root.
        if self._store.value is not None or self._store.why_unread:
            now = tuple(self._accepted.values())
            found = find_looser_rules(stored, now) if self._usable else LooserRules()
            self._log(found, "counts since this start", "removed, counts since this start")
        self._stored = stored
        if self._usable:
            self._keep()

    def apply(self, read: Policy) -> Policy:
        """Return the policy that counts where the files hold `read`. Sets `waiting`."""
        layer = _user_layer(read)
        if layer is None:
            return read
        further = self._further_rules(read)
        self.waiting = self._find((*layer.rules, *further))
        waits = keyed(self.waiting.added)
        rules = (
            *(rule for rule in layer.rules if rule_key(rule) not in waits),
            *self.waiting.removed,
        )
        self._remember(layer, (*rules, *further))
        self._log_waiting()
        held = msgspec.structs.replace(layer, rules=rules)
        layers = tuple(held if item is layer else item for item in read.layers)
        return msgspec.structs.replace(read, layers=layers) if self.waiting.key else read

    def accept(self, read: Policy, shown: str, by: str) -> bool:
        """Accept the changes with that key, if they are what waits in the files now."""
        layer = _user_layer(read)
        own = (*layer.rules, *self._further_rules(read)) if layer is not None else ()
        found = self._find(own) if layer is not None else LooserRules()
        if layer is None or not shown or found.key != shown:
            return False
        self._log(found, "accepted", "removal accepted", by)
        self._accepted = keyed(own)
        self._keep()
        return True

    def _find(self, rules: tuple[Rule, ...]) -> LooserRules:
        with self._lock:
            written, removed = frozenset(self._written), frozenset(self._removed)
        found = find_looser_rules(self._accepted, rules)
        return LooserRules(
            added=tuple(rule for rule in found.added if rule_key(rule) not in written),
            removed=tuple(rule for rule in found.removed if rule_key(rule) not in removed),
        )

    def _further_rules(self, policy: Policy) -> tuple[Rule, ...]:
        """The rules of the project and of bundles, which only make the policy stricter."""
        found: list[Rule] = []
        for layer in policy.layers:
            if layer.source.only_tightens:
                # A file that cannot be used has its last good rules, or one that asks for everything until
                # the file is mended: that one is nobody's, and cannot be lost.
                found += [rule for rule in layer.rules if layer.ok or rule_key(rule) in self._accepted]
        return tuple(found)

    def _remember(self, layer: PolicyFile, rules: tuple[Rule, ...]) -> None:
        # The rules of a file that cannot be used say nothing of what the person wants. Those of a file that
        # is gone are revoked: what allows is asked about when it returns.
        if layer.ok:
            self._accepted = keyed(rules)
            self._keep()
            with self._lock:
                self._written = {key: at for key, at in self._written.items() if at >= self._reads}
                self._removed = {key: at for key, at in self._removed.items() if at >= self._reads}

    def _log_waiting(self) -> None:
        added, removed = keyed(self.waiting.added), keyed(self.waiting.removed)
        new = LooserRules(
            tuple(rule for key, rule in added.items() if key not in self._logged),
            tuple(rule for key, rule in removed.items() if key not in self._logged),
        )
        self._logged = frozenset((*added, *removed))
        self._log(new, "waits", "removal waits")

    def _log(self, found: LooserRules, added: str, removed: str, by: str = "") -> None:
        for rules, decision in ((found.added, added), (found.removed, removed)):
            for rule in rules[: audit_events.MOST_NAMES]:
                fields = audit_events.rule_changed(rule.place, _fields(rule), decision, by=by)
                self._lines.append((audit_events.RULE_CHANGED, fields))

    def _keep(self) -> None:
        """Keep the accepted rules for the next kernel."""
        if self._stored is None or self._stored.keys() == self._accepted.keys():
            return
        # If it cannot be written, the next kernel logs rules that it need not log, which does no harm.
        if not self._store.replace(tuple(self._accepted.values())):
            self._stored = self._accepted


def forget_rule(path: Path, key: str) -> None:
    """Remove a rule from those that the last kernel left in the file at `path`, because its removal has been
    logged: the next kernel must not log it once more."""
    # If it cannot be read or written, the next kernel logs a removal that it need not log.
    store = _rules_store(path)
    stored = keyed(store.value or ())
    if key in stored:
        store.replace(tuple(rule for at, rule in stored.items() if at != key))


def _user_layer(policy: Policy) -> PolicyFile | None:
    return next((layer for layer in policy.layers if layer.source is RuleLayer.USER), None)


def _rules_store(path: Path) -> Store[tuple[Rule, ...] | None]:
    """Return the store of the rules that the last kernel left; its value is None if there is no file."""
    return Store[tuple[Rule, ...] | None](path, tuple[Rule, ...], None, MAX_BYTES)


def _fields(rule: Rule) -> JsonObject:
    fields: JsonObject = {"tool": rule.tool, "decision": rule.decision.value, "because": rule.because}
    if rule.caller:
        fields["caller"] = rule.caller
    if rule.when is not None:
        fields["when"] = rule.when
    return fields
