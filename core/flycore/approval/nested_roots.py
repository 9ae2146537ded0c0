"""The roots that lie within this one, and whether programs may take them: a person is asked once for each.

A folder within a project may have a registry of its own, as a submodule has. A program that starts there
works on that root, beside the console of this one. The answers are kept in `nested_roots.json`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from flycore.model.approval import Outcome
from flycore.model.base import Value
from flycore.model.call import Caller
from flycore.model.clock import Clock
from flycore.model.enums import QuestionKind, RootPermission
from flycore.model.question import Option, Question
from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE
from flycore.store.json_store import Store

MAX_BYTES = 1_048_576
MAX_ROOTS = 200
"""Answers that are remembered; beyond, the oldest is forgotten, and its root is asked about again."""
MAX_QUESTIONS = 5
"""Questions that wait at once. A further root is not asked about until one of them is answered."""
MAX_PATH_BYTES = 4_096
ALLOW = "allow"
REFUSE = "refuse"
_OPTIONS = (
    Option(id=REFUSE, words="refuse: they end, unless --root names the root they mean", recommended=True),
    Option(id=ALLOW, words="allow: they may work there"),
)
_PERMISSIONS = {ALLOW: RootPermission.ALLOWED, REFUSE: RootPermission.REFUSED}


class _Decision(Value, frozen=True, kw_only=True):
    root: str
    permission: RootPermission
    at: float
    """Unix time, seconds."""


class _File(Value, frozen=True, kw_only=True):
    roots: tuple[_Decision, ...]


class NestedRoots:
    """The answers and the waiting questions of one app root. Whoever uses it holds the root's lock."""

    def __init__(
        self, path: Path, app_root: Path, clock: Clock, on_question: Callable[[Question], None]
    ) -> None:
        # Without a file that can be relied on, each root is asked about again.
        self._store = Store(path, _File, _File(roots=()), MAX_BYTES)
        self._app_root = app_root
        self._clock = clock
        self._on_question = on_question
        self._questions: dict[str, Question] = {}
        kept = (item for item in self._store.value.roots if item.permission is not RootPermission.UNDECIDED)
        self._decisions = {item.root: item for item in tuple(kept)[-MAX_ROOTS:]}

    def permission(self, root: str, caller: Caller) -> RootPermission:
        """Return the answer for that root. Where there is none, ask a person, if the caller may make such a
        question: a program that a kernel started may not."""
        decision = self._decisions.get(root)
        if decision is not None:
            return decision.permission
        if caller.is_program and root not in self._questions and len(self._questions) < MAX_QUESTIONS:
            question = _question(root, self._app_root, caller, self._clock.now())
            self._questions[root] = question
            self._on_question(question)
        return RootPermission.UNDECIDED

    def questions(self) -> tuple[Question, ...]:
        """Return the questions that wait for a person, in order of arrival."""
        return tuple(self._questions.values())

    async def answer(self, question: Question, option: str, text: str, by: str) -> Outcome:
        """Remember a person's answer. Where it cannot be written, it has no effect and the question stays."""
        decision = _Decision(root=question.about, permission=_PERMISSIONS[option], at=self._clock.now())
        decisions = [*(self._decisions | {question.about: decision}).values()][-MAX_ROOTS:]
        if why := self._store.replace(_File(roots=tuple(decisions))):
            return Outcome(accepted=False, why_not=f"it could not be written: {why}")
        self._decisions = {item.root: item for item in decisions}
        del self._questions[question.about]
        return Outcome(accepted=True)


def is_nested_root(root: str, app_root: Path) -> bool:
    """Return whether `root` is the real path of a folder with a registry below `app_root`. Reads the disk."""
    try:
        path = Path(root)
        plain = len(root.encode()) <= MAX_PATH_BYTES and root == os.path.realpath(root)
    except (ValueError, OSError):  # a NUL, or letters that no text has
        return False
    registries = (REGISTRY_FILE, LEGACY_REGISTRY_FILE)
    return plain and app_root in path.parents and any(os.path.lexists(path / name) for name in registries)


def _question(root: str, app_root: Path, caller: Caller, now: float) -> Question:
    return Question(
        id=f"nested-{secrets.token_hex(8)}",
        kind=QuestionKind.NESTED,
        title="a program works on a root within this one",
        lines=(
            f"root    {root}",
            f"within  {app_root}",
            f"caller  {caller}",
            "why     it started in that folder, which has a registry of its own, and named no root",
            "effect  that registry and the policy there decide on its calls, and you do not see them here",
            "now     such programs go on, with a warning, until you decide",
        ),
        options=_OPTIONS,
        about=root,
        asked_at=now,
    )
