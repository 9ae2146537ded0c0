"""The kernel's own table: every row of the specification, each with schemas that hold its examples."""

from __future__ import annotations

import subprocess
import sys

import jsonschema

from flycore.catalog.builtin import KNOWN, is_builtin_name
from flycore.catalog.risk import effect_sentence, template_fields
from flycore.catalog.schemas import check_input, check_schema, fill_defaults
from flycore.model.catalog import Capability
from flycore.model.enums import Layer
from flycore.model.json import JsonObject
from kits.tables import each_row

TABLE = """
browser.open        browser.cdp      computer       high    - browser url
browser.navigate    browser.cdp      computer       high    - browser url
browser.snapshot    browser.cdp      computer       medium  ro browser -
browser.screenshot  browser.cdp      computer       medium  ro browser -
browser.click       browser.cdp      computer       high    - browser target
browser.type        browser.cdp      computer       high    - browser target,text
browser.evaluate    browser.cdp      computer       high    - browser script
screen.screenshot   computer.native  computer       medium  ro desktop -
computer.window     computer.native  computer       medium  - desktop action
computer.mouse      computer.native  computer       high    - desktop action,x,y
computer.keyboard   computer.native  computer       high    - desktop action
vision.analyze      media.local      read           low     ro,cs - path
vision.ocr          media.local      read           low     ro,cs - path
audio.transcribe    media.local      read           low     ro,cs - path
audio.speak         media.local      message        medium  - speaker text
web.search          web.search       network        medium  ro,cs - query
web.fetch           web.search       network        medium  ro,cs - url
web.extract         web.search       network        medium  ro,cs - url
web.download        web.search       network,write  medium  cs - url,path
web.request         web.search       network        high    - - method,url
lsp.symbols         utility.local    read           low     ro,cs - -
lsp.diagnostics     utility.local    read           low     ro,cs - path
task.background     utility.local    execute        high    - tool action
file.hash           utility.local    read           low     ro,cs - path
archive.create      utility.local    write          medium  - tool paths,output
archive.extract     utility.local    write          medium  - tool archive,outputDir
data.convert        utility.local    write          medium  - tool from,to
computer.use        -                computer       high    - desktop -
browser.use         -                computer       high    - browser -
workspace.read      builtin          read           low     ro,cs - path
workspace.list      builtin          read           low     ro,cs - -
workspace.search    builtin          read           low     ro,cs - pattern
workspace.write     builtin          write          medium  - - path,content
workspace.edit      builtin          write          medium  - - path
workspace.patch     builtin          write          medium  - - patch
git.status          builtin          read           low     ro,cs - -
git.diff            builtin          read           low     ro,cs - -
git.log             builtin          read           low     ro,cs - -
git.show            builtin          read           low     ro,cs - rev
process.run         builtin          execute        high    - - argv
shell.run           builtin          execute        high    - - command
"""
LAYERS = {"-": Layer.HIGH, "builtin": Layer.BUILTIN}
ROWS = [line.split() for line in TABLE.strip().splitlines()]
ALL = list(KNOWN.values())


def _listed(text: str) -> list[str]:
    return [] if text == "-" else text.split(",")


@each_row("row", ROWS, ids=lambda row: row[0])
def test_row_of_the_table(row: list[str]) -> None:
    name, sidecar, classes, risk, flags, group, required = row
    capability = KNOWN[name]
    assert capability.sidecar == (None if sidecar in LAYERS else sidecar)
    assert list(capability.approval_class) == classes.split(",")
    assert capability.risk == risk
    assert capability.read_only == ("ro" in _listed(flags))
    assert capability.concurrency_safe == ("cs" in _listed(flags))
    assert capability.exclusive == (None if group == "-" else group)
    assert capability.input_schema.get("required", []) == _listed(required)
    assert capability.layer is LAYERS.get(sidecar, Layer.ATOMIC)
    assert capability.family == name.split(".")[0]


def test_nothing_but_the_table() -> None:
    assert sorted(KNOWN) == sorted(row[0] for row in ROWS)


