"""Skills, plugins and other clients' servers: what is found, what is refused, and what never shows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flycore.catalog.bindings import for_agents
from flycore.catalog.document import kits_document
from flycore.discovery.scan import scan, search_roots, stamps
from flycore.discovery.search_folder import MOST_LISTED, FileText
from flycore.discovery.server_import import import_proposal
from flycore.discovery.servers import servers_of
from flycore.discovery.skills import front_matter, skill
from flycore.model.described import Described, DescribedState, Origin, SourceKind
from flycore.registry.paths import find_paths
from kits.kernel import folders
from kits.tables import each_row

SKILL = "---\nname: {name}\ndescription: Does {name}.\nmetadata:\n  version: 1.0\n---\nBody.\n"
SECRET = "ghp_0123456789abcdefABCDEF0123456789abcd"


class World:
    """A project, a home, and what is found around them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "project"
        self.home = base / "home"
        self.root.mkdir()
        self.home.mkdir()
        self.environ = folders(self.home)
        self.places = find_paths(str(self.root), None, self.environ, self.root)
        self.grounds = search_roots(self.places, self.environ)

    def look(self, kind: SourceKind) -> list[Described]:
        return [item for item in scan(self.grounds) if item.kind is kind]

    def put(self, path: str, text: str, *, home: bool = False) -> Path:
        file = (self.home if home else self.root) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def servers(self, **servers: Any) -> dict[str, Described]:
        self.put(".mcp.json", json.dumps({"mcpServers": servers}))
        return {item.id: item for item in self.look(SourceKind.MCP_SERVER)}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_skills_of_project_and_person_are_found_and_the_projects_win(world: World) -> None:
    for folder in (".claude/skills", "skills"):
        world.put(f"{folder}/mend/SKILL.md", SKILL.format(name="mend"))
    world.put(".claude/skills/mend/SKILL.md", SKILL.format(name="mend"), home=True)
    world.put(".claude/skills/own/SKILL.md", SKILL.format(name="own"), home=True)
    found = world.look(SourceKind.SKILL)
    assert [(item.id, item.state.value, item.path) for item in found] == [
        ("mend", "listed", ".claude/skills/mend/SKILL.md"),
        ("mend", "shadowed", "skills/mend/SKILL.md"),
        ("mend", "shadowed", "~/.claude/skills/mend/SKILL.md"),
        ("own", "listed", "~/.claude/skills/own/SKILL.md"),
    ]
    assert found[0].summary == "Does mend."
    assert found[0].version == "1.0"


@each_row(
    ("text", "line"),
    [
        ("no front matter", 1),
        ("---\nname: x\n", 1),
        ("---\nname: [x\n---\n", None),
        ("---\nname: x\nname: y\ndescription: d\n---\n", 3),
        ("---\nname: &a x\ndescription: *a\n---\n", 3),
        ("---\na: &a [x,x]\nb: &b [*a,*a]\nname: n\n---\n", 3),
        ("---\n" + "a:\n " + "[" * 2_000 + "]" * 2_000 + "\n---\n", 3),
        ("---\nname: \x00\n---\n", None),
        ("---\n- x\n---\n", 1),
        ("---\nname: x\n---\n", 1),
        ("---\n---\n", 1),
        ("---\n? {a: b}\n: c\n---\n", None),
    ],
)
def test_a_front_matter_that_cannot_be_used_says_where_and_why(text: str, line: int | None) -> None:
    found = skill("x", "skills/x/SKILL.md", FileText(text), Origin.PROJECT)
    assert found.state is DescribedState.FAULTY
    (reason, *_) = found.reasons
    assert reason.position is not None
    assert reason.position.line == (line or reason.position.line)
    assert reason.remedy


def test_nothing_is_built_of_a_tag_and_every_value_is_text() -> None:
    front, fault = front_matter(
        "---\nname: !!python/object/apply:os.system [x]\nn: 1e9\nt: 2001-02-30\nb: yes\n---\n"
    )
    assert fault is None
    assert front == {"name": ["x"], "n": "1e9", "t": "2001-02-30", "b": "yes"}


