"""Settings: what is good counts, what is bad is told and the default holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from flycore.model.diagnostics import Severity
from flycore.model.enums import Level, Risk
from flycore.registry.settings import Settings, load_settings


def load(folder: Path, text: str) -> tuple[Settings, list[tuple[str, str, int]]]:
    """The settings, and (pointer, severity, line) of each finding."""
    (folder / "config.jsonc").write_text(text)
    settings, problems = load_settings(folder)
    return settings, [
        (problem.pointer, problem.severity, problem.position.line if problem.position else 0)
        for problem in problems
    ]


def test_without_a_file(tmp_path: Path) -> None:
    settings, problems = load_settings(tmp_path / "absent")
    assert problems == ()
    assert settings == Settings()
    assert [settings.approval_times.of(risk) for risk in Risk] == [600_000] * 4
    assert (settings.inline_wait_ms, settings.queue_per_caller, settings.queue_total) == (25_000, 5, 20)
    assert (settings.calls_per_minute, settings.running, settings.high_risk_per_session) == (600, 8, 50)
    assert settings.asked_per_minute == 60


def test_everything_set(tmp_path: Path) -> None:
    settings, problems = load(
        tmp_path,
        """{ // mine
        "approvals": {"timeoutMs": {"high": 1000, "critical": 2000}, "inlineWaitMs": 1, "queuePerCaller": 2,
                      "queueTotal": 3},
        "quota": {"callsPerMinute": 4, "askedPerMinute": 3, "running": 5, "highRiskPerSession": 6},
        "risk": {"web.search": "high"}, "sandbox": {"minimum": {"web.fetch": "enforced"}},
        "audit": {"outputs": true}, "security": {"max_permissions": {"network": false}},
        "notify": {"command": ["notify-send", "flytui"]}, "keys": {"approve": "a"}, "theme": "nord",
        "colours": "256", "pictures": "sixel",
        }""",
    )
    assert problems == []
    assert settings.approval_times.of(Risk.HIGH) == 1000
    assert settings.approval_times.of(Risk.LOW) == 600_000
    assert (settings.inline_wait_ms, settings.queue_per_caller, settings.queue_total) == (1, 2, 3)
    assert (settings.calls_per_minute, settings.running, settings.high_risk_per_session) == (4, 5, 6)
    assert settings.asked_per_minute == 3
    assert settings.risk == {"web.search": Risk.HIGH}
    assert settings.sandbox_minimum == {"web.fetch": Level.ENFORCED}
    assert (settings.audit_outputs, settings.max_permissions) == (True, {"network": False})
    assert (settings.colours, settings.pictures) == ("256", "sixel")
    assert (settings.notify_command, settings.keys, settings.theme) == (
        ("notify-send", "flytui"),
        {"approve": "a"},
        "nord",
    )


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("[]", ""),
        ('{"approvals": 5}', "/approvals"),
        ('{"approvals": {"timeoutMs": {"low": "1"}}}', "/approvals/timeoutMs/low"),
        ('{"approvals": {"inlineWaitMs": -1}}', "/approvals/inlineWaitMs"),
        ('{"approvals": {"queueTotal": true}}', "/approvals/queueTotal"),
        ('{"quota": {"running": 1.5}}', "/quota/running"),
        ('{"risk": {"web.search": "fatal"}}', "/risk/web.search"),
        ('{"sandbox": {"minimum": {"a": 1}}}', "/sandbox/minimum/a"),
        ('{"audit": {"outputs": "yes"}}', "/audit/outputs"),
        ('{"notify": {"command": [1]}}', "/notify/command"),
        ('{"keys": {"approve": 1}}', "/keys/approve"),
        ('{"theme": null}', "/theme"),
        ('{"colours": "8"}', "/colours"),
        ('{"colours": 16}', "/colours"),
        ('{"pictures": "ascii"}', "/pictures"),
    ],
)
def test_a_bad_value_is_told_and_the_default_holds(tmp_path: Path, text: str, pointer: str) -> None:
    settings, problems = load(tmp_path, "\n\n" + text)
    assert problems == [(pointer, Severity.ERROR, 3)]
    # Of a file that is no object nothing can be read, so that what may be switched off in it is off.
    assert settings == (Settings() if pointer else Settings(agent_reads=False))


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("{}", True),
        ('{"agents": {}}', True),
        ('{"agents": {"readOnly": true}}', True),
        ('{"agents": {"readOnly": false}}', False),
        ('{"agents": {"readOnly": "yes"}}', False),
        ('{"agents": []}', False),
    ],
)
def test_with_an_error_no_read_is_allowed_without_a_person(tmp_path: Path, text: str, allowed: bool) -> None:
    assert load(tmp_path, text)[0].agent_reads is allowed


def test_a_ceiling_that_cannot_be_read_permits_nothing(tmp_path: Path) -> None:
    settings, problems = load(tmp_path, '{"security": {"max_permissions": "all"}}')
    assert problems == [("/security/max_permissions", Severity.ERROR, 1)]
    assert settings.max_permissions == {}


def test_unknown_keys_and_broken_files(tmp_path: Path) -> None:
    settings, problems = load(tmp_path, '{"themes": "x",\n "quota": {"runing": 1}}')
    assert settings == Settings()
    assert problems == [("/themes", Severity.WARNING, 1), ("/quota/runing", Severity.WARNING, 2)]
    settings, problems = load(tmp_path, '{"theme": "x",\n')
    assert settings == Settings(agent_reads=False)
    assert [(severity, line) for _, severity, line in problems] == [(Severity.ERROR, 1)]
