"""Environment variables that decide which code a program loads, such as PYTHONPATH, LD_PRELOAD and BASH_ENV.

The table with its sources is `loader_environment.json`.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path

import msgspec

DATA_FILE = "loader_environment.json"
CONFIGURATION = "programs that look for their configuration"
"""Stands for the reader of variables that name folders of configuration."""


class _Group(msgspec.Struct, frozen=True):
    loader: str
    names: tuple[str, ...]
    source: str


class _Folders(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    source: str


class _Table(msgspec.Struct, frozen=True):
    groups: tuple[_Group, ...]
    folders: _Folders


@cache
def _table() -> _Table:
    text = (Path(__file__).parent / DATA_FILE).read_text(encoding="utf-8")
    return msgspec.convert(json.loads(text), _Table)


@lru_cache(maxsize=1_024)
def loader_of(name: str) -> str:
    """Return what reads the variable to find code to run; empty where nothing is known to."""
    for group in _table().groups:
        if any(_is_named(name, pattern) for pattern in group.names):
            return group.loader
    return CONFIGURATION if name in _table().folders.names else ""


def may_be_passed(name: str) -> bool:
    """Return whether an entry may hand the variable on from the kernel's environment."""
    return loader_of(name) in ("", CONFIGURATION)


def refused_pattern() -> str:
    """Return a regular expression for the names that must not be handed on."""
    names = (name for group in _table().groups for name in group.names)
    return "^(?:" + "|".join(f"{name[:-1]}.*" if name.endswith("*") else name for name in names) + ")$"


def _is_named(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