def test_links_out_pipes_folders_and_giants_are_told_or_read_in_part_never_waited_for(world: World) -> None:
    outside = world.base / "outside"
    outside.mkdir()
    (outside / "SKILL.md").write_text(SKILL.format(name="stolen"))
    skills = world.root / "skills"
    for name in ("pipe", "folder", "linked", "giant"):
        (skills / name).mkdir(parents=True)
    os.mkfifo(skills / "pipe/SKILL.md")
    (skills / "folder/SKILL.md").mkdir()
    (skills / "linked/SKILL.md").symlink_to(outside / "SKILL.md")
    (skills / "away").symlink_to(outside)
    (skills / "giant/SKILL.md").write_text(SKILL.format(name="giant") + "x" * 50_000_000)
    os.mkfifo(world.root / ".mcp.json")
    (world.root / "tools/kits").mkdir(parents=True)
    (world.root / "tools/kits/kits.jsonc").write_text("[" + " " * 5_000_000)
    found = {item.id: item for item in world.look(SourceKind.SKILL)}
    assert {name: item.state.value for name, item in found.items()} == {
        "away": "faulty",
        "folder": "faulty",
        "giant": "listed",
        "linked": "faulty",
        "pipe": "faulty",
    }
    assert "stolen" not in str(kits_document(scan(world.grounds)))
    (server,) = world.look(SourceKind.MCP_SERVER)
    assert server.state is DescribedState.FAULTY
    assert any(item.state is DescribedState.FAULTY for item in world.look(SourceKind.KIT))


def test_of_ten_thousand_skills_some_are_listed_and_the_rest_is_counted(world: World) -> None:
    for at in range(10_000):
        (world.root / f"skills/s{at:05}").mkdir(parents=True)
    for at in range(400):
        (world.root / f"skills/s{at:05}/SKILL.md").write_text(SKILL.format(name=f"s{at:05}"))
    found = world.look(SourceKind.SKILL)
    assert len(found) == MOST_LISTED + 1
    assert str(10_000 - MOST_LISTED) in found[-1].reasons[0].message


def test_a_change_moves_the_stamps(world: World) -> None:
    before = stamps(world.grounds)
    file = world.put("skills/a/SKILL.md", SKILL.format(name="a"))
    added = stamps(world.grounds)
    file.write_text(SKILL.format(name="a") + "\n")
    changed = stamps(world.grounds)
    world.put(".claude.json", "{}", home=True)
    assert len({before, added, changed, stamps(world.grounds)}) == 4


def test_plugins_of_the_project_and_installed_ones_are_found(world: World) -> None:
    manifest = {"name": "fmt", "version": "2.1.0", "description": "Formats.", "hooks": "./hooks.json"}
    world.put(".claude-plugin/plugin.json", json.dumps({"name": "self"}))
    world.put("plugins/fmt/.claude-plugin/plugin.json", json.dumps(manifest))
    world.put("plugins/bad/.claude-plugin/plugin.json", '{"name": "../x"}')
    cache = world.home / ".claude/plugins/cache/market/deploy/1.0.0"
    world.put(
        ".claude/plugins/installed_plugins.json",
        json.dumps(
            {
                "version": 2,
                "plugins": {
                    "deploy@market": [{"scope": "user", "installPath": str(cache), "version": "1.0.0"}],
                    "far@market": [{"scope": "project", "projectPath": "/elsewhere", "version": "1"}],
                    "out@market": [
                        {"scope": "user", "installPath": f"{cache}/../../../../..", "version": "9"}
                    ],
                },
            }
        ),
        home=True,
    )
    world.put(
        ".claude/plugins/cache/market/deploy/1.0.0/.claude-plugin/plugin.json",
        '{"name": "deploy", "description": "Deploys."}',
        home=True,
    )
    found = {item.id: item for item in world.look(SourceKind.PLUGIN)}
    assert set(found) == {"self", "fmt", "../x", "deploy@market", "out@market"}
    assert found["fmt"].lines == ("brings hooks",)
    assert found["../x"].state is DescribedState.FAULTY
    assert found["deploy@market"].summary == "Deploys."


