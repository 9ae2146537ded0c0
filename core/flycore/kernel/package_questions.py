"""The questions about packages: what is staged, what has to be rolled back, and what a command asked for."""

from __future__ import annotations

from collections.abc import Callable

from flycore.kernel.packages import DISCARD, KEEP, PackageActions
from flycore.kernel.questions import QuestionEvents
from flycore.model.approval import Outcome
from flycore.model.enums import PackageAction, PackageScope, QuestionKind, UpgradeState
from flycore.model.package import PackageReview, PackageView
from flycore.model.question import Option, Question
from flycore.packages.entries import review_lines

APPLY = PackageAction.APPLY.value
LEAVE = "leave"
REINSTALL = "reinstall"


class PackageQuestions:
    """The questions about packages: one for each staged version, for each that has to be rolled back, and for
    each change that a command asked for."""

    def __init__(self, packages: PackageActions, now: Callable[[], float], events: QuestionEvents) -> None:
        self._packages = packages
        self._events = events
        self._published: dict[str, Question] = {}
        self._now = now
        self._since: dict[str, float] = {}
        self._put_off: frozenset[str] = frozenset()
        self._wanted: dict[tuple[PackageScope, str], PackageAction] = {}

    def want(self, action: PackageAction, package: str, scope: PackageScope) -> Outcome:
        """Ask a person for a change, also where the question was put off before."""
        view = self._packages.view(package, scope)
        if view is None:
            return Outcome(accepted=False, why_not=f"there is no package {package}")
        if action is PackageAction.APPLY and view.review is None:
            return Outcome(accepted=False, why_not=f"nothing of {package} is staged")
        if action is not PackageAction.APPLY:
            self._wanted[scope, package] = action
        self._put_off -= {question.id for question in self._all()}
        self.publish_new()
        return Outcome(accepted=True)

    def questions(self) -> tuple[Question, ...]:
        """Return the questions that were not put off. A version that is staged anew is another question."""
        found = self._all()
        ids = {question.id for question in found}
        self._since = {key: since for key, since in self._since.items() if key in ids}
        self._put_off &= ids
        return tuple(question for question in found if question.id not in self._put_off)

    def publish_new(self) -> None:
        """Publish and log the questions that are new since the last time."""
        found = self.questions()
        for question in found:
            if question.id not in self._published:
                self._events.publish_asked(question)
        for question in self._published.values():
            if question.id not in {other.id for other in found}:
                self._events.publish_ended(question)
        self._published = {question.id: question for question in found}

    def _all(self) -> list[Question]:
        found: list[Question] = []
        for view in self._packages.views():
            if view.state is UpgradeState.ROLLBACK_REQUIRED:
                found.append(self._broken(view))
            if view.review is not None and view.state is not UpgradeState.APPLYING:
                found.append(self._staged(view, view.review))
            wanted = self._wanted.get((view.scope, view.id))
            if wanted is not None and view.state is not UpgradeState.ROLLBACK_REQUIRED:
                found.append(self._asked(view, wanted))
        return found

    async def answer(self, question: Question, option: str, text: str, by: str) -> Outcome:
        """Carry out exactly what was shown, or put the question off until the next start."""
        _, scope_word, package, *rest = question.id.split(":")
        scope = PackageScope(scope_word)
        self._wanted.pop((scope, package), None)
        if option == LEAVE:
            self._put_off |= {question.id}
            return Outcome(accepted=True)
        if option in (DISCARD, KEEP):
            outcome = await self._packages.simple(option, package, scope, by)
        elif option == REINSTALL:
            outcome = await self._packages.reinstall(package, scope, by)
        else:
            action = PackageAction(option)
            outcome = await self._packages.change(action, package, scope, rest[-1] if rest else "", by)
        return Outcome(accepted=outcome.changed, why_not=outcome.message)

    def _question(
        self, key: str, view: PackageView, title: str, lines: tuple[str, ...], options: tuple[Option, ...]
    ) -> Question:
        return Question(
            id=key,
            kind=QuestionKind.PACKAGE,
            title=title,
            lines=lines,
            options=options,
            about=view.sidecar,
            asked_at=self._since.setdefault(key, self._now()),
        )

    def _staged(self, view: PackageView, review: PackageReview) -> Question:
        key = f"package:{view.scope.value}:{view.id}:staged:{review.digest}"
        title = f"{view.id}: {review.before or 'not installed'} → {review.after}"
        options = (
            Option(id=APPLY, words="apply it: it may run as shown"),
            Option(id=LEAVE, words="not now: what runs does not change", recommended=True),
            Option(id=DISCARD, words="discard the staged version"),
        )
        return self._question(key, view, title, review_lines(review), options)

    def _broken(self, view: PackageView) -> Question:
        key = f"package:{view.scope.value}:{view.id}:broken:{view.version}"
        action, words = PackageAction.ROLLBACK, f"roll back to {view.previous}"
        if not view.previous:
            action, words = PackageAction.REMOVE, "remove it: there is no version to go back to"
        back = Option(id=action.value, words=words, recommended=True)
        options = (
            back,
            Option(id=REINSTALL, words=_reinstall_words(view)),
            Option(id=KEEP, words="keep it disabled, and do not ask again"),
        )
        lines = (
            f"why      {view.why or 'its change was cut off'}",
            f"version  {view.version or 'unknown'}",
            f"back to  {view.previous or 'nothing'}",
            "now      agents do not see its tools, and no call of them runs",
        )
        return self._question(key, view, f"{view.id} has to be rolled back", lines, options)

    def _asked(self, view: PackageView, action: PackageAction) -> Question:
        key = f"package:{view.scope.value}:{view.id}:{action.value}:{view.version}"
        what = f"back to {view.previous or 'nothing'}" if action is PackageAction.ROLLBACK else "remove"
        options = (
            Option(id=action.value, words=f"{what}: its entry and its files with it"),
            Option(id=LEAVE, words="leave it as it is", recommended=True),
        )
        lines = (
            "who      flytui packages, a command of this user",
            f"version  {view.version or 'none'}",
            f"back to  {view.previous or 'nothing'}",
        )
        return self._question(key, view, f"{view.id}: {what}?", lines, options)


def _reinstall_words(view: PackageView) -> str:
    """What the repair of a version does: its files are taken again only where they are not what they were."""
    source = f"take its files again from {view.source} where they changed, " if view.source else ""
    return f"reinstall {view.version}: {source}probe it once more, and keep it if it answers"
