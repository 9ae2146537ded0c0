"""What a call may reach, worked out from what its entry declares: values in, a value out."""

from __future__ import annotations

from typing import Any

import pytest

from flycore.model.json import JsonObject
from flycore.model.sidecar import Permissions
from flycore.sandbox.call_confinement import (
    CallFolders,
    NotPermitted,
    PathLimit,
    ProgramFiles,
    confinement_of,
)
from flycore.sandbox.confinement import Confinement, IfMissing, Mount
from kits.tables import each_row

FOLDERS = CallFolders(app_root="/p", cwd="/p", artifacts="/s/call", home="/home/u")
COPIED = ProgramFiles(
    roots=("/opt/py", "/p/tools/x/run"), parts=("/p/tools/x/lib",), copies=(("/p/tools/x", "/s/copy"),)
)


def confined(
    programs: tuple[ProgramFiles, ...] = (), given: JsonObject | None = None, **declared: Any
) -> Confinement:
    return confinement_of(Permissions(**declared), given or {}, FOLDERS, programs)


def paths(confinement: Confinement) -> dict[str, bool]:
    """The paths that can be reached, and whether each may be written."""
    return {mount.path: mount.writable for mount in confinement.mounts}


def test_without_permissions_there_is_the_program_and_the_artifact_folder() -> None:
    made = confined((ProgramFiles(roots=("/opt/py",), parts=("/p/tools/lib",)),))
    assert paths(made) == {"/opt/py": False, "/p/tools/lib": False, "/s/call": True}
    assert (made.network, made.unix_sockets, made.cwd) == (False, False, "/p")
    assert made.shown_empty == ("/p",)


def test_declared_paths_start_at_the_app_root() -> None:
    made = confined(read=(".", "docs/../src", "/srv/data", "~/models"), write=("out",), network=True)
    assert paths(made) == {
        "/p": False, "/p/src": False, "/srv/data": False, "/home/u/models": False,
        "/p/out": True, "/s/call": True,
    }  # fmt: skip
    assert made.network


def test_what_lies_in_the_project_is_opened_below_it() -> None:
    made = {mount.path: mount for mount in confined(read=("docs", "/srv/data"), write=("out",)).mounts}
    assert made["/p/docs"] == Mount("/p/docs", anchor="/p", if_missing=IfMissing.LEAVE_OUT)
    assert made["/p/out"] == Mount("/p/out", writable=True, anchor="/p", if_missing=IfMissing.MAKE_FOLDER)
    assert made["/srv/data"].anchor == ""


@each_row(
    ("declared", "value", "path"),
    [
        ("${input.dir}", "out", "/p/out"),
        ("${input.dir}/..", "out/new.zip", "/p/out"),
        ("${input.dir}/..", "new.zip", "/p"),
        ("${input.dir}", "/p/out", "/p/out"),
        ("out/${input.dir}", "a", "/p/out/a"),
        ("out/${input.dir}/x", "a/b", "/p/out/a/b/x"),
        ("out/${input.dir}", "/a", "/p/out/a"),
        ("/srv/${input.dir}", "a", "/srv/a"),
    ],
)
def test_the_input_fills_in_a_path(declared: str, value: str, path: str) -> None:
    made = confined(given={"dir": value}, write=(declared,))
    assert paths(made) == {path: True, "/s/call": True}
    anchors = {mount.path: mount.anchor for mount in made.mounts}
    assert anchors[path] == ("/srv" if path.startswith("/srv/") else "/p")


