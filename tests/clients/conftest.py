"""Collects what the tests of agents' programs found, for the table in docs/clients/README.md."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

FULL = os.environ.get("FLYTUI_SUITES") == "full"
RESULTS = Path(__file__).parents[2] / "docs" / "clients" / "results.json"
FOUND = pytest.StashKey[dict[str, dict[str, str]]]()
collect_ignore = [] if FULL else ["test_client_scenarios_suite.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Begin with nothing found."""
    config.stash[FOUND] = {}


class _Collector:
    def __init__(self, config: pytest.Config) -> None:
        self._found = config.stash[FOUND]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        noted = dict(report.user_properties)
        if "client" not in noted or (report.when != "call" and report.passed):
            return
        cell = self._found.setdefault(str(noted["scenario"]), {})
        if report.passed:
            cell[str(noted["client"])] = str(noted.get("outcome", "holds"))
        else:
            cell[str(noted["client"])] = "fails"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Collect the outcomes, in the process that has all of them."""
    if FULL and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Collector(session.config))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was found over what earlier runs found."""
    found = session.config.stash[FOUND]
    if not found:
        return
    written: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for scenario, cells in found.items():
        written[scenario] = dict(sorted({**written.get(scenario, {}), **cells}.items()))
    RESULTS.write_text(json.dumps(dict(sorted(written.items())), indent=1) + "\n")
