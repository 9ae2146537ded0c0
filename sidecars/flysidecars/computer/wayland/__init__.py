"""Keyboard and mouse on Wayland, where no program can see another's windows. Keys and clicks go to the window
that has the focus.

The use of wtype and ydotool follows their manuals. The tests replace both by programs that record their
arguments.
"""
