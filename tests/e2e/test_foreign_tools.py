"""Tools of other systems, where their own documents put them: trusted once by keys in a console, then called
from the console's form, from the command line and by an agent over MCP. There is no line of configuration of
flytui's own: no registry, no settings, no policy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kits.agent import Agent, approve_card
from kits.executables import program, put
from kits.programs import needs_bubblewrap
from kits.scenes import assert_whole
from kits.terminals import PATIENCE, Root, Tmux, console, needs, until
from kits.web_servers import Talk, Web, serving

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(300)]

ECHO = {
    "name": "echo",
    "description": "Sends a message back.",
    "parameters": {"message": {"type": "string", "description": "What to send back.", "required": True}},
}
ECHO_BODY = """
text = data.get("message", "")
print(json.dumps({"success": True, "result": f"Echo: {text}", "metadata": {"length": len(text)}}))
"""
SEARCH = {
    "name": "web_search",
    "description": "Searches the web, in a mock.",
    "parameters": {"query": {"type": "string", "description": "What to find.", "required": True}},
}
SEARCH_BODY = """
print(json.dumps({"success": True, "result": "Search results for: " + data["query"]}))
"""
FORTUNE = {"name": "fortune", "description": "Tells a fortune.", "parameters": {}}
FORTUNE_BODY = """
import random
print(json.dumps({"success": True, "result": random.choice(["A fine day.", "A fine year."])}))
"""
PING = {
    "name": "ping",
    "version": "2.1.0",
    "description": "Looks which hosts answer.",
    "tags": ["network", "recon"],
    "input_schema": {
        "type": "object",
        "properties": {
            "targets": {"type": "array", "items": {"type": "string"}},
            "count": {"type": "integer"},
        },
        "required": ["targets"],
    },
    "output_schema": {"type": "object", "properties": {"hosts": {"type": "array"}}, "required": ["hosts"]},
}
PING_BODY = """
assert os.environ["GIBSON_TOOL_MODE"] == "subprocess"
print(json.dumps({"success": False, "hosts": [{"host": host, "alive": True} for host in data["targets"]]}))
"""
YBS_CONFIG = {
    "externalTools": {
        "searchPaths": ["~/.ybs/tools", "./tools", "./.ybs/tools"],
        "defaultTimeout": 30.0,
        "enabled": True,
    }
}
GLEE_CONFIG = """\
security:
  max_permissions:
    network: true
    fs:
      read: ["."]
      write: [".glee/"]
    secrets: []
"""
WEB_SEARCH = """\
name: web_search
description: Searches the web.
kind: http
version: 1
inputs:
  schema:
    type: object
    additionalProperties: false
    required: [query]
    properties:
      query: {type: string, description: What to find}
      count: {type: integer, description: How many results, default: 10}
      freshness: {type: string, description: How old a result may be}
outputs:
  format: json
  schema:
    type: array
    items:
      type: object
      additionalProperties: false
      required: [title, url, description]
      properties: {title: {type: string}, url: {type: string}, description: {type: string}}
exec:
  http:
    method: GET
    url: URL/res/v1/web/search
    headers:
      Accept: application/json
      X-Subscription-Token: ${BRAVE_API_KEY}
    query: {q: "${query}", count: "${count}", freshness: "${freshness}"}
    response:
      json_path: web.results
      fields:
        - {name: title, path: title}
        - {name: url, path: url}
        - {name: description, path: description}
permissions:
  network: true
  fs: {read: [], write: []}
  secrets:
    BRAVE_API_KEY: {type: string, required: true}
approval:
  required: true
  reason: It sends a secret to another service
examples:
  - description: Frameworks
    params: {query: frameworks, count: 5}
    expected_output: |
      [{"title": "About frameworks", "url": "https://a.example/", "description": "5"}]
"""
SLACK_NOTIFY = """\
name: slack_notify
description: Sends a message to a channel.
kind: http
version: 1
inputs:
  schema:
    type: object
    additionalProperties: false
    required: [channel, message]
    properties:
      channel: {type: string}
      message: {type: string}
      thread_ts: {type: string, description: The thread of a reply}
