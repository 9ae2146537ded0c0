"""`flytui config`: prints the settings in use and where each is set, and the paths of this root."""

from __future__ import annotations

import json
import os

import click

from flycore.offline.console_files import read_settings
from flycore.registry.paths import (
    BUNDLES_FILE,
    POLICY_FILE,
    PROJECT_POLICY_FILE,
    REGISTRY_FILE,
    SETTINGS_FILE,
    SYSTEM_CONFIG_DIR,
    RootPaths,
)
from flytui.cli.command_group import SummaryGroup
from flytui.cli.documents import ConfigDocument, ConfigPathDocument, ListedSetting, RootPath
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_error, print_json, print_table
from flytui.cli.settings_text import check_console_settings, listed_settings


@click.group(cls=SummaryGroup)
@common
def config(invocation: Invocation) -> int:
    """Show the settings in use and the paths of this root."""
    return 0


@config.command("show")
@common
def show(invocation: Invocation) -> int:
    """Print every setting with its value and the line that sets it."""
    folder = invocation.places().config_dir
    read = check_console_settings(read_settings(folder))
    file = folder / SETTINGS_FILE
    present = os.path.lexists(file)
    settings = listed_settings(read)
    if invocation.as_json:
        found = ConfigDocument(file=str(file), present=present, settings=settings, diagnostics=read.problems)
        print_json(found)
        return 0
    if not present:
        print_error(f"{file} does not exist: every setting has its default")
    print_table(invocation, ("SETTING", "VALUE", "FROM"), [_row(setting) for setting in settings])
    for problem in read.problems:
        print_error(f"{problem.severity.value}: {problem.position}: {problem.message} → {problem.remedy}")
    return 0


@config.command("path")
@common
def path(invocation: Invocation) -> int:
    """Print the paths of this root, and which of them exist."""
    places = tuple(
        RootPath(name=name, path=found, present=os.path.lexists(found))
        for name, found in _places(invocation.places())
    )
    if invocation.as_json:
        print_json(ConfigPathDocument(places=places))
    else:
        rows = [(place.name, "there" if place.present else "not there", place.path) for place in places]
        print_table(invocation, ("WHAT", "IS", "PATH"), rows)
    return 0


def _places(places: RootPaths) -> tuple[tuple[str, str], ...]:
    return (
        ("root", str(places.app_root)),
        ("workspace", str(places.workspace)),
        ("registry", str(places.app_root / REGISTRY_FILE)),
        ("user registry", str(places.config_dir / REGISTRY_FILE)),
        ("settings", str(places.config_dir / SETTINGS_FILE)),
        ("policy", str(places.policy_file)),
        ("project policy", str(places.app_root / PROJECT_POLICY_FILE)),
        ("system policy", str(SYSTEM_CONFIG_DIR / POLICY_FILE)),
        ("team bundles", str(places.config_dir / BUNDLES_FILE)),
        ("state", str(places.state_dir)),
        ("audit log", str(places.audit_dir)),
        ("data", str(places.data_dir)),
        ("cache", str(places.cache_dir)),
        ("socket", str(places.socket)),
    )


def _row(setting: ListedSetting) -> tuple[str, str, str]:
    source = f"default, not {setting.where}: {setting.problem}" if setting.problem else setting.where
    return setting.name, json.dumps(setting.value, ensure_ascii=False), source or "default"