def test_a_servers_secrets_never_show_and_are_declared_instead(world: World) -> None:
    found = world.servers(
        github={
            "command": "npx",
            "args": ["-y", "server-github"],
            "env": {"GITHUB_TOKEN": "hunter2", "HARMLESS": SECRET, "LANG": "C", "FROM": "${FROM}"},
        },
        remote={
            "type": "http",
            "url": "https://mcp.example.org/mcp",
            "headers": {"Authorization": f"Bearer {SECRET}", "X-Team": "blue", "X-Key": "${TEAM_KEY}"},
        },
        inline={"command": "serve", "args": ["--token", "hunter2"]},
        address={"url": f"https://me:{SECRET}@example.org/mcp"},
        query={"url": "https://example.org/mcp?api_key=hunter2"},
    )
    whole = json.dumps(msgspec.to_builtins(tuple(found.values())))
    assert SECRET not in whole
    assert "hunter2" not in whole
    assert "GITHUB_TOKEN" in whole
    offer = found["github"].offer
    assert offer is not None
    assert offer.entry == {
        "kind": "mcp",
        "command": "npx",
        "args": ["-y", "server-github"],
        "env": {"LANG": "C"},
        "passEnv": ["FROM"],
        "permissions": {
            "network": True,
            "fs": {"write": ["~/.npm"]},
            "secrets": ["GITHUB_TOKEN", "HARMLESS"],
        },
    }
    assert any("GITHUB_TOKEN" in note for note in offer.notes)
    remote = found["remote"].offer
    assert remote is not None
    assert remote.entry["headers"] == {
        "Authorization": "Bearer ${REMOTE_AUTHORIZATION}",
        "X-Key": "${TEAM_KEY}",
        "X-Team": "blue",
    }
    assert remote.entry["permissions"] == {
        "network": True,
        "secrets": ["REMOTE_AUTHORIZATION", "TEAM_KEY"],
    }
    for name in ("inline", "address", "query"):
        assert found[name].offer is None
        assert found[name].reasons[0].remedy


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("flytui", {"command": "anything"}),
        ("tools", {"command": "flytui", "args": ["mcp"]}),
        ("tools", {"command": "/opt/bin/flytui", "args": ["--root", "x", "mcp"]}),
        ("tools", {"command": "uvx", "args": ["flytui@latest", "mcp"]}),
        ("tools", {"command": "python", "args": ["-m", "flytui", "mcp"]}),
    ],
)
def test_flytui_itself_is_never_offered(world: World, name: str, raw: dict[str, Any]) -> None:
    found = world.servers(**{name: raw})[name]
    assert found.state is DescribedState.ITSELF
    assert found.offer is None


@pytest.mark.parametrize(
    "raw",
    [
        {"command": "/usr/bin/server"},
        {"command": "../server"},
        {"command": "npx", "args": ["${HOME}/x"]},
        {"command": "npx", "env": {"A": "${B}/c"}},
        {"command": "npx", "cwd": "/elsewhere"},
        {"url": "ftp://example.org"},
        {"url": "https://example.org/sse", "type": "sse"},
        {"command": "x" * 20_000},
    ],
)
def test_what_a_registry_cannot_say_is_not_offered_and_says_why(world: World, raw: dict[str, Any]) -> None:
    found = world.servers(one=raw)["one"]
    assert found.offer is None
    assert found.reasons[0].message
    assert found.reasons[0].remedy


@pytest.mark.parametrize(
    "raw",
    [
        7,
        {},
        {"command": 7},
        {"command": ""},
        {"command": "x", "args": [1]},
        {"command": "x", "env": {"A": 1}},
    ],
)
def test_a_faulty_server_names_its_place(world: World, raw: Any) -> None:
    found = world.servers(one=raw, two={"command": "two"})
    assert found["one"].state is DescribedState.FAULTY
    assert found["one"].reasons[0].position is not None
    assert found["two"].offer is not None


def test_a_file_that_does_not_parse_shows_no_line_of_it() -> None:
    text = f'{{"mcpServers": {{"a": {{"env": {{"K": "{SECRET}" "oops"}}}}}}}}'
    (found,) = servers_of(FileText(text), ".mcp.json", Origin.PROJECT, "/x")
    assert found.state is DescribedState.FAULTY
    assert SECRET not in json.dumps(msgspec.to_builtins(found))


