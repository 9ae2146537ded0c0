"""The X11 desktop: reading in process through `flysafe.x11_reader`, acting through xdotool.

What decides whether an action may happen (the window tree, the focus, what lies at a point) is read
over one connection in microseconds, right before the action; a program started for each question
would leave a gap of milliseconds between the check and the act.
"""