outputs: {format: json}
exec:
  http:
    method: POST
    url: URL/api/chat.postMessage
    headers:
      Authorization: Bearer ${SLACK_BOT_TOKEN}
      Content-Type: application/json
    body: {channel: "${channel}", text: "${message}", thread_ts: "${thread_ts}"}
permissions:
  network: true
  fs: {read: [], write: []}
  secrets:
    SLACK_BOT_TOKEN: {type: string, required: true}
approval:
  required: true
  reason: It writes to other people
"""
REPO_SCAN = """\
name: repo_scan
description: Finds open work in the repository.
kind: command
version: 1
inputs:
  schema:
    type: object
    additionalProperties: false
    properties:
      path: {type: string, description: Where to look, default: "."}
outputs: {format: text}
exec:
  command:
    entrypoint: ./scripts/scan_todos.sh
    args: ["${path}"]
    cwd: .
    stdout: {format: text}
    exit_codes_ok: [0]
    timeout_ms: 30000
permissions:
  network: false
  fs: {read: ["."], write: []}
  secrets: {}
approval: {required: false}
examples:
  - description: The whole repository
    params: {path: src}
    expected_output: |
      Scan complete.
      Matches found: 2
"""
REPO_STATS = """\
name: repo_stats
description: Counts files and lines.
kind: python
version: 1
inputs:
  schema:
    type: object
    additionalProperties: false
    properties:
      path: {type: string, default: "."}
outputs: {format: json}
exec:
  python:
    module: tools.repo_stats
    function: run
    args: ["${path}"]
    venv: .venv
    cwd: .
    return: json
    timeout_ms: 30000
permissions:
  network: false
  fs: {read: ["."], write: []}
  secrets: {}
approval: {required: false}
"""
SCAN_SCRIPT = """#!/bin/sh
echo "Scan complete."
echo "Matches found: $(grep -r TODO "$1" | wc -l)"
"""
STATS_MODULE = """
import os
import re
import sys

def run(path):
    files = [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]
    lines = sum(len(open(file).readlines()) for file in files)
    return {"files": len(files), "loc": lines, "venv": sys.prefix.endswith("/.venv")}
