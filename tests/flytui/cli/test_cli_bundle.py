"""`flytui bundle`: only what a trusted key signed is applied, after a person saw it, and it only tightens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flycore.model.json import canonical_json
from flycore.offline.bundle_signature import DOMAIN, public_hex, read_key
from flycore.registry.bundles import KIND
from kits.command_line import ECHO_TOOL, Desk
from kits.tables import each_row

ENTRY = {"command": "flytui-sidecar", "args": ["mock.echo"], "tools": [{**ECHO_TOOL, "name": "team.echo"}]}
REGISTRY = {"schemaVersion": 2, "sidecars": {"team.local": ENTRY}}
DENY = {"tool": "try.echo", "decision": "deny", "because": "the team says no"}
KIT = {"id": "team", "kind": "capability", "name": "Team", "version": "1", "capabilityBindings": ["web.*"]}
KITS = {"schemaVersion": 1, "kits": [KIT]}


class Team:
    """A folder of a team with a private key, from which bundles are made."""

    def __init__(self, desk: Desk, key: str = "team.key") -> None:
        self.desk, self.folder = desk, desk.home
        self.key = self.folder / key
        made = desk.document("bundle", "key", str(self.key))
        assert made["outcome"] == "key-made"
        self.fingerprint: str = made["fingerprint"]

    def write(self, name: str, value: Any) -> str:
        (self.folder / name).write_text(json.dumps(value))
        return str(self.folder / name)

    def make(self, number: int, rules: list[Any] | None = None, registry: Any = REGISTRY) -> str:
        """A bundle with entries, rules and kits. Returns its path."""
        out = str(self.folder / f"acme-{number}-{self.key.name}.bundle")
        done = self.desk.run(
            *("bundle", "make", out, "--name", "acme", "--number", str(number), "--key", str(self.key)),
            *("--registry", self.write("r.jsonc", registry), "--kits", self.write("k.jsonc", KITS)),
            *("--policy", self.write("p.jsonc", {"schemaVersion": 1, "rules": rules or [DENY]})),
        )
        assert done.returncode == 0, done.stderr
        return out

    def apply(self, path: str, *more: str) -> dict[str, Any]:
        digest = self.desk.document("bundle", "verify", path)["digest"]
        return self.desk.document("bundle", "apply", path, "--digest", digest, *more)


@pytest.fixture
def team(desk: Desk) -> Team:
    return Team(desk)


def change(path: str, **more: Any) -> dict[str, Any]:
    """Change a bundle after it was signed. Returns its document."""
    document = json.loads(Path(path).read_text())
    document["payload"] |= more
    Path(path).write_text(json.dumps(document))
    return document


def sidecars(desk: Desk) -> dict[str, dict[str, Any]]:
    return {item["id"]: item for item in desk.document("catalog", "--all")["sidecars"]}


def test_a_bundle_is_verified_applied_after_a_yes_and_removed(team: Team) -> None:
    desk, path = team.desk, team.make(1)
    shown = desk.run("bundle", "verify", path)
    assert shown.returncode == 4  # nobody trusts the key
    assert "NOT TRUSTED" in shown.stdout
    assert team.fingerprint in shown.stdout
    assert "+ entry team.local" in shown.stdout
    assert "+ rule deny try.echo" in shown.stdout
    assert "+ kit team" in shown.stdout
    with desk.terminal("bundle", "apply", path) as terminal:
        terminal.until("do you trust this key? y/N")
        terminal.press("y\n")
        terminal.until("Apply it? y/N")
        terminal.press("y\n")
        assert terminal.end() == 0
    assert desk.run("bundle", "verify", path).returncode == 0
    assert [one["name"] for one in desk.document("bundle", "list")["bundles"]] == ["acme"]
    # Its entry waits for trust, like any other.
    (entry,) = (
        one for one in desk.document("trust", "--print-digest")["waiting"] if one["sidecar"] == "team.local"
    )
    assert any("bundle acme" in line for line in entry["lines"])
    assert desk.run("call", "team.echo", "message=hi", "--no-wait").returncode != 0
    desk.trust()
    denied = desk.document("call", "try.echo", "message=hi", "--no-wait")
    assert (denied["status"], denied["error"]["code"]) == ("denied", "policy")
    assert desk.document("bundle", "remove", "acme", "--yes")["outcome"] == "removed"
    assert desk.document("bundle", "list")["bundles"] == []
    assert "team.local" not in [one["sidecar"] for one in desk.document("trust", "--print-digest")["waiting"]]


@pytest.mark.parametrize("answers", [("n",), ("y", "n"), ("",), ("y", "always")])
def test_only_yes_applies(team: Team, answers: tuple[str, ...]) -> None:
    path = team.make(1)
    with team.desk.terminal("bundle", "apply", path) as terminal:
        for question, answer in zip(("this key? y/N", "Apply it? y/N"), answers, strict=False):
            terminal.until(question)
            terminal.press(f"{answer}\n")
        assert terminal.end() == 4
    listed = team.desk.document("bundle", "list")
    assert listed["bundles"] == []
    assert len(listed["keys"]) == (1 if answers[0] == "y" else 0)  # a key is asked about once


def test_scripts_name_the_digest_and_the_fingerprint(team: Team) -> None:
    path = team.make(1)
    assert "add --digest" in team.desk.run("bundle", "apply", path).stderr
    assert "nobody trusts its key" in team.apply(path)["message"]
    assert "another key than the one named" in team.apply(path, "--key", "0" * 64)["message"]
    wrong = team.desk.run("bundle", "apply", path, "--digest", "0" * 64, "--key", team.fingerprint)
    assert wrong.returncode == 4
    assert team.desk.document("bundle", "list")["keys"] == []
    assert team.apply(path, "--key", team.fingerprint)["outcome"] == "applied"
    assert team.desk.run("bundle", "apply", path).returncode == 0  # exactly this one is applied already


def test_an_update_shows_what_differs_and_an_older_one_is_asked_about(team: Team) -> None:
    first = team.make(1)
    team.apply(first, "--key", team.fingerprint)
    other = {"schemaVersion": 2, "sidecars": {"team.local": {**ENTRY, "timeoutMs": 5000}, "new.local": ENTRY}}
    second = team.make(2, [{**DENY, "tool": "other.*"}], other)
    plan = team.desk.document("bundle", "verify", second)
    assert (plan["standing"], plan["appliedNumber"]) == ("newer", 1)
    lines = plan["changes"]
    assert "± entry team.local" in lines
    assert "  + /timeoutMs: 5000" in lines
    assert "+ entry new.local" in lines
    assert "+ rule deny other.* · “the team says no”" in lines
    assert "- rule deny try.echo · “the team says no”" in lines
    assert not any("kit" in line for line in lines)
    assert team.apply(second)["outcome"] == "applied"
    again = team.apply(first)
    assert (again["standing"], again["outcome"]) == ("older", "shown")
    assert "number 1, and number 2 is applied" in again["message"]
    with team.desk.terminal("bundle", "apply", first) as terminal:
        terminal.until("although it is OLDER")
        terminal.press("n\n")
        assert terminal.end() == 4
    same_number = team.make(2, [{**DENY, "tool": "third.*"}])
    assert team.apply(same_number)["standing"] == "other"
    assert team.apply(first, "--older")["outcome"] == "applied"


def test_a_bundle_of_that_name_by_another_trusted_key_is_said_to_be_so(team: Team) -> None:
    team.apply(team.make(1), "--key", team.fingerprint)
    other = Team(team.desk, "other.key")
    found = other.apply(other.make(2), "--key", other.fingerprint)
    assert (found["standing"], found["outcome"]) == ("foreign", "shown")
    assert "ANOTHER KEY" in found["message"]


def test_a_forgotten_key_signs_nothing_more(team: Team) -> None:
    team.apply(team.make(1), "--key", team.fingerprint)
    assert team.desk.run("bundle", "forget", team.fingerprint.replace(" ", ":").upper()).returncode == 0
    assert "nobody trusts its key" in team.apply(team.make(2))["message"]
    assert team.desk.run("bundle", "forget", team.fingerprint).returncode == 5


def resigned(team: Team, path: str, message: bytes) -> None:
    """Replace the signature by one that the team's key made over other bytes."""
    key = read_key(team.key)
    document = json.loads(Path(path).read_text())
    document |= {"key": public_hex(key), "signature": key.sign(message).hex()}
    Path(path).write_text(json.dumps(document))


