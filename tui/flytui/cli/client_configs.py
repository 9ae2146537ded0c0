"""How agents' programs start this installation of flytui, and the texts of their settings."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from flycore.offline.connect import Connection, hook_text, print_text
from flycore.registry.paths import RootPaths
from flytui.cli.output import print_error


def program() -> str:
    """The command `flytui`: its name where that finds this installation, otherwise its absolute path."""
    beside = Path(sys.executable).parent / "flytui"
    found = shutil.which("flytui")
    if found is not None and Path(found).resolve() == beside.resolve():
        return "flytui"
    return str(beside) if beside.exists() else found or "flytui"


def connection(places: RootPaths, address: str = "") -> Connection:
    """How a client reaches flytui on this root: through this program, or at the address."""
    return Connection(program(), str(places.app_root), address)


def print_config(places: RootPaths, client: str) -> int:
    """Print the text for a client to standard output, and the name of its file to standard error."""
    file, text = print_text(client, connection(places))
    print_error(f"for {file}:")
    click.echo(text)
    return 0


def print_hook_config(places: RootPaths, client: str, without_console: str) -> int:
    """Print the text for a client's hook to standard output, and the name of its file to standard error."""
    file, text = hook_text(client, connection(places), without_console)
    print_error(f"for {file}:")
    click.echo(text)
    return 0
