"""The query of the catalog's filter: words, `key:value` terms, and `!` for the opposite. Pure.

Example: `state:deg,unav risk:high !sidecar:mock keyboard`. Terms are separated by spaces, and a row has to
meet all of them. A value is the beginning of a word, and a comma means *or*. A word has to occur in the text
of a row, in upper or lower case. A word that occurs in no row matches the rows whose name has its letters in
that order, with others in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from flycore.model.base import Value
from flycore.model.catalog import CapabilityView, SidecarView
from flycore.model.described import Described
from flycore.model.enums import Decision, Effective, ReasonCode, Risk
from flycore.model.stability import Reason, Stability

CHANGED = "changed"
"""The state of a tool whose entry or program is not the one that was trusted."""
MOST_SHARED = 1024
"""How many tuples of words are kept for rows to share."""
LEASE = "lease"
BLOCKED = "blocked"
NONE = "none"
VALUES: dict[str, tuple[str, ...]] = {
    "state": (*(state.value for state in Effective), CHANGED),
    "risk": tuple(risk.value for risk in Risk),
    "policy": (*(decision.value for decision in Decision), LEASE, BLOCKED, NONE),
    "source": ("project", "user", "builtin", "plan", NONE),
    "sidecar": (),
}
"""The keys with the words that a value may be the beginning of. `sidecar` takes the beginning of any id."""


class FilterItem(Value, frozen=True, kw_only=True, gc=False):
    """A tool, or a sidecar without tools, as a query matches it. All text is casefolded. The fields after
    `text` hold the values of each key of `VALUES`."""

    name: str
    text: str
    """All that a word may occur in."""
    state: tuple[str, ...] = ()
    risk: tuple[str, ...] = ()
    policy: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    sidecar: tuple[str, ...] = ()


class Term(msgspec.Struct, frozen=True):
    """One condition of a query. `key` is `""` for a word."""

    key: str
    values: tuple[str, ...]
    inverse: bool = False

    def holds(self, item: FilterItem, *, loosely: bool = False) -> bool:
        """Whether the row meets the condition. With `loosely`, the letters of a word only have to occur in
        the name in that order."""
        if self.key:
            facts: tuple[str, ...] = getattr(item, self.key)
            found = any(fact.startswith(self.values) for fact in facts)
        else:
            word = self.values[0]
            found = in_order(word, item.name) if loosely else word in item.text
        return found is not self.inverse


class Query(msgspec.Struct, frozen=True):
    """A parsed filter line. A term that has a problem is not in `terms`."""

    terms: tuple[Term, ...] = ()
    problems: tuple[str, ...] = ()
    """A sentence for each key or value that does not exist."""

    def matches(self, item: FilterItem) -> bool:
        """Whether the row meets every term. Words have to occur as they are."""
        return all(term.holds(item) for term in self.terms)

    def matching_indices(self, items: Sequence[FilterItem]) -> list[int]:
        """The indices of the rows that match, in order. A word that occurs in no row is matched loosely."""
        left = list(range(len(items)))
        for term in self.terms:
            if term.key or term.inverse:
                left = [at for at in left if term.holds(items[at])]
        found = left
        for term in self.terms:
            if not term.key and not term.inverse:
                found = _rows_having(term, items, left, found)
        return found


def parse_query(text: str) -> Query:
    """Parse a filter line. A key without a value, as it is while the person types, is no condition."""
    terms: list[Term] = []
    problems: list[str] = []
    for token in text.casefold().split():
        inverse = token.startswith("!")
        word = token.removeprefix("!")
        key, colon, value = word.partition(":")
        if not word:
            continue
        if not colon or not key.isalpha():
            terms.append(Term("", (word,), inverse))
        elif key not in VALUES:
            problems.append(f"no key {key}: there are {', '.join(VALUES)}")
        else:
            good, bad = _values(key, [part for part in value.split(",") if part])
            problems += [f"no {key} {part}: there are {', '.join(VALUES[key])}" for part in bad]
            if good:
                terms.append(Term(key, good, inverse))
    return Query(tuple(terms), tuple(problems))


def listed_tool(view: CapabilityView, *, changed: bool = False, leased: bool = False) -> FilterItem:
    """The item of a tool. `changed` says that its entry or program waits for trust again, `leased` that a
    lease covers it."""
    capability, stability = view.capability, view.stability
    policy: tuple[str, ...] = (view.decision or NONE,)
    if is_blocked(stability):
        policy = (BLOCKED, *policy)
    if leased:
        policy = (LEASE, *policy)
    return listed_texts(
        (capability.name, view.sidecar or "", capability.summary),
        stability.effective.value,
        stability.reasons,
        changed=changed,
        risk=capability.risk.value,
        policy=policy,
        source=view.source,
    )


def listed_sidecar(view: SidecarView, *, changed: bool = False) -> FilterItem:
    """The item of a sidecar that offers no tool."""
    names = ("", view.id, "")
    return listed_texts(
        names,
        view.stability.effective.value,
        view.stability.reasons,
        changed=changed,
        risk="",
        policy=(NONE,),
        source=f"registry:{view.entry.source.value}",
    )


def listed_described(item: Described) -> FilterItem:
    """The item of a kit, a skill, a plugin or a server. It matches by words and by source."""
    words = (item.kind.value, item.id, item.name, item.state.value, item.summary, item.path)
    return FilterItem(
        name=item.id.casefold(),
        text=" ".join(words).casefold(),
        policy=(NONE,),
        source=(item.source.value,),
    )


def is_blocked(stability: Stability) -> bool:
    """Whether a person has blocked the tool."""
    reasons = stability.reasons
    return bool(reasons) and any(reason.code is ReasonCode.BLOCKED for reason in reasons)


def in_order(letters: str, name: str) -> bool:
    """Whether the letters occur in the name in this order, with others in between."""
    at = -1
    for letter in letters:
        at = name.find(letter, at + 1)
        if at < 0:
            return False
    return True


def listed_texts(
    names: tuple[str, str, str],
    state: str,
    reasons: Iterable[Reason],
    *,
    changed: bool,
    risk: str,
    policy: tuple[str, ...],
    source: str,
) -> FilterItem:
    """The item of a row with these texts. `names` are those of the tool and of the sidecar, and the
    summary."""
    tool, sidecar, summary = names
    states = (CHANGED, state) if changed else (state,)
    words = [tool, sidecar, *states, summary]
    for reason in reasons:
        words += (reason.code.value, reason.message, reason.remedy)
    name = tool or sidecar
    folded = name.casefold()
    return FilterItem(
        name=name if folded == name else folded,
        text=" ".join(words).casefold(),
        state=_one_of(states),
        risk=_one_of((risk,)),
        policy=_one_of(policy),
        source=_one_of((source.rpartition(":")[2],)),
        sidecar=_one_of((sidecar.casefold(),)),
    )


@lru_cache(maxsize=MOST_SHARED)
def _one_of(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return one object for equal words: thousands of rows have the same risk, policy and sidecar."""
    return words


def _values(key: str, given: Iterable[str]) -> tuple[tuple[str, ...], list[str]]:
    good: list[str] = []
    bad: list[str] = []
    for value in given:
        fits = key == "sidecar" or any(known.startswith(value) for known in VALUES[key])
        (good if fits else bad).append(value)
    return tuple(good), bad


def _rows_having(
    term: Term, items: Sequence[FilterItem], candidates: Sequence[int], left: list[int]
) -> list[int]:
    """Those of `left` with the word, which is looked for loosely where none of `candidates` has it."""
    word = term.values[0]
    found = [at for at in left if word in items[at].text]
    if found or any(word in items[at].text for at in candidates):
        return found
    return [at for at in left if in_order(word, items[at].name)]