ATTACKS = {
    "changed rule": lambda team, path: change(path, policy={"schemaVersion": 1, "rules": []}),
    "changed number": lambda team, path: change(path, number=9),
    "changed name": lambda team, path: change(path, name="other"),
    "part taken out": lambda team, path: _without_part(path),
    "another key": lambda team, path: _with(path, key="0" * 64),
    "small key": lambda team, path: _with(path, key="01" + "0" * 62, signature="01" + "0" * 126),
    "another signature": lambda team, path: _with(path, signature="0" * 128),
    "other domain": lambda team, path: resigned(team, path, _canonical(path)),
    "longer domain": lambda team, path: resigned(team, path, DOMAIN + b"\0" + _canonical(path)),
    "truncated": lambda team, path: Path(path).write_bytes(Path(path).read_bytes()[:-40]),
    "empty": lambda team, path: Path(path).write_bytes(b""),
    "huge": lambda team, path: Path(path).write_bytes(Path(path).read_bytes() + b" " * 5_000_000),
    "deep": lambda team, path: Path(path).write_bytes(b"[" * 100_000),
    "key twice": lambda team, path: _twice(path),
    "more keys": lambda team, path: _with(path, approved=True),
    "other kind": lambda team, path: _with(path, kind="flytui.other"),
    "not there": lambda team, path: Path(path).unlink(),
    "folder": lambda team, path: (Path(path).unlink(), Path(path).mkdir()),
}


