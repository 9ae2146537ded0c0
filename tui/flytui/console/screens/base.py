"""Attributes that the application reads from every screen, and two screens that many others use: a page of
lines that scrolls, and a question that is answered by pressing a key again.

The application asks a screen for these attributes and keeps no list of classes. A new screen sets them where
it is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, NamedTuple, cast

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.worker import WorkType

from flytui.console.screens.header import alert_lines, header_lines
from flytui.console.state import ConsoleState, Topic
from flytui.console.user_settings import KeyBindings, key_label, textual_key
from flytui.console.widgets.lines import LineBar, LineBuilder, LineView
from flytui.text.lines import StyledLine, Tone, keys_fitting, keys_line, line, span, wrapped


class ScreenTraits:
    """Attributes that a screen of the console sets. A screen that sets none of them has all three false."""

    decides: ClassVar[bool] = False
    """Whether a person decides something on the screen. While one such screen is open, no other opens over
    it."""
    of_one_kernel: ClassVar[bool] = False
    """Whether the screen shows values of one kernel. It is closed when the console comes to another kernel of
    that root, where the same ids mean other requests."""
    of_all_roots: ClassVar[bool] = False
    """Whether the screen shows values of every root's kernel at once."""
    closes_for_view: ClassVar[bool] = False
    """Whether the command palette may close the screen to show a view. Closing it decides nothing."""
    has_fields: ClassVar[bool] = False
    """Whether a person writes on the screen, so that a digit is never a key that leaves it."""
    takes_typeahead: ClassVar[bool] = False
    """Whether the screen gets the keys that were typed after the one that opened it, and that reached the
    screen below because that was busy."""

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close the screen. Where it is not on top, because a key before this one has closed it or opened
        another, do nothing."""
        # Textual would close whichever screen is on top, and raise where this one has given a result already.
        screen = cast(Screen[Any], self)
        if screen.app.screen is not screen:
            return AwaitComplete()
        return Screen.dismiss(screen, result)


def run_latest(node: DOMNode, work: Callable[[], Coroutine[None, None, None]], group: str) -> None:
    """Run the work in a worker of that group; an earlier one that still runs is cancelled."""
    # The function, not its coroutine: nobody would await that of a worker that is cancelled before it begins.
    node.run_worker(cast("WorkType[None]", work), group=group, exclusive=True)


def pass_key(screen: Screen[Any], event: events.Key | events.Paste) -> None:
    """Pass a key or a paste to the screen on top, or to its field, with the time of its press."""
    (screen.focused or screen)._forward_event(copy_of(event))


def copy_of(event: events.Key | events.Paste) -> events.Key | events.Paste:
    """A new event of the same key or paste and of the same time. Textual passes an event on only once."""
    made = (
        events.Key(event.key, event.character) if isinstance(event, events.Key) else events.Paste(event.text)
    )
    made.time = event.time
    return made


def decision_open(stack: Sequence[Screen[object]]) -> bool:
    """Whether a screen on the stack decides something."""
    return any(isinstance(screen, ScreenTraits) and screen.decides for screen in stack)


def kernel_values_open(stack: Sequence[Screen[object]], root: ConsoleState) -> bool:
    """Whether a screen on the stack shows values of the kernel of that root."""
    owner = root
    for screen in stack:
        if isinstance(screen, ScreenTraits):
            # A screen that does not know its root is one of the screen below, which opened it.
            owner = getattr(screen, "_state", owner)
            if screen.of_one_kernel and (screen.of_all_roots or owner is root):
                return True
    return False


def closes_for_view(screen: Screen[object]) -> bool:
    """Whether the command palette may close the screen to show a view."""
    return isinstance(screen, ScreenTraits) and screen.closes_for_view


def more_keys(keys: KeyBindings) -> tuple[str, str]:
    """The end of a key line: the key that opens the help, where all other keys are."""
    return keys.label("app.help"), "more"


class PageScreen(ScreenTraits, Screen[None]):
    """A page of lines under the header. The screen of a request may open over it."""

    closes_for_view = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace", "close", "Back", show=False, id="page.close"),
        Binding("y", "copy", "Copy", show=False, id="page.copy"),
        Binding("up,k", "scroll(-1)", "Up", show=False, id="page.up"),
        Binding("down,j", "scroll(1)", "Down", show=False, id="page.down"),
    ]

    def __init__(
        self, state: ConsoleState, title: str, build: LineBuilder, *, copy: Callable[[], str] | None = None
    ) -> None:
        """Build the page. `build` makes its lines for a width; `copy` gives what the copy key sends to the
        clipboard."""
        super().__init__()
        self._state = state
        self._heading = title
        self._copy = copy
        self._page = LineView(build, id="page")

    def compose(self) -> ComposeResult:
        """Yield the header, the page, the alerts and the key line."""
        yield LineBar(lambda width: header_lines(self._state, self._heading, width), id="header")
        yield self._page
        yield LineBar(lambda width: alert_lines(self._state, width), id="alert")
        yield LineBar(self._keys, id="keys")

    def changed(self, topics: frozenset[Topic]) -> None:
        """Draw header, alerts and keys again, and the page where a topic changed."""
        for bar in self.query(LineBar):
            bar.redraw()
        if topics:
            self._page.rebuild()

    def action_close(self) -> None:
        """Close the page."""
        self.dismiss()

    def action_copy(self) -> None:
        """Send what the page shows to the terminal's clipboard, as JSON."""
        if self._copy is not None:
            self.app.copy_to_clipboard(self._copy())
            self._state.shared.notice = "sent as JSON to the terminal's clipboard"
            self.changed(frozenset())

    def action_scroll(self, step: int) -> None:
        """Scroll by `step` lines, wherever the focus is."""
        self._page.scroll_to(y=self._page.scroll_offset.y + step, animate=False)

    def _keys(self, width: int) -> Sequence[StyledLine]:
        pairs = [("↑↓ PgUp PgDn", "scroll"), ("page.close", "back")]
        if self._copy is not None:
            pairs.insert(1, ("page.copy", "copy as JSON"))
        return [keys_fitting(self._state.keys.hints(pairs), width, more_keys(self._state.keys))]