"""
BRAVE_KEY, SLACK_TOKEN = "brave-7f3a9c1e55", "xoxb-1123581321"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    """A project and a home without any file of flytui."""
    needs("tmux", "python3")
    needs_bubblewrap()
    root = Root(tmp_path / "project", tmp_path / "home")
    root.folder.mkdir()
    root.home.mkdir()
    yield root
    root.end()


@contextmanager
def trusted_console(root: Root, *tools: str) -> Iterator[Tmux]:
    """A console in which a person has trusted everything that it asks about, so that the tools work."""
    with console(root, 130, 50) as tmux:
        tmux.sees("[Tt]rust")

        def accepted() -> bool:
            if re.search(r"more pages? before", tmux.screen()):
                tmux.keys("PageDown")
            elif "keys ready" in tmux.screen():
                tmux.keys("a")
            return all(tool in catalog(root) for tool in tools)

        until("the tools are trusted", accepted)
        yield tmux


def catalog(root: Root) -> dict[str, dict[str, Any]]:
    """The tools that can be used, by name."""
    listed = json.loads(root.flytui("tools", "list", "--json").stdout)["tools"]
    return {tool["name"]: tool for tool in listed if tool["status"] == "ready"}


def from_the_form(tmux: Tmux, root: Root, name: str, type_input: Callable[[Tmux], None], shows: str) -> None:
    """Call the tool from the form of the console, and approve it there."""
    tmux.keys("1")
    tmux.keys("/")
    tmux.sees("keep the filter")
    tmux.text(name)
    tmux.sees(rf"▌.*{name}")
    tmux.keys("Enter")
    tmux.lacks("keep the filter")
    tmux.keys("t")
    tmux.sees("Test call")
    type_input(tmux)
    tmux.sees("the input fits")
    tmux.keys("F5")
    approve_card(tmux, name)
    tmux.sees(shows)
    tmux.keys("Escape")
    tmux.lacks("Test call")
    tmux.keys("/")
    tmux.sees("keep the filter")
    tmux.keys("Escape")
    tmux.lacks("keep the filter")


def from_the_shell(tmux: Tmux, root: Root, name: str, **given: Any) -> Any:
    """The output of a call from the command line, which is approved in the console."""
    calling = root.start("call", name, json.dumps(given), "--json")
    approve_card(tmux, name)
    out, err = calling.communicate(timeout=PATIENCE)
    result = json.loads(out)
    assert result["status"] == "success", (result, err)
    return result["output"]


def from_an_agent(tmux: Tmux, agent: Agent, name: str, *, alias: str = "", **given: Any) -> dict[str, Any]:
    """The answer to a call over MCP, which is approved in the console. With `alias`, the call is made through
    the tool of that name, which calls others."""
    if alias:
        agent.call(alias, name=name, params=given)
    else:
        agent.call(name, **given)
    approve_card(tmux, name)
    answer = agent.answer()
    assert not answer["error"], answer["text"]
    return answer


@contextmanager
def agent_of(root: Root) -> Iterator[Agent]:
    agent = Agent(root)
    try:
        yield agent
    finally:
        agent.end()


def logged_callers(root: Root, tool: str) -> list[str]:
    """Who made each successful call of the tool."""
    lines = root.audit()
    ended = {
        line["callId"] for line in lines if line["event"] == "TOOL_EXECUTED" and line["status"] == "success"
    }
    called = [line for line in lines if line["event"] == "TOOL_CALLED" and line["callId"] in ended]
    return [line["caller"] for line in called if line["tool"] == tool]


def test_ybs_tools_from_its_folders_and_its_configuration(root: Root) -> None:
    put(root.home / ".ybs" / "tools", "fortune", program(FORTUNE, FORTUNE_BODY))
    put(root.folder / ".ybs" / "tools", "echo-tool", program(ECHO, ECHO_BODY))
    put(root.folder / "tools", "web-search", program(SEARCH, SEARCH_BODY))
    (root.folder / "BUILD_CONFIG.json").write_text(json.dumps(YBS_CONFIG))
    with trusted_console(root, "fortune", "echo", "web_search") as tmux:
        listed = root.flytui("--list-tools")
        assert all(
            word in listed.stdout for word in ("fortune", "executable", "Tells a fortune", ".ybs/tools")
        )
        from_the_form(tmux, root, "echo", lambda pane: pane.text("hello"), "Echo: hello")
        echoed = from_the_shell(tmux, root, "echo", message="hi")
        assert echoed == {"result": "Echo: hi", "metadata": {"length": 2}}
        assert from_the_shell(tmux, root, "fortune")["result"].startswith("A fine ")
        assert from_the_shell(tmux, root, "web-search", query="rain")["result"] == "Search results for: rain"
        with agent_of(root) as agent:
            assert from_an_agent(tmux, agent, "echo", message="hi")["output"]["result"] == "Echo: hi"
            assert from_an_agent(tmux, agent, "fortune")["output"]["result"].startswith("A fine ")
            found = from_an_agent(tmux, agent, "web_search", query="sun")
            assert found["output"]["result"] == "Search results for: sun"
            agent.call("echo", message=7)
            assert agent.answer()["error"] is True
    callers = logged_callers(root, "echo")
    assert [caller.endswith("via console") for caller in callers] == [True, False, False]
    assert_whole(root)


def test_gibson_tools_from_its_folder(root: Root) -> None:
    put(root.home / ".gibson" / "tools" / "bin", "ping", program(PING, PING_BODY))
    with trusted_console(root, "ping") as tmux:
        shown = catalog(root)["ping"]
        assert (shown["type"], shown["status"]) == ("executable", "ready")
        inspected = json.loads(root.flytui("inspect", "ping", "--json").stdout)
        assert "recon" in json.dumps(inspected)
        assert "2.1.0" in json.dumps(inspected)
        hosts = {"success": False, "hosts": [{"host": "localhost", "alive": True}]}
        from_the_form(tmux, root, "ping", _targets, r'"host": "localhost"')
        assert from_the_shell(tmux, root, "ping", targets=["localhost"]) == hosts
        listing = root.flytui("tool", "list")
        assert "ping" in listing.stdout
        with agent_of(root) as agent:
            assert from_an_agent(tmux, agent, "ping", targets=["localhost"])["output"] == hosts
        status = root.flytui("tool", "status")
        assert status.returncode == 0
        assert "ping" in status.stdout
    assert_whole(root)


def _targets(tmux: Tmux) -> None:
    """Add an item, which then has the cursor, and write it."""
    tmux.keys("F7")
    tmux.sees("targets 1")

    def is_written() -> bool:
        if re.search(r"targets 1.*\s+localhost", tmux.screen()):
            return True
        # Letters that come before the cursor is in the new field are lost, and a person writes them again.
        tmux.keys("C-u")
        tmux.text("localhost")
        time.sleep(1)
        return False

    until("the item is written", is_written)


def respond(talk: Talk) -> None:
    """Answer as the two services do."""
    if talk.path.startswith("/res/v1/web/search"):
        assert talk.header("X-Subscription-Token") == BRAVE_KEY
        count = talk.path.partition("count=")[2]
        result = {"title": "About frameworks", "url": "https://a.example/", "description": count, "age": 3}
        talk.json({"web": {"results": [result]}, "took": 1})
    else:
        assert talk.header("Authorization") == f"Bearer {SLACK_TOKEN}"
        talk.json({"ok": True, "got": json.loads(talk.body)})


def write_glee(root: Root, web: Web) -> None:
    """The four manifests of Glee with what they run, and its configuration."""
    for name, text in (
        ("web_search", WEB_SEARCH),
        ("slack_notify", SLACK_NOTIFY),
        ("repo_scan", REPO_SCAN),
        ("repo_stats", REPO_STATS),
    ):
        folder = root.folder / ".glee" / "tools" / name
        folder.mkdir(parents=True)
        (folder / "tool.yml").write_text(text.replace("URL", web.url))
    (root.folder / ".glee" / "config.yml").write_text(GLEE_CONFIG)
    put(root.folder / "scripts", "scan_todos.sh", SCAN_SCRIPT)
    (root.folder / "tools").mkdir()
    (root.folder / "tools" / "repo_stats.py").write_text(STATS_MODULE)
    (root.folder / "src").mkdir()
    (root.folder / "src" / "a.py").write_text("# TODO: one\nx = 1\n# TODO: two\n")
    venv = [sys.executable, "-m", "venv", "--without-pip", str(root.folder / ".venv")]
    subprocess.run(venv, check=True, capture_output=True, timeout=PATIENCE)


def test_glee_manifests_and_their_configuration(root: Root) -> None:
    root.extra.update(BRAVE_API_KEY=BRAVE_KEY, SLACK_BOT_TOKEN=SLACK_TOKEN)
    found = [{"title": "About frameworks", "url": "https://a.example/", "description": "10"}]
    with serving(respond) as web:
        write_glee(root, web)
        with trusted_console(root, "web_search", "slack_notify", "repo_scan", "repo_stats") as tmux:
            from_the_form(tmux, root, "web_search", lambda pane: pane.text("rain"), "About frameworks")
            assert from_the_shell(tmux, root, "web_search", query="a b&c") == found
            assert from_the_shell(tmux, root, "repo_scan", path="src") == "Scan complete.\nMatches found: 2\n"
            stats = from_the_shell(tmux, root, "repo_stats", path="src")
            assert stats == {"files": 1, "loc": 3, "venv": True}
            with agent_of(root) as agent:
                agent.call("glee_tools_list")
                names = {tool["name"] for tool in json.loads(agent.answer()["text"])}
                assert {"web_search", "slack_notify", "repo_scan", "repo_stats"} <= names
                searched = from_an_agent(tmux, agent, "web_search", alias="glee_tool", query="rain")
                assert json.loads(searched["text"]) == found
                sent = from_an_agent(tmux, agent, "slack_notify", channel="general", message='"hi" ${x}\n')
                assert sent["output"] == {"ok": True, "got": {"channel": "general", "text": '"hi" ${x}\n'}}
                scanned = from_an_agent(tmux, agent, "repo_scan", path="src")
                assert "Matches found: 2" in scanned["text"]
        asked = [talk.path for talk in web.asked]
        assert "/res/v1/web/search?q=a%20b%26c&count=10" in asked
    assert_whole(root)
    text = json.dumps(root.audit())
    assert BRAVE_KEY not in text
    assert SLACK_TOKEN not in text
