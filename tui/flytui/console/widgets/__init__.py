"""Widgets that draw lines: bars, scrolling views, lists, and text fields."""
