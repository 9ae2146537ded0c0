"""What counts in Copilot CLI beside an answer of flytui's hook: rules of its own, and a second hook."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from flycore.offline.connect import has_hook
from flycore.registry.paths import RootPaths
from flysafe.beneath import read_beneath
from flysafe.command_process import command_pid
from flysafe.procfs import ancestors, command_line
from flytui.cli.client_configs import connection

MOST_BYTES = 1_048_576
"""Bytes of a file of settings."""
_MANAGED = "/etc/github-copilot"
_DENYING_OPTIONS = ("--deny-tool", "--deny-url")


def has_denying_rules(environ: Mapping[str, str], managed: str = _MANAGED) -> bool:
    """Return whether this process was started by Copilot CLI, and that has rules by which it denies tools.

    Its own rules count no more once a hook has answered `allow`. Rules that cannot be read count as there.
    """
    if "COPILOT_CLI" not in environ:
        return False
    lines = [command_line(pid) for pid in ancestors(command_pid())]
    options = (word for line in lines for word in line)
    if not any(lines) or any(word.startswith(_DENYING_OPTIONS) for word in options):
        return True
    try:
        return os.path.lexists(managed) or any("deniedUrls" in text for text in _settings(environ))
    except OSError:
        return True


def _settings(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings of the person and of the project. Raises OSError for one that cannot be read."""
    own = environ.get("COPILOT_HOME") or os.path.join(environ.get("HOME", ""), ".copilot")
    project = os.path.join(environ.get("COPILOT_PROJECT_DIR") or os.getcwd(), ".github", "copilot")
    for folder, name in (
        (own, "settings.json"),
        (own, "config.json"),
        (project, "settings.json"),
        (project, "settings.local.json"),
    ):
        try:
            yield read_beneath(Path(folder), name, MOST_BYTES, links=True).decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            continue


def has_own_hook(places: RootPaths, environ: Mapping[str, str]) -> bool:
    """Return whether Copilot CLI runs the hook that `flytui connect copilot --hook` writes, beside that of
    Claude Code's settings: then only one of the two has to ask."""
    # It runs both hooks of this folder, or neither. Whoever may write there may remove the other one as well.
    project = environ.get("COPILOT_PROJECT_DIR", "")
    if not project or os.path.realpath(project) != os.path.realpath(places.app_root):
        return False
    return has_hook(places, "copilot", connection(places))
