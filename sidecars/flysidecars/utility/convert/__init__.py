"""The tool `data.convert`: converts between json, jsonl, yaml, toml, csv, xml and text.

Each format has a reader (text to a JSON value) and a writer (JSON value to text). What a format cannot hold
is refused with its place (`unrepresentable`); what only loses its form, as a date that becomes a string, is
done and named in `lossy`.
"""

from __future__ import annotations

from flysidecars.utility.convert.tool import data_convert

__all__ = ("data_convert",)
