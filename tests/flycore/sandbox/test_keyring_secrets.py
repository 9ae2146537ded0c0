"""Declared secrets from a keyring: a real backend that keeps them in a file, and hostile ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flycore.model.enums import ReasonCode, Status
from flycore.model.login import Login, LoginSecret
from flycore.model.sidecar import Permissions
from flycore.registry.paths import find_paths
from flycore.sandbox import keyring_secrets
from flycore.sandbox.environment import declared_secrets
from flycore.sandbox.keyring_secrets import KeyringSecrets, ask_keyring, keep_in_keyring
from flycore.sandbox.login_store import IN_KEYRING, LoginStore
from kits.command_line import Desk
from kits.kernel import Root, kernel_of, request, tool

BACKEND = """
import json, os, sys, time
from keyring.backend import KeyringBackend

FILE = {file!r}

class InFile(KeyringBackend):
    priority = 1

    def get_password(self, service, name):
        with open(FILE + ".asked", "a") as asked:
            asked.write(name + chr(10))
        {get}
        try:
            return json.load(open(FILE)).get(service + "/" + name)
        except OSError:
            return None

    def set_password(self, service, name, value):
        {get}
        try:
            kept = json.load(open(FILE))
        except OSError:
            kept = {{}}
        json.dump({{**kept, service + "/" + name: value}}, open(FILE, "w"))

    def delete_password(self, service, name):
        kept = json.load(open(FILE))
        del kept[service + "/" + name]
        json.dump(kept, open(FILE, "w"))