def test_the_persons_own_servers_are_found_for_this_project_only(world: World) -> None:
    mine = {
        "oauthAccount": {"token": SECRET},
        "mcpServers": {"everywhere": {"command": "one"}},
        "projects": {
            str(world.root): {"mcpServers": {"here": {"command": "two"}}},
            "/elsewhere": {"mcpServers": {"there": {"command": "three"}}},
        },
    }
    world.put(".claude.json", json.dumps(mine), home=True)
    world.put(".cursor/mcp.json", json.dumps({"mcpServers": {"cursor": {"command": "four"}}}), home=True)
    found = {item.id for item in world.look(SourceKind.MCP_SERVER)}
    assert found == {"everywhere", "here", "cursor"}


def test_an_agent_is_told_no_path_of_the_home_no_command_and_no_values(world: World) -> None:
    world.put(".cursor/mcp.json", '{"mcpServers": {"x": {"command": "secretive", "args": 7}}}', home=True)
    world.put(".claude/skills/own/SKILL.md", "nothing", home=True)
    told = json.dumps(kits_document(map(for_agents, scan(world.grounds))))
    assert "flytui.console" in told
    assert '"x"' in told
    for hidden in ("~", str(world.home), "secretive", ".cursor"):
        assert hidden not in told


def test_a_home_that_is_the_project_is_not_looked_in_twice(tmp_path: Path) -> None:
    environ = folders(tmp_path)
    places = find_paths(str(tmp_path), None, environ, tmp_path)
    assert search_roots(places, environ).home is None


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "NODE_OPTIONS", "PLAIN"])
def test_an_offer_says_which_variables_it_sets(name: str) -> None:
    raw: dict[str, Any] = {"command": "server", "env": {name: "./x", "PASSED": "${PASSED}"}}
    (note,) = [it for it in import_proposal("one", raw, "/app", frozenset()).notes if "variables" in it]
    assert note.endswith(f"which may change what runs: {', '.join(sorted((name, 'PASSED')))}")


def test_an_offer_asks_by_name_for_what_the_file_passes_and_reads_its_certificates() -> None:
    env = {
        "NODE_EXTRA_CA_CERTS": "/srv/ca/corp.pem",
        "SSL_CERT_FILE": "${SSL_CERT_FILE}",
        "REGION": "${env:REGION}",
        "NOTES_TOKEN": "${NOTES_TOKEN}",
    }
    found = import_proposal("one", {"command": "server", "env": env}, "/app", frozenset())
    assert found.entry["passEnv"] == ["REGION", "SSL_CERT_FILE"]
    assert found.entry["permissions"] == {"fs": {"read": ["/srv/ca/corp.pem"]}, "secrets": ["NOTES_TOKEN"]}
    notes = "\n".join(found.notes)
    assert "if they are set there: REGION, SSL_CERT_FILE" in notes
    assert "SSL_CERT_FILE names certificates" in notes
    assert "NODE_EXTRA_CA_CERTS names: /srv/ca/corp.pem" in notes


@pytest.mark.parametrize(
    ("name", "expected"), [("git", "git-server"), ("Shell", "shell-server"), ("github", "github")]
)
def test_an_import_takes_another_id_where_the_kernel_keeps_the_names(name: str, expected: str) -> None:
    found = import_proposal(name, {"command": "server"}, "/app", frozenset())
    assert found.id == expected
    assert any(f"{name.lower()} → {expected}" in note for note in found.notes) is (name != expected)


def test_an_import_proposes_what_a_runner_and_its_arguments_need(world: World) -> None:
    found = world.servers(
        fetched={"command": "uvx", "args": ["mcp-server-git", "--repository=/srv/shop"]},
        own={
            "command": "serve",
            "args": ["~/notes", "/", "~", "./docs", "../up", "/srv/../etc", "-v", "plain"],
        },
        plain={"command": "serve"},
    )
    offers = {name: described.offer for name, described in found.items()}
    proposed = {name: offer.entry["permissions"] for name, offer in offers.items() if offer is not None}
    assert proposed == {
        "fetched": {
            "network": True,
            "fs": {"read": ["/srv/shop"], "write": ["~/.cache/uv", "~/.local/share/uv"]},
        },
        "own": {"fs": {"read": ["~/notes", "./docs"]}},
        "plain": {},
    }
    assert offers["own"] is not None
    assert any("~/notes, ./docs" in note for note in offers["own"].notes)