def _canonical(path: str) -> bytes:
    return canonical_json(json.loads(Path(path).read_text())["payload"]).encode()


def _with(path: str, **more: Any) -> None:
    Path(path).write_text(json.dumps(json.loads(Path(path).read_text()) | more))


def _without_part(path: str) -> None:
    document = json.loads(Path(path).read_text())
    del document["payload"]["policy"]
    Path(path).write_text(json.dumps(document))


def _twice(path: str) -> None:
    text = Path(path).read_text()
    Path(path).write_text(text.replace('"kind"', f'"kind": "{KIND}", "kind"', 1))


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_the_key_did_not_sign_is_refused(team: Team, attack: str) -> None:
    team.apply(team.make(1, [{**DENY, "tool": "old.*"}]), "--key", team.fingerprint)
    path = team.make(2)
    digest = team.desk.document("bundle", "verify", path)["digest"]
    ATTACKS[attack](team, path)
    for words in (("verify", path), ("apply", path, "--digest", digest, "--older")):
        done = team.desk.run("bundle", *words)
        assert done.returncode == (2 if attack == "folder" else 5)
        assert "Traceback" not in done.stderr
    assert team.desk.document("bundle", "list")["bundles"][0]["number"] == 1


LOOSER = [
    {"tool": "shell.run", "decision": "allow", "because": "please"},
    {"tool": "shell.run", "decision": "ALLOW", "because": "please"},
    {"tool": "shell.run", "because": "please"},
]


@pytest.mark.parametrize("rule", LOOSER)
def test_policy_that_loosens_or_is_not_understood_is_refused(team: Team, rule: dict[str, Any]) -> None:
    policy = team.write("p.jsonc", {"schemaVersion": 1, "rules": [DENY, rule]})
    words = ("--name", "acme", "--number", "1", "--key", str(team.key), "--policy", policy)
    out = team.folder / "acme.bundle"
    done = team.desk.run("bundle", "make", str(out), *words)
    assert done.returncode == 5
    assert not out.exists()
    # Somebody who signs it by other means gets no further.
    payload = {"name": "acme", "number": 1, "policy": {"schemaVersion": 1, "rules": [DENY, rule]}}
    key = read_key(team.key)
    signature = key.sign(DOMAIN + canonical_json(payload).encode()).hex()
    document = {
        "kind": KIND,
        "schemaVersion": 1,
        "payload": payload,
        "key": public_hex(key),
        "signature": signature,
    }
    out.write_text(json.dumps(document))
    assert team.desk.run("bundle", "verify", str(out)).returncode == 5
    assert team.desk.run("bundle", "apply", str(out), "--key", team.fingerprint).returncode == 5


@each_row(
    "entry", [{**ENTRY, "command": "./run"}, {**ENTRY, "command": "/bin/sh"}, {**ENTRY, "cwd": "config"}, 5]
)
def test_entries_that_no_bundle_can_have_are_refused(team: Team, entry: Any) -> None:
    registry = team.write("r.jsonc", {"schemaVersion": 2, "sidecars": {"team.local": entry}})
    words = ("--name", "acme", "--number", "1", "--key", str(team.key), "--registry", registry)
    done = team.desk.run("bundle", "make", str(team.folder / "acme.bundle"), *words)
    assert done.returncode == 5
    assert "team.local" in done.stderr


