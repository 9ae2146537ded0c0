"""The facts of an entry in one line, and which entry is looked at first."""

from __future__ import annotations

import msgspec

from flycore.approval.entry_summary import COMMAND
from flycore.approval.trust_facts import riskiness, trust_facts
from flycore.model.enums import Anchor, Kind, PathState, ProgramAuthor
from flycore.model.program import ResolvedProgram
from flycore.model.question import TrustFacts
from flycore.model.sidecar import Delegate, Permissions, SidecarEntry, ToolClaim
from kits.tables import each_row
from kits.values import entry_of

ROOT = "/srv/shop"


def program(path: str, state: PathState = PathState.RESOLVED) -> ResolvedProgram:
    return ResolvedProgram(state=state, mode="path", base=Anchor.APP, declared=path, path=path, argv=(path,))


def facts(entry: SidecarEntry, path: str = "/usr/bin/tool", *, own: bool = False, **more: str) -> TrustFacts:
    programs = {COMMAND: program(path), **{name: program(at) for name, at in more.items()}}
    return trust_facts(entry, programs, ROOT, own=own, overrides=False)


@each_row(
    ("command", "args", "path", "author"),
    [
        ("tool", (), "/usr/bin/tool", ProgramAuthor.SYSTEM),
        ("./tools/x", (), f"{ROOT}/tools/x", ProgramAuthor.FOLDER),
        ("../x", (), "/srv/shopping/x", ProgramAuthor.SYSTEM),
        ("python3", ("./tools/x.py",), "/usr/bin/python3", ProgramAuthor.FOLDER),
        ("python3.11", ("-c", "import os"), "/usr/bin/python3.11", ProgramAuthor.FOLDER),
        ("node", ("/usr/lib/x.js",), "/usr/bin/node", ProgramAuthor.SYSTEM),
        ("sh", (f"{ROOT}/x.sh",), "/bin/sh", ProgramAuthor.FOLDER),
        ("npx", ("-y", "server"), "/usr/bin/npx", ProgramAuthor.DOWNLOADED),
        ("docker", ("run", "x"), "/usr/bin/docker", ProgramAuthor.DOWNLOADED),
    ],
)
def test_who_wrote_the_program(command: str, args: tuple[str, ...], path: str, author: ProgramAuthor) -> None:
    assert facts(entry_of("x", command=command, args=args), path).author is author


def test_flytui_s_own_program_with_a_delegate_of_the_folder_is_not_its_own_alone() -> None:
    entry = entry_of("x")
    assert facts(entry, own=True).author is ProgramAuthor.OWN
    helped = msgspec.structs.replace(entry, delegates={"ocr": Delegate(command="./ocr")})
    assert facts(helped, own=True, ocr=f"{ROOT}/ocr").author is ProgramAuthor.FOLDER
    assert facts(helped, own=True).author is ProgramAuthor.MISSING


def test_a_program_that_is_not_there_and_one_at_an_address() -> None:
    gone = {COMMAND: program("x", PathState.UNRESOLVED)}
    assert trust_facts(entry_of("x"), gone, ROOT, own=False, overrides=False).author is ProgramAuthor.MISSING
    server = entry_of("x", command="", url="https://mcp.example.com/x", kind=Kind.MCP)
    found = facts(server)
    assert (found.author, found.network, found.all_tools) == (ProgramAuthor.REMOTE, "mcp.example.com", True)


@each_row(
    ("path", "outside"),
    [
        ("notes", False),
        (".", False),
        (f"{ROOT}/notes", False),
        ("${input.path}/..", False),
        ("notes/../..", True),
        ("/srv/shopping", True),
        ("~/notes", True),
        ("${HOME}/notes", True),
        (".git/hooks", True),
        ("a/.env", True),
    ],
)
def test_which_writes_are_outside(path: str, outside: bool) -> None:
    found = facts(entry_of("x", permissions=Permissions(write=("notes", path))))
    assert found.writes == ("notes", path)
    assert found.writes_outside == ((path,) if outside else ())


def test_an_address_in_the_config_counts_as_the_network() -> None:
    entry = entry_of("x", config={"base": "https://example.com"})
    assert facts(entry).network == "*"
    assert facts(entry_of("x")).network == ""


def test_the_riskiest_comes_first() -> None:
    usual = TrustFacts(author=ProgramAuthor.OWN, tools=("file.hash",))
    order = [
        usual,
        msgspec.structs.replace(usual, writes=("notes",)),
        msgspec.structs.replace(usual, author=ProgramAuthor.SYSTEM),
        msgspec.structs.replace(usual, network="*"),
        msgspec.structs.replace(usual, writes=("~/x",), writes_outside=("~/x",)),
        msgspec.structs.replace(usual, author=ProgramAuthor.FOLDER),
        msgspec.structs.replace(usual, network="*", secrets=("TOKEN",)),
        msgspec.structs.replace(usual, author=ProgramAuthor.DOWNLOADED),
        msgspec.structs.replace(usual, author=ProgramAuthor.FOLDER, network="*", secrets=("TOKEN",)),
    ]
    ranks = [riskiness(one) for one in order]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)
    claims = (ToolClaim(name="a.b"), ToolClaim(name="a.c"))
    assert facts(entry_of("x", tools=("a.b", "a.c"))).tools == tuple(claim.name for claim in claims)