class Alternative(NamedTuple):
    """A further answer to a question before something is ended."""

    key: str
    does: str
    act: Callable[[], None]


class PressAgainScreen(ScreenTraits, ModalScreen[bool]):
    """A question before something is ended. It gives True when one of `keys` is pressed again, and False
    after every other key."""

    decides = True

    def __init__(
        self,
        keys: Sequence[str],
        question: Sequence[str],
        does: str,
        otherwise: str,
        alternative: Alternative | None = None,
    ) -> None:
        """Ask `question`, most important line first. `does` and `otherwise` say what one of `keys`, and what
        every other key does, but that of the `alternative`."""
        super().__init__()
        self._alternative = alternative
        self._confirm_keys = keys
        self._question = question
        self._does = does
        self._else_words = otherwise

    def compose(self) -> ComposeResult:
        """Yield a small box with the question."""
        with Vertical(classes="box"):
            yield LineBar(self._lines)

    def on_key(self, event: events.Key) -> None:
        """Answer the question. No key bubbles up to the screen below."""
        event.stop()
        event.prevent_default()
        self.dismiss(
            any(key == event.character or textual_key(key) == event.key for key in self._confirm_keys)
        )
        if self._alternative is not None and event.character == self._alternative.key:
            self._alternative.act()

    def _lines(self, width: int) -> Sequence[StyledLine]:
        rows = [
            line(span(text, Tone.STRONG if at == 0 else Tone.PLAIN)) for at, text in enumerate(self._question)
        ]
        pairs = [(f"{key_label(self._confirm_keys[0])} again", self._does)]
        if self._alternative is not None:
            pairs.append((self._alternative.key, self._alternative.does))
        choice = keys_line([*pairs, ("any other key", self._else_words)])
        return [*wrapped(rows, width), (), *wrapped([choice], width)]
