"""What the application has to know of a screen without knowing its class.

The application asks a screen for these attributes and keeps no list of classes: a new screen states them
where it is defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.screen import Screen


class ScreenTraits:
    """Attributes that a screen of the console sets. A screen that sets none of them has all three false."""

    decides: ClassVar[bool] = False
    """Whether a person decides something on it. While one is open no other one opens over it."""
    of_one_kernel: ClassVar[bool] = False
    """Whether it shows values of one kernel. It closes when the console comes to another kernel, where the
    same ids mean other requests."""
    closes_for_view: ClassVar[bool] = False
    """Whether the command palette may close it to show a view. Closing it decides nothing."""


def decision_open(stack: Sequence[Screen[object]]) -> bool:
    """Whether a screen on the stack decides something."""
    return any(isinstance(screen, ScreenTraits) and screen.decides for screen in stack)


def kernel_values_open(stack: Sequence[Screen[object]]) -> bool:
    """Whether a screen on the stack shows values of one kernel."""
    return any(isinstance(screen, ScreenTraits) and screen.of_one_kernel for screen in stack)


def closes_for_view(screen: Screen[object]) -> bool:
    """Whether the command palette may close the screen to show a view."""
    return isinstance(screen, ScreenTraits) and screen.closes_for_view
