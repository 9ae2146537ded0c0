"""The command line of `flytui-sidecar`, and what starting costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flysidecars.main import MODULES

HEAVY = (
    "argparse",
    "typing",
    "dataclasses",
    "subprocess",
    "asyncio",
    "mss",
    "PIL",
    "ctypes",
    "hashlib",
    "http",
    "websockets",
    "httpx2",
)

SHOW = """
import sys
sys.argv = ["flytui-sidecar", {name!r}]
from flysidecars.main import main
main()
sys.stderr.write("\\n".join(sys.modules))
"""


def test_list(starter) -> None:
    done = starter.run("--list")
    assert done.code == 0
    assert done.out.decode().split() == [
        "browser.cdp",
        "computer.native",
        "media.local",
        "mock.echo",
        "utility.local",
        "web.search",
        "wtype",
        "xdotool",
        "ydotool",
    ]


def test_unknown_name_offers_the_nearest(starter) -> None:
    done = starter.run("utility.locl")
    assert done.code == 2
    assert "did you mean utility.local?" in done.stderr
    assert done.out == b""


def test_unknown_name_is_drawn_safely(starter) -> None:
    done = starter.run("\x1b]0;x\x07")
    assert done.code == 2
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("arguments", [[], ["mock.echo", "--verbose"], ["mock.echo", "--probe", "x"]])
def test_usage(starter, arguments: list[str]) -> None:
    done = starter.run(*arguments)
    assert done.code == 2
    assert "usage: flytui-sidecar" in done.stderr


def test_help(starter) -> None:
    assert starter.run("--help").out.startswith(b"usage: flytui-sidecar")


@pytest.mark.parametrize("name", ["mock.echo", "utility.local"])
def test_probe_by_flag_reads_no_stdin(starter, name: str) -> None:
    with subprocess.Popen(
        starter.argv(name, "--probe"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=starter.env
    ) as process:
        assert process.stdout
        assert process.stdout.readline().startswith(b'{"ok": true')


@pytest.mark.parametrize("name", sorted(MODULES))
def test_an_answer_imports_only_what_it_needs(starter, name: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path[:0] = {starter.sources.split(':')!r}" + SHOW.format(name=name),
        ],
        input=starter.request("no.such.tool", {}),
        capture_output=True,
        check=True,
    )
    modules = set(done.stderr.decode().split())
    assert "flysidecars.sdk.sidecar" in modules
    assert modules.isdisjoint(HEAVY)
    others = {module for module in modules if module.startswith("fly")}
    assert not {module for module in others if module.split(".")[0] not in ("flysidecars", "flysafe")}


def test_the_walls_hold_at_run_time(starter) -> None:
    everything = (
        "import sys, flysidecars.main as m; from importlib import import_module;"
        "[import_module(name) for name in m.MODULES.values()];"
        "import flysidecars.browser.actions, flysidecars.browser.read_tools;"
        "import flysidecars.computer.x11.mouse, flysidecars.computer.x11.keyboard;"
        "import flysidecars.computer.screenshot, flysidecars.sdk.paths;"
        "print([n for n in sys.modules if n.split('.')[0] in ('flycore', 'flytui', 'textual', 'rich')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", everything], capture_output=True, check=True, env=starter.env
    )
    assert done.stdout.strip() == b"[]"


@pytest.mark.parametrize("arguments", [[], ["--probe"]])
def test_a_closed_stdin_is_an_empty_one(starter, arguments: list[str]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *starter.argv("mock.echo", *arguments)],
        capture_output=True,
        env=starter.env,
        check=False,
    )
    answer = starter.read(done.stdout).answer
    assert (done.returncode, answer["ok"]) == ((0, True) if arguments else (1, False))
    assert arguments or answer["code"] == "invalid-request"
