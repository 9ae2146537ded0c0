"""The files of other systems: what is said of them, and that none of them does harm."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from flycore.discovery.other_systems import gibson, glee, ybs
from flycore.discovery.other_systems.model import is_secret, project_path
from flycore.model.diagnostics import Severity
from flycore.model.durations import duration_ms
from flycore.model.migration import Verdict
from flycore.offline.migrate import MigrationPlan, apply_migration, plan_migration
from flycore.registry.paths import RootPaths, find_paths
from kits.mutations import mutated
from kits.tables import each_row

SECRET = "sk-live-0123456789abcdef"
TIMES = 100
YBS: dict[str, Any] = {
    "llm": {"api_key": SECRET},
    "externalTools": {"searchPaths": ["~/t", "./tools"], "defaultTimeout": 30.0, "enabled": True},
    "tools": {
        "search_paths": ["./more"],
        "external": [{"name": "search", "type": "executable", "path": "./scripts/search", "enabled": False}],
        "builtin": {},
    },
}
GIBSON: dict[str, Any] = {
    "kind": "tool",
    "name": "nmap",
    "version": "1.0.0",
    "description": "Scans.",
    "runtime": {
        "type": "python",
        "entrypoint": "main.py",
        "args": ["--fast"],
        "env": {"TOKEN": SECRET, "LANG": "C", "LD_PRELOAD": "x"},
        "timeout": "5m",
    },
    "dependencies": {"env": {"SHODAN_KEY": "", "LC_ALL": ""}},
}
GLEE: dict[str, Any] = {
    "security": {"max_permissions": {"network": True, "fs": {"read": ["."], "write": []}, "secrets": ["A"]}}
}
MANIFEST: dict[str, Any] = {
    "name": "find",
    "description": "Finds.",
    "kind": "http",
    "inputs": {"schema": {"type": "object", "properties": {"q": {"type": "string"}}}},
    "exec": {"http": {"url": "https://example.com/${q}", "headers": {"Authorization": "Bearer ${FIND_KEY}"}}},
    "permissions": {"secrets": {"FIND_KEY": {"type": "string"}}},
}


def yaml(value: Any) -> str:
    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump(value, stream)
    return stream.getvalue()


def planned(root: Path, files: dict[str, str]) -> tuple[RootPaths, MigrationPlan]:
    """The plan for a root with these files."""
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
    environ = {"HOME": str(root.parent / "home")}
    places = find_paths(str(root), None, environ, root)
    return places, plan_migration(places, environ)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def verdict_of(plan: MigrationPlan, subject: str) -> tuple[Verdict, str]:
    (line,) = [line for line in plan.lines if line.subject == subject]
    return line.verdict, line.text


# --- no file does harm


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        (".ybs.json", YBS),
        ("component.yaml", GIBSON),
        (".glee/config.yml", GLEE),
        (".glee/tools/find/tool.yml", MANIFEST),
    ],
)
def test_mutated_files_are_read_and_no_secret_is_copied(root: Path, name: str, seed: Any) -> None:
    chance = random.Random(11)
    checks = {".ybs.json": ybs.check, "component.yaml": gibson.check, ".glee/config.yml": glee.check}
    for _ in range(TIMES):
        value = mutated(seed, chance)
        if name.endswith(("yml", "yaml")):
            value = json.loads(json.dumps(value).replace("\\u0000", "?"))
            text = yaml(value)
        else:
            text = json.dumps(value)
        for finding in checks[name](text, name) if name in checks else ():
            assert finding.position is not None
            assert finding.remedy
            assert SECRET not in finding.message + finding.remedy
        plan = planned(root, {name: text})[1]
        for file in plan.files:
            assert SECRET not in file.after
            assert file.path.startswith("tools/")


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 4_000,
        "a: &a [1]\nb: [*a, *a]\n",
        "!!python/object/apply:os.system ['touch ran']\n",
        "\ufeff\x00",
        "- 1\n",
        "x" * 300_000,
    ],
)
def test_hostile_texts_are_refused_with_a_place(root: Path, text: str) -> None:
    names = ("component.yaml", ".glee/config.yml", ".glee/tools/find/tool.yml", ".ybs.json")
    _, plan = planned(root, dict.fromkeys(names, text))
    assert plan.files == ()
    assert [line.verdict for line in plan.lines] == [Verdict.CANNOT] * len(names)
    assert not (root / "ran").exists()


# --- what is said


def found(problems: list[Any]) -> list[tuple[str, str, Severity]]:
    return [(item.rule, item.pointer, item.severity) for item in problems]


def test_what_is_wrong_with_a_configuration_of_ybs() -> None:
    text = json.dumps(
        {
            "externalTools": {"searchPaths": ["../x", "a", "./a", 7], "defaultTimeout": -1, "enabled": "yes"},
            "tools": {"external": [{"name": "x"}]},
            "llm": {"api_key": SECRET, "max_tokens": "40000000000000000000"},
        }
    )
    assert found(ybs.check(text, ".ybs.json")) == [
        ("search-path", "/externalTools/searchPaths/0", Severity.WARNING),
        ("search-path", "/externalTools/searchPaths/2", Severity.WARNING),
        ("config-value", "/externalTools/searchPaths/3", Severity.ERROR),
        ("duration", "/externalTools/defaultTimeout", Severity.ERROR),
        ("config-value", "/externalTools/enabled", Severity.ERROR),
        ("config-value", "/tools/external/0", Severity.ERROR),
        ("secret-value", "/llm/api_key", Severity.WARNING),
    ]


def test_what_is_wrong_with_a_component() -> None:
    text = "name: a b\nversion: 1.0\nruntime:\n  type: go\n  args: [--token, x]\n  env: [1]\ntimeout: soon\n"
    problems = gibson.check(text, "component.yaml")
    assert found(problems) == [
        ("component", "/name", Severity.ERROR),
        ("component", "/version", Severity.ERROR),
        ("component", "/runtime/entrypoint", Severity.ERROR),
        ("secret-value", "/runtime/args", Severity.WARNING),
        ("component", "/runtime/env", Severity.ERROR),
        ("duration", "/timeout", Severity.ERROR),
    ]
    assert [str(item.position) for item in problems][1] == "component.yaml:2:1"


def test_what_is_wrong_with_a_limit_of_glee() -> None:
    text = "security:\n  max_permissions: {network: maybe, fs: {read: .}, secrets: [1]}\n"
    assert [pointer.rpartition("/")[2] for _, pointer, _ in found(glee.check(text, "x"))] == [
        "network",
        "read",
        "secrets",
    ]


@each_row(
    ("value", "milliseconds"),
    [
        (30.0, 30_000),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
        ("250ms", 250),
        ("10", 10_000),
        ("soon", None),
        ("", None),
        (0, None),
        (-1, None),
        (True, None),
        ("25h", None),
        (float("nan"), None),
        (10**400, None),
        (None, None),
    ],
)
def test_durations(value: Any, milliseconds: int | None) -> None:
    assert duration_ms(value) == milliseconds


def test_paths_stay_in_the_project() -> None:
    app_root = Path("/srv/shop")
    assert project_path("./a/b", app_root) == "a/b"
    assert project_path("/srv/shop/a", app_root) == "a"
    assert project_path("/srv/shop", app_root) == "."
    for other in ("/srv/shopping/a", "../a", "a/../../b", "~/a", "", "a\x00", "a\u202eb", "${x}/a", "/etc"):
        assert project_path(other, app_root) is None


def test_secrets_are_known_by_name_and_by_form() -> None:
    assert is_secret("api_key", "x")
    assert is_secret("comment", SECRET)
    for key, text in (("max_tokens", "4000"), ("api_key", "${API_KEY}"), ("api_key", ""), ("name", "nmap")):
        assert not is_secret(key, text)


# --- what is planned


def test_a_component_in_python_gets_its_interpreter_and_no_value_of_a_secret(root: Path) -> None:
    _, plan = planned(root, {"tools/scan/component.yaml": yaml(GIBSON)})
    (file,) = plan.files
    entry = json.loads(file.after)["sidecars"]["nmap"]
    assert (entry["command"], entry["args"]) == ("python3", ["./tools/scan/main.py", "--fast"])
    assert entry["permissions"] == {"secrets": ["SHODAN_KEY", "TOKEN"]}
    assert (entry["env"], entry["passEnv"]) == ({"LANG": "C", "LD_PRELOAD": "x"}, ["LC_ALL"])
    assert entry["timeoutMs"] == 300_000
    assert "LD_PRELOAD is set, which decides which code is loaded" in verdict_of(plan, "nmap")[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "agent"}, "flytui runs tools only"),
        ({"runtime": {"type": "grpc", "entrypoint": "x", "port": 1}}, "gRPC"),
        ({"runtime": {"type": "docker", "entrypoint": "x", "image": "x"}}, "container"),
        ({"runtime": {"type": "go", "entrypoint": "/usr/bin/nmap"}}, "outside the project"),
        ({"runtime": {"type": "go", "entrypoint": "../../nmap"}}, "outside the project"),
        (
            {"runtime": {"type": "go", "entrypoint": "./x", "args": [f"--key={SECRET}"]}},
            "looks like a secret",
        ),
    ],
)
def test_what_a_component_cannot_be(root: Path, change: dict[str, Any], said: str) -> None:
    _, plan = planned(root, {"component.yaml": yaml({**GIBSON, **change, "dependencies": {}})})
    assert plan.files == ()
    verdict, text = verdict_of(plan, "nmap")
    assert verdict is Verdict.CANNOT
    assert said in text


def test_what_search_path_is_carried_over(root: Path) -> None:
    home = root.parent / "home"
    listed = [
        *("~/t/", f"{home}/u", "/opt/t//", "tools", "./tools"),
        *("/", "~/", ".", "../t", "~root/t", ".ybs/tools"),
    ]
    _, plan = planned(root, {".ybs.json": json.dumps({"externalTools": {"searchPaths": listed}})})
    (file,) = plan.files
    kept = json.loads(file.after)["externalTools"]["searchPaths"]
    assert kept == ["~/t", "~/u", "/opt/t", "./tools"]
    verdicts = {line.subject: line.verdict for line in plan.lines}
    assert verdicts["./tools"] is Verdict.PRESENT
    assert verdicts[".ybs/tools"] is Verdict.AS_IS
    for path in ("/", "~/", ".", "../t", "~root/t"):
        assert verdicts[path] is Verdict.CANNOT


def changed_manifest(**changes: Any) -> str:
    return "# kept\n" + yaml({**MANIFEST, **changes})


def test_a_request_gets_the_network_and_keeps_its_comments(root: Path) -> None:
    _, plan = planned(root, {".glee/tools/find/tool.yml": changed_manifest()})
    assert verdict_of(plan, "find")[0] is Verdict.REWRITTEN
    (file,) = plan.files
    assert file.after.startswith("# kept\n")
    written = YAML(typ="safe", pure=True).load(file.after)
    assert written == {**MANIFEST, "permissions": {**MANIFEST["permissions"], "network": True}}


def test_absolute_paths_of_a_manifest_become_relative_or_are_left_out(root: Path) -> None:
    text = changed_manifest(
        kind="command",
        exec={"command": {"entrypoint": f"{root}/scripts/run", "cwd": str(root)}},
        permissions={"fs": {"read": [f"{root}/docs", "/etc", "."]}},
    )
    _, plan = planned(root, {".glee/tools/find/tool.yml": text})
    (file,) = plan.files
    written = YAML(typ="safe", pure=True).load(file.after)
    assert written["exec"]["command"] == {"entrypoint": "./scripts/run", "cwd": "."}
    assert written["permissions"]["fs"]["read"] == ["docs", "."]
    assert "network" not in written["permissions"]
    assert str(root) not in file.after


HTTP = {"url": "https://example.com"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "other"}, "that of its folder"),
        ({"exec": {"http": {**HTTP, "headers": {"Authorization": "Bearer abc"}}}}, "looks like a secret"),
        ({"exec": {"http": {**HTTP, "query": {"api_key": "abc"}}}}, "looks like a secret"),
        ({"exec": {"http": {"url": f"https://example.com/?x={SECRET}"}}}, "looks like a secret"),
        ({"examples": [{"params": {"q": SECRET}}]}, "looks like a secret"),
        ({"exec": {"http": {"url": "https://${host}/"}}}, "neither an input nor a declared secret"),
        ({"exec": {"command": {"entrypoint": "x"}}}, "exec"),
        ({"kind": "command", "exec": {"command": {"entrypoint": "/bin/sh"}}}, "leads out of the project"),
        ({"approval": {"required": True}}, "gives no reason"),
        ({"version": []}, "must be"),
    ],
)
def test_what_a_manifest_cannot_be(root: Path, changes: dict[str, Any], said: str) -> None:
    _, plan = planned(root, {".glee/tools/find/tool.yml": changed_manifest(**changes)})
    assert plan.files == ()
    verdict, text = verdict_of(plan, "find")
    assert verdict is Verdict.CANNOT
    assert said in text
    assert SECRET not in text


def test_a_key_that_flytui_does_not_know_is_said(root: Path) -> None:
    _, plan = planned(root, {".glee/tools/find/tool.yml": changed_manifest(run="rm")})
    verdict, text = verdict_of(plan, "find")
    assert verdict is Verdict.REWRITTEN
    assert "run: not a known key" in text


def test_a_secret_in_a_comment_is_not_copied(root: Path) -> None:
    _, plan = planned(root, {".glee/tools/find/tool.yml": changed_manifest() + f"# was {SECRET}\n"})
    assert plan.files == ()
    assert "looks like a secret" in verdict_of(plan, "find")[1]


def test_a_target_that_changed_since_the_plan_is_not_written(root: Path) -> None:
    registry = root / "tools" / "external.tools.jsonc"
    registry.parent.mkdir()
    registry.write_text('{"schemaVersion": 2, "sidecars": {}}')
    limit = "security: {max_permissions: {fs: {read: [src, /etc]}}}"
    places, plan = planned(root, {"component.yaml": yaml(GIBSON), ".glee/config.yml": limit})
    registry.write_text('{"schemaVersion": 2, "sidecars": {} }')
    result = apply_migration(places, plan)
    assert result.written == ()
    assert "changed in the meantime" in result.why_not
    places, plan = planned(root, {})
    (root / "tools" / "config.jsonc").write_text("{}")
    result = apply_migration(places, plan)
    assert result.written == ("tools/external.tools.jsonc",)
    assert "File exists" in result.why_not
    assert (root / "tools" / "config.jsonc").read_text() == "{}"


def test_a_byte_order_mark_stays(root: Path) -> None:
    registry = root / "tools" / "external.tools.jsonc"
    registry.parent.mkdir()
    registry.write_bytes(b'\xef\xbb\xbf{"schemaVersion": 2, "sidecars": {}}')
    places, plan = planned(root, {"component.yaml": yaml(GIBSON)})
    assert apply_migration(places, plan).why_not == ""
    assert registry.read_bytes().startswith(b'\xef\xbb\xbf{"schemaVersion"')
    assert b"nmap" in registry.read_bytes()
