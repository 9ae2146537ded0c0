"""A child's environment is built from nothing; secrets are only the declared ones."""

from __future__ import annotations

from flycore.model.diagnostics import Position
from flycore.model.enums import Anchor, PathState, Source
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.sandbox.environment import child_environment, declared_secrets

KERNEL = {
    "PATH": "/evil",
    "HOME": "/home/me",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "LC_TIME": "de_DE",
    "TZ": "UTC",
    "USER": "me",
    "AWS_SECRET": "never-passed",
    "LD_PRELOAD": "/evil.so",
    "PYTHONPATH": "/evil",
    "FLYTUI_CALL_ID": "another",
    "EXTRA": "passed",
    "API_KEY": "kernel-value",
    "DISPLAY": ":1",
    "XAUTHORITY": "/x",
    "WAYLAND_DISPLAY": "w",
    "XDG_RUNTIME_DIR": "/run/user/1",
}
PROGRAM = ResolvedProgram(
    state=PathState.RESOLVED,
    mode="relative",
    base=Anchor.APP,
    declared="./bin/x",
    path="/app/bin/x",
    argv=("/app/bin/x",),
    interpreter="/opt/python/bin/python3.11",
    interpreter_argv=("/app/venv/bin/python",),
)
BASE = {
    "PATH": "/app/bin:/app/venv/bin:/opt/python/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/home/me",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "LC_TIME": "de_DE",
    "TZ": "UTC",
    "FLYTUI_TOOL_MODE": "subprocess",
    "FLYTUI_CALL_ID": "c1",
}


def entry(**fields: object) -> SidecarEntry:
    position = Position(file="f", line=1, column=1)
    return SidecarEntry(id="x", source=Source.PROJECT, position=position, **fields)  # type: ignore[arg-type] # a table's row


def environment(of: SidecarEntry, **secrets: str) -> dict[str, str]:
    return child_environment(of, PROGRAM, environ=KERNEL, secrets=secrets, call_id="c1")


def test_nothing_but_the_allow_list() -> None:
    assert environment(entry()) == BASE


def test_env_pass_env_and_secrets_are_added() -> None:
    declared = entry(env={"LANG": "en", "MODE": "x"}, pass_env=("EXTRA", "ABSENT"))
    assert environment(declared, API_KEY="the-secret") == {
        **BASE,
        "LANG": "en",
        "MODE": "x",
        "EXTRA": "passed",
        "API_KEY": "the-secret",
    }


def test_an_entry_cannot_pose_as_another_call() -> None:
    posing = entry(env={"FLYTUI_CALL_ID": "c2", "FLYTUI_TOOL_MODE": "x"}, pass_env=("FLYTUI_CALL_ID",))
    assert environment(posing) == BASE


def test_only_desktop_tools_see_the_display() -> None:
    shown = environment(entry(permissions=Permissions(desktop=True)))
    assert {name: shown[name] for name in shown if name not in BASE} == {
        "DISPLAY": ":1",
        "XAUTHORITY": "/x",
        "WAYLAND_DISPLAY": "w",
        "XDG_RUNTIME_DIR": "/run/user/1",
    }


def test_a_folder_that_would_split_path_is_left_out() -> None:
    odd = ResolvedProgram(
        state=PathState.RESOLVED, mode="path", base=Anchor.APP, declared="x", path="/a:/evil/x", argv=("x",)
    )
    of = child_environment(entry(), odd, environ={}, secrets={}, call_id="c")
    assert of["PATH"] == "/usr/local/bin:/usr/bin:/bin"


def test_secrets_are_declared_and_long_enough() -> None:
    permissions = Permissions(secrets=("GOOD", "SHORT", "EMPTY", "ABSENT"))
    values, missing = declared_secrets(
        permissions, {"GOOD": "12345678", "SHORT": "1234567", "EMPTY": "", "OTHER": "123456789"}
    )
    assert values == {"GOOD": "12345678"}
    assert list(missing) == ["SHORT", "EMPTY", "ABSENT"]
    assert "8 characters" in missing["SHORT"]
    assert missing["EMPTY"] == missing["ABSENT"] == "not set"
