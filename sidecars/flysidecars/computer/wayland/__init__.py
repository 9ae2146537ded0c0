"""Wayland, where no program is told of another's windows: what acts there acts on whatever has the focus.

What is known of wtype and ydotool comes from their manuals; they were tried by recording programs only.
"""