def test_texts_of_a_bundle_cannot_pass_for_lines_of_flytui(team: Team) -> None:
    because = "x\nkey        trusted\x1b[2J\u202e"
    shown = team.desk.run("bundle", "verify", team.make(1, [{**DENY, "because": because}])).stdout
    assert "key        trusted" not in shown.splitlines()
    assert "key        NOT TRUSTED yet" in shown.splitlines()
    assert not {"\x1b", "\u202e"} & set(shown)


def test_a_bundle_that_could_not_be_read_again_is_not_made(team: Team) -> None:
    deep: Any = {}
    for _ in range(64):
        deep = {"a": deep}
    registry = {"schemaVersion": 2, "sidecars": {"team.local": {**ENTRY, "config": deep}}}
    words = ("--name", "acme", "--number", "1", "--key", str(team.key))
    out = team.folder / "acme.bundle"
    done = team.desk.run("bundle", "make", str(out), *words, "--registry", team.write("r.jsonc", registry))
    assert done.returncode == 5
    assert not out.exists()
    # Each of two is small enough, and both together are not.
    many = {**ENTRY, "config": {"list": [[] for _ in range(15_000)]}}
    outcomes = []
    for name in ("one", "two"):
        value = team.write("r.jsonc", {"schemaVersion": 2, "sidecars": {f"{name}.local": many}})
        more = ("--name", name, "--number", "1", "--key", str(team.key), "--registry", value)
        assert team.desk.run("bundle", "make", str(out), *more).returncode == 0
        outcomes.append(team.apply(str(out), "--key", team.fingerprint))
    assert [one["outcome"] for one in outcomes] == ["applied", "refused"]
    assert "cannot be read among the applied ones" in outcomes[1]["message"]
    assert [one["name"] for one in team.desk.document("bundle", "list")["bundles"]] == ["one"]


def test_own_files_come_before_a_bundle(team: Team) -> None:
    """An entry of the project and rules of the user stay what they are."""
    desk = team.desk
    desk.allow()
    mine = {**REGISTRY, "sidecars": {"try.local": {**ENTRY, "args": ["other"]}}}
    team.apply(team.make(1, [{**DENY, "decision": "ask"}], mine), "--key", team.fingerprint)
    desk.trust()
    document = desk.document("inspect", "try.local")
    assert document["sidecar"]["entry"]["args"] == ["mock.echo"]
    explained = desk.document("policy", "explain", "try.echo", '{"message": "hi"}')
    assert explained["decision"] == "ask"  # the strictest wins


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_signs_nothing(team: Team, mode: int) -> None:
    assert team.key.stat().st_mode & 0o777 == 0o600
    team.key.chmod(mode)
    policy = team.write("p.jsonc", {"schemaVersion": 1, "rules": [DENY]})
    words = ("--name", "acme", "--number", "1", "--key", str(team.key), "--policy", policy)
    done = team.desk.run("bundle", "make", str(team.folder / "acme.bundle"), *words)
    assert done.returncode == 5
    assert "chmod 600" in done.stderr
    assert team.desk.run("bundle", "key", str(team.key)).returncode == 5  # and none is overwritten


def test_without_the_extra_the_reason_and_the_remedy_are_said(team: Team, tmp_path: Path) -> None:
    path = team.make(1)
    team.apply(path, "--key", team.fingerprint)
    (tmp_path / "shadow" / "cryptography").mkdir(parents=True)
    (tmp_path / "shadow" / "cryptography" / "__init__.py").write_text("raise ImportError('not installed')")
    without = Desk(team.desk.root, team.desk.home, forked=False)
    more = {"PYTHONPATH": str(tmp_path / "shadow")}
    for words in (("key", str(tmp_path / "k")), ("verify", path), ("apply", path)):
        done = without.run("bundle", *words, **more)
        assert done.returncode == 5
        assert "pip install 'flytui[bundle]'" in done.stderr
    # What is applied needs no library.
    listed = without.run("bundle", "list", "--json", **more)
    assert json.loads(listed.stdout)["bundles"][0]["name"] == "acme"
    explained = without.run("policy", "explain", "try.echo", '{"message": "hi"}', "--json", **more)
    assert json.loads(explained.stdout)["decision"] == "deny"