@each_row("capability", ALL, ids=lambda item: item.name)
def test_descriptor_is_whole(capability: Capability) -> None:
    assert len(capability.description) > 40
    assert 0 < len(capability.summary) <= 80
    assert capability.tags
    assert capability.examples
    for schema in (capability.input_schema, capability.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert check_schema(schema) == ()
    assert capability.input_schema["additionalProperties"] is False
    properties = capability.input_schema["properties"]
    assert all("description" in rule for rule in properties.values())
    assert [rule for rule in properties.values() if rule["type"] == "string" and not _bounded(rule)] == []


def _bounded(rule: JsonObject) -> bool:
    return "maxLength" in rule or "enum" in rule


@each_row("capability", ALL, ids=lambda item: item.name)
def test_examples_pass_and_make_a_sentence(capability: Capability) -> None:
    for example in capability.examples:
        filled, violations = check_input(capability.input_schema, example)
        assert violations == ()
        sentence = effect_sentence(capability, filled)
        assert "(not given)" not in sentence


@each_row("capability", ALL, ids=lambda item: item.name)
def test_templates_speak_of_real_fields(capability: Capability) -> None:
    properties = capability.input_schema["properties"]
    templates = (capability.effect, *capability.effects.values())
    assert {field for template in templates for field in template_fields(template)} <= set(properties)
    if capability.effects:
        assert set(capability.effects) == set(properties["action"]["enum"])


@each_row(
    ("tool", "input"),
    [
        ("computer.keyboard", {"action": "type"}),
        ("computer.keyboard", {"action": "key", "text": "x"}),
        ("computer.keyboard", {"action": "type", "text": "x", "keys": "a"}),
        ("computer.keyboard", {"action": "key", "keys": "ctrl+"}),
        ("computer.keyboard", {"action": "key", "keys": "a; rm"}),
        ("computer.mouse", {"action": "click", "x": 1}),
        ("computer.mouse", {"action": "click", "x": 1, "y": 1, "toX": 3}),
        ("computer.mouse", {"action": "drag", "x": 1, "y": 1}),
        ("computer.mouse", {"action": "scroll", "x": 1, "y": 1}),
        ("computer.mouse", {"action": "fly", "x": 1, "y": 1}),
        ("computer.mouse", {"action": "click", "x": -1, "y": 1}),
        ("computer.window", {"action": "focus"}),
        ("computer.window", {"action": "list", "window": "x"}),
        ("task.background", {"action": "start"}),
        ("task.background", {"action": "stop"}),
        ("data.convert", {"from": "json", "to": "yaml"}),
        ("data.convert", {"from": "json", "to": "yaml", "path": "a", "input": "b"}),
        ("lsp.symbols", {}),
        ("web.fetch", {"url": "file:///etc/passwd"}),
        ("web.request", {"method": "TRACE", "url": "https://example.org"}),
        ("web.request", {"method": "GET", "url": "https://example.org", "headers": {"a b": "c"}}),
        ("file.hash", {"path": ""}),
        ("file.hash", {"path": "a", "approved": True}),
        ("computer.use", {}),
        ("computer.use", {"action": "click"}),
        ("computer.use", {"action": "wait", "ms": 1, "plan": [{"action": "wait", "ms": 1}]}),
        ("browser.use", {"plan": [{"action": "open"}]}),
        ("browser.use", {"plan": []}),
    ],
)
def test_input_that_is_refused(tool: str, input: JsonObject) -> None:
    schema = KNOWN[tool].input_schema
    assert check_input(schema, input)[1]
    assert not jsonschema.Draft202012Validator(schema).is_valid(fill_defaults(schema, input))


@each_row(
    ("name", "builtin"),
    [
        ("workspace.read", True),
        ("git.status", True),
        ("process.run", True),
        ("shell.run", True),
        ("workspaces.read", False),
        ("file.hash", False),
    ],
)
def test_names_the_kernel_keeps(name: str, builtin: bool) -> None:
    assert is_builtin_name(name) is builtin


def test_importing_the_catalog_is_cheap() -> None:
    modules = "build, document, probes, snapshot, schemas, builtin, diff"
    heavy = "('jsonschema', 'jsonschema_rs', 'referencing', 'packaging', 'textual', 'rich', 'mcp')"
    code = (
        f"import sys; from flycore.catalog import {modules}; len(builtin.KNOWN);"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