"""
SAYS = """#!/bin/sh
read -r request
printf '{"ok": true, "is": "%s", "given": %s}\\n' "$KEPT_TOKEN" "${#KEPT_TOKEN}"
"""
VALUE = "kept-in-a-keyring-0123456789"


class Ring:
    """A keyring of this test, configured as a person configures one."""

    def __init__(self, base: Path) -> None:
        self.file = base / "ring.json"
        folder = base / "config" / "python_keyring"
        folder.mkdir(parents=True)
        (folder / "keyringrc.cfg").write_text(
            f"[backend]\ndefault-keyring=own_ring.InFile\nkeyring-path={base}\n"
        )
        self.module = base / "own_ring.py"
        self.behave("pass")
        self.environ = {"HOME": str(base), "PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(base / "config")}
        self.environ |= {"XDG_DATA_HOME": str(base / "data")}

    def behave(self, get: str) -> None:
        """What the backend does before it answers."""
        self.module.write_text(BACKEND.format(file=str(self.file), get=get))

    def asked(self) -> list[str]:
        """The names that the backend was asked for."""
        file = Path(f"{self.file}.asked")
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    pytest.importorskip("keyring")
    return Ring(tmp_path)


def test_what_is_kept_is_found_under_its_name_alone(ring: Ring) -> None:
    assert keep_in_keyring("KEPT_TOKEN", VALUE, ring.environ) == ""
    answer = ask_keyring(["KEPT_TOKEN", "OTHER"], ring.environ)
    assert (answer.values, answer.problem) == ({"KEPT_TOKEN": VALUE}, "")


def test_a_login_is_kept_in_the_keyring_and_leaves_it_when_it_ends(ring: Ring, tmp_path: Path) -> None:
    places = find_paths(str(tmp_path), None, ring.environ, tmp_path)
    store = LoginStore(places, ring.environ)
    secret = LoginSecret(tokens={"access_token": VALUE}, client={"client_id": "x"})
    login = Login(server="https://a.example/mcp", issuer="https://a.example", at=1.0, secret=secret)
    assert store.keep("web", login) == IN_KEYRING
    assert VALUE not in store.path.read_text()
    assert store.find("web", login.server) == login
    store.end("web", login, "was revoked")
    ended = store.find("web", login.server)
    assert ended is not None
    assert (ended.secret, ended.ended) == (None, "was revoked")
    assert VALUE not in ring.file.read_text()
    store.keep("web", login)
    assert store.remove("web") is not None
    assert (store.all(), VALUE in ring.file.read_text()) == ({}, False)
    ring.behave("raise ValueError('locked')")
    assert store.keep("web", login) == str(store.path)
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.find("web", login.server) == login


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        ("raise ValueError('it is kept-in-a-keyring')", "failed: ValueError"),
        ("os._exit(3)", "ended without an answer"),
        ("sys.exit('no')", "ended without an answer"),
        ("time.sleep(600)", "did not answer within 0.5 s"),
        ("os.write(2, b'x' * 10_000_000); raise OSError", "failed: OSError"),
    ],
)
def test_a_backend_that_misbehaves_gives_nothing_and_holds_nobody(
    ring: Ring, behaviour: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring.behave(behaviour)
    if "sleep" in behaviour:
        monkeypatch.setattr(keyring_secrets._ask, "__defaults__", (0.5,))
    answer = ask_keyring(["KEPT_TOKEN"], ring.environ)
    assert answer.values == {}
    assert problem in answer.problem
    assert "kept-in" not in answer.problem


def test_what_a_backend_prints_is_not_its_answer(ring: Ring) -> None:
    ring.behave("""print('{"values": {"KEPT_TOKEN": "forged-0123456789"}}', flush=True)""")
    assert ask_keyring(["KEPT_TOKEN"], ring.environ).values == {}


def test_a_value_that_is_no_text_counts_as_absent(ring: Ring) -> None:
    ring.behave("return 12345678901")
    assert ask_keyring(["KEPT_TOKEN"], ring.environ).values == {}


def test_only_what_is_missing_is_looked_up_and_not_at_once_again(ring: Ring) -> None:
    given = {**ring.environ, "SET": "in-the-environment"}
    found = KeyringSecrets()
    found.look_up(["SET", "KEPT_TOKEN"], given)
    found.look_up(["SET", "KEPT_TOKEN"], given)
    assert ring.asked() == ["KEPT_TOKEN"]
    keep_in_keyring("KEPT_TOKEN", VALUE, given)
    found.forget_missing()
    found.look_up(["SET", "KEPT_TOKEN"], given)
    assert found.over(given)["KEPT_TOKEN"] == VALUE
    assert VALUE not in repr(found)


def test_values_that_no_tool_can_be_given_are_refused() -> None:
    values = {"SHORT": "1234567", "NUL": "12345678\0", "LONG": "x" * 65_537, "LINES": "1234\n5678"}
    found, missing = declared_secrets(Permissions(secrets=tuple(values)), values)
    assert found == {"LINES": values["LINES"]}, "it is masked with its breaks and without"
    assert set(missing) == {"SHORT", "NUL", "LONG"}


@pytest.fixture
def root(ring: Ring, tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.environ |= ring.environ
    made.sidecar("keeps", SAYS, tool("keeps.do"), permissions={"secrets": ["KEPT_TOKEN"]})
    made.sidecar("other", SAYS, tool("other.do"), permissions={})
    return made


def allow_all(root: Root) -> None:
    """Let every call of the test run without a person."""
    root.policy({"tool": "*", "decision": "allow", "because": "test"})


@pytest.mark.anyio
async def test_a_kept_secret_reaches_its_own_tool_alone_and_nobody_reads_it(root: Root, ring: Ring) -> None:
    allow_all(root)
    keep_in_keyring("KEPT_TOKEN", VALUE, root.environ)
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "keeps.do"))
        other = await kernel.call(request(kernel, "other.do"))
    assert result.status is Status.SUCCESS, result
    assert isinstance(result.output, dict)
    assert result.output["given"] == len(VALUE)
    assert VALUE not in json.dumps(result.output)
    assert isinstance(other.output, dict)
    assert other.output["given"] == 0
    assert VALUE not in json.dumps(root.audit())


@pytest.mark.anyio
async def test_a_missing_secret_stops_the_call_and_names_both_ways(root: Root) -> None:
    allow_all(root)
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "keeps.do"))
    assert result.error is not None
    assert result.error.code == ReasonCode.SECRET_MISSING
    told = f"{result.error.message} {result.error.hint}"
    assert "set KEPT_TOKEN in the environment" in told
    assert "flytui secrets set KEPT_TOKEN" in told


@pytest.mark.anyio
async def test_an_entry_that_nobody_trusts_makes_no_keyring_asked(root: Root, ring: Ring) -> None:
    async with kernel_of(root, trusted=False):
        pass
    assert ring.asked() == []


def test_the_command_keeps_a_value_from_its_input_and_lists_names_only(ring: Ring, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "root", tmp_path, forked=False)
    desk.root.mkdir()
    entry = {"command": "./run", "permissions": {"secrets": ["KEPT_TOKEN", "ABSENT_TOKEN"]}, "tools": []}
    desk.write({"schemaVersion": 2, "sidecars": {"keeps": entry}})
    done = desk.run("secrets", "set", "KEPT_TOKEN", given=f"{VALUE}\n".encode())
    assert done.returncode == 0, done.stderr
    listed = desk.run("secrets", "list")
    rows = [line.split() for line in listed.stdout.splitlines()[1:]]
    assert ["KEPT_TOKEN", "keyring", "keeps"] in rows
    assert ["ABSENT_TOKEN", "–", "keeps"] in rows
    assert VALUE not in listed.stdout + done.stdout + done.stderr
    short = desk.run("secrets", "set", "KEPT_TOKEN", given=b"1234567\n")
    assert (short.returncode, "8 characters" in short.stderr) == (5, True)
