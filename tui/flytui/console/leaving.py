"""What ends when the console is left, and is asked about before."""

from __future__ import annotations

from flytui.console.desk import ConsoleState
from flytui.console.words import plural


def quit_question(desk: ConsoleState) -> list[str]:
    """The question, most important line first; nothing where leaving ends nothing. An attached console only
    detaches: what waits there waits on, but for the test calls that were made from here."""
    if desk.attachment is not None:
        return _detach_question(desk)
    waiting = len(desk.waiting)
    running = max(0, (desk.status.running if desk.status else 0) - waiting)
    if not waiting and not running:
        return []
    question = ["Quit flytui?"]
    if waiting:
        what = plural(waiting, "request waits", "requests wait")
        question.append(f"{what}: refused, because nobody decided.")
    if running:
        question.append(f"{plural(running, 'call runs', 'calls run')}: ended, with all their processes.")
    return [*question, "Without a console, whatever needs a person is refused."]


def _detach_question(desk: ConsoleState) -> list[str]:
    if not desk.test_calls:
        return []
    what = plural(desk.test_calls, "test call", "test calls")
    return ["Detach this console?", f"{what} made from here: ended. All else waits and runs on."]
