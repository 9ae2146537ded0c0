"""flytui.text."""
