"""What a person looks for in the catalog: words, `key:value` terms, `!` for the opposite. Pure.

`state:deg,unav risk:high !sidecar:mock keyboard`: terms are separated by spaces and must all hold. A value
is the beginning of what it means, a comma says *or*. A word occurs in the text of a row, in whatever case;
one that occurs in no row at all may have its letters in order, but apart, in the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import AnyStr, Generic

from flycore.model.base import Value
from flycore.model.catalog import CapabilityView, SidecarView
from flycore.model.described import Described
from flycore.model.enums import Decision, Effective, ReasonCode, Risk
from flycore.model.stability import Stability

CHANGED = "changed"
"""State of a tool whose entry or program is not the one that was trusted."""
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
"""The keys, and the words a value may begin; `sidecar` takes the beginning of any id."""


class FilterItem(Value, frozen=True, kw_only=True):
    """A tool, or a sidecar that offers none, as a query sees it; everything casefolded. After `text` stands
    what holds for each key of `VALUES`, several words where several do."""

    name: str
    text: str
    """All that a word may occur in."""
    state: tuple[str, ...] = ()
    risk: tuple[str, ...] = ()
    policy: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    sidecar: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """One condition; `key` is `""` for a word."""

    key: str
    values: tuple[str, ...]
    inverse: bool = False

    def holds(self, item: FilterItem, *, loosely: bool = False) -> bool:
        """Whether the row meets it. `loosely`: a word's letters need only follow each other in the name."""
        if self.key:
            facts: tuple[str, ...] = getattr(item, self.key)
            found = any(fact.startswith(self.values) for fact in facts)
        else:
            word = self.values[0]
            found = in_order(word, item.name) if loosely else word in item.text
        return found is not self.inverse


@dataclass(frozen=True, slots=True)
class Query:
    """What `parse_query` read. A term that has a problem is left out of `terms`."""

    terms: tuple[Term, ...] = ()
    problems: tuple[str, ...] = ()
    """Keys and values that there are not, a sentence each, for people."""

    def matches(self, item: FilterItem) -> bool:
        """Whether every term holds, words as they stand."""
        return all(term.holds(item) for term in self.terms)

    def matching_indices(self, items: Sequence[FilterItem]) -> list[int]:
        """Indices of the rows that match, in their order. A word that no row has is looked for loosely."""
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
    """Read a filter line. A key without a value yet, as while it is typed, says nothing."""
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
    """A tool. `changed`: its entry or program waits for trust again; `leased`: a lease holds for it."""
    capability, stability = view.capability, view.stability
    policy: tuple[str, ...] = (view.decision or NONE,)
    if is_blocked(stability):
        policy = (BLOCKED, *policy)
    if leased:
        policy = (LEASE, *policy)
    return _listed(
        (capability.name, view.sidecar or "", capability.summary),
        stability,
        changed,
        risk=capability.risk.value,
        policy=policy,
        source=view.source,
    )


def listed_sidecar(view: SidecarView, *, changed: bool = False) -> FilterItem:
    """A sidecar that offers no tool."""
    names = ("", view.id, "")
    return _listed(
        names, view.stability, changed, risk="", policy=(NONE,), source=f"registry:{view.entry.source.value}"
    )


def listed_described(item: Described) -> FilterItem:
    """A kit, a skill, a plugin or a server: found by words and by whose it is."""
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
    """Whether all letters occur in the name, one after the other."""
    at = -1
    for letter in letters:
        at = name.find(letter, at + 1)
        if at < 0:
            return False
    return True


@dataclass(frozen=True, slots=True)
class WordFilter(Generic[AnyStr]):
    """Words that a text must contain, and words that it must not contain."""

    required: tuple[AnyStr, ...]
    excluded: tuple[AnyStr, ...]

    def matches(self, text: AnyStr) -> bool:
        """Whether the text contains every required word and no excluded one."""
        return all(word in text for word in self.required) and not any(word in text for word in self.excluded)


def parse_word_filter(text: str, encode: Callable[[str], AnyStr]) -> WordFilter[AnyStr]:
    """Reads a filter of words, where `!word` excludes. `encode` spells a word as the searched texts do."""
    words = text.split()
    required = tuple(encode(word) for word in words if not word.startswith("!"))
    excluded = tuple(encode(word[1:]) for word in words if word.startswith("!") and word != "!")
    return WordFilter(required, excluded)


def _listed(
    names: tuple[str, str, str],
    stability: Stability,
    changed: bool,
    *,
    risk: str,
    policy: tuple[str, ...],
    source: str,
) -> FilterItem:
    tool, sidecar, summary = names
    state = stability.effective.value
    states = (CHANGED, state) if changed else (state,)
    words = [tool, sidecar, *states, summary]
    for reason in stability.reasons:
        words += (reason.code.value, reason.message, reason.remedy)
    return FilterItem(
        name=(tool or sidecar).casefold(),
        text=" ".join(words).casefold(),
        state=states,
        risk=(risk,),
        policy=policy,
        source=(source.rpartition(":")[2],),
        sidecar=(sidecar.casefold(),),
    )


def _values(key: str, given: Iterable[str]) -> tuple[tuple[str, ...], list[str]]:
    good: list[str] = []
    bad: list[str] = []
    for value in given:
        fits = key == "sidecar" or any(known.startswith(value) for known in VALUES[key])
        (good if fits else bad).append(value)
    return tuple(good), bad


def _rows_having(term: Term, items: Sequence[FilterItem], asked: Sequence[int], left: list[int]) -> list[int]:
    """Those of `left` with the word, which is looked for loosely where none of `asked` has it."""
    word = term.values[0]
    found = [at for at in left if word in items[at].text]
    if found or any(word in items[at].text for at in asked):
        return found
    return [at for at in left if in_order(word, items[at].name)]
