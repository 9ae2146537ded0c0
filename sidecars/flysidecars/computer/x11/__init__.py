"""Keyboard, mouse and windows on X11: read through `flysafe.x11_reader`, changed through xdotool.

The facts on which an action depends (the window tree, the focus, the window at a point) are read over one
connection within microseconds, right before the action. A program started for each question would leave a
gap of milliseconds between the check and the action.
"""