@each_row(
    ("declared", "value"),
    [
        ("${input.dir}", "/etc"),
        ("${input.dir}/..", "."),
        ("${input.dir}/..", "/p"),
        ("${input.dir}/../..", "out"),
        ("${input.dir}", "../other"),
        ("${input.dir}", "/p/../etc"),
        ("${input.dir}", "~/.ssh"),
        ("${input.dir}", "/pother"),
        ("out/${input.dir}", "../docs"),
        ("out/${input.dir}", "a/../../docs"),
        ("out/x${input.dir}", "/../../docs"),
        ("/srv/${input.dir}", "../etc"),
    ],
)
@each_row("kind", ["read", "write"])
def test_an_input_leads_to_no_other_folder(declared: str, value: str, kind: str) -> None:
    with pytest.raises(NotPermitted) as refused:
        confined(given={"dir": value}, **{kind: (declared,)})
    assert refused.value.path.startswith("/")
    assert declared in str(refused.value)


@each_row(
    ("declared", "limits", "within"),
    [
        ("out/${input.dir}", (), "/p/out"),
        ("${input.dir}", (), ""),
        ("/srv/${input.dir}", (), ""),
        ("out/a/b", (), ""),
        ("out/a/b", ("out",), "/p/out"),
        ("out/a/b", ("out", "."), ""),
        ("out", ("out",), ""),
        ("out/a/${input.dir}", ("out",), "/p/out/a"),
        ("out/${input.dir}", ("out/${input.dir}",), "/p/out"),
        ("/srv/a", ("/srv",), ""),
        ("~/a", ("/",), ""),
    ],
)
def test_links_stay_in_the_folder_of_an_input_and_of_the_limit(
    declared: str, limits: tuple[str, ...], within: str
) -> None:
    given = [PathLimit(read=limits), PathLimit(read=("/",))] if limits else []
    made = confinement_of(Permissions(read=(declared,)), {"dir": "x/y"}, FOLDERS, (), given)
    (mount,) = (mount for mount in made.mounts if not mount.writable)
    assert mount.within == within
    assert mount.anchor == ("/srv" if "srv" in declared else "/" if "~" in declared else "/p")


@each_row("declared", ["src", "out/../src", "outer", "${input.dir}", "/srv", "~", "."])
@each_row("kind", ["read", "write"])
def test_a_path_that_one_limit_does_not_allow_is_refused(declared: str, kind: str) -> None:
    limits = [PathLimit(read=("/",), write=("/",)), PathLimit(read=("out", "docs"), write=("out",))]
    wanted = Permissions(**{kind: (declared,)})
    with pytest.raises(NotPermitted, match="max_permissions"):
        confinement_of(wanted, {"dir": "src"}, FOLDERS, (), limits)


@each_row("value", [None, 7, "", ["a"], "a\0b"])
def test_an_input_without_such_a_text_grants_nothing(value: Any) -> None:
    assert paths(confined(given={"dir": value}, read=("${input.dir}",))) == {"/s/call": True}
    assert paths(confined(read=("${input.dir}",))) == {"/s/call": True}


def test_the_copy_of_a_sealed_folder_is_seen_in_its_place() -> None:
    made = confined((COPIED,), read=(".", "tools/x/lib"), write=("out",))
    assert Mount("/p/tools/x", source="/s/copy") in made.mounts
    # Nothing of the original comes back by another way: neither its own files nor a grant below it.
    assert paths(made) == {
        "/opt/py": False,
        "/p/tools/x": False,
        "/p": False,
        "/p/out": True,
        "/s/call": True,
    }


@pytest.mark.parametrize("path", ["tools/x", "tools/x/data", "/p/tools/x/../x"])
def test_no_tool_writes_to_its_sealed_program(path: str) -> None:
    with pytest.raises(NotPermitted, match="sealed"):
        confined((COPIED,), write=(path,))


def test_a_program_at_the_top_of_the_project_is_granted_itself() -> None:
    program = ProgramFiles(roots=("/p/run",), parts=("/p", "/", "/p/lib"))
    assert paths(confined((program,))) == {"/p/run": False, "/p/lib": False, "/s/call": True}


def test_each_program_of_a_call_can_be_read() -> None:
    made = confined((COPIED, ProgramFiles(roots=("/opt/lsp",))))
    assert {"/opt/py", "/opt/lsp", "/p/tools/x"} <= paths(made).keys()
