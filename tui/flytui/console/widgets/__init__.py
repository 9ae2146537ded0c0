"""flytui.console.widgets."""
