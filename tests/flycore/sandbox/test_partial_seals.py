"""What a seal holds besides the program, when it may be used again, and what is noticed after the start."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flycore.model.enums import Anchor, Code, Level, PathState, SealKind, Status
from flycore.model.program import ResolvedProgram, Seal
from flycore.sandbox import digests, seals
from flycore.sandbox.digests import ChangedWhileReadError
from flycore.sandbox.observed_files import real_path
from flycore.sandbox.seal_parts import StartConditions, named_paths
from flycore.sandbox.seals import changed_part, is_kept, seal_program
from kits.kernel import ECHO, Root, approved_call, kernel_of, request
from kits.tables import each_row


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def command(name: str, *args: str) -> ResolvedProgram:
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="path",
        base=Anchor.APP,
        declared=name,
        path=os.path.realpath(f"/usr/bin/{name}"),
        argv=(f"/usr/bin/{name}", *args),
    )


def conditions(project: Path, **more: object) -> StartConditions:
    known = {"anchors": (str(project),), "cwd": str(project), "level": Level.ENFORCED, **more}
    return StartConditions(**known)  # type: ignore[arg-type]  # the values are those of each test


def parts(seal: Seal) -> set[tuple[str, str]]:
    return {(part.path.rsplit("/", 1)[-1], part.why) for part in seal.parts}


@each_row(
    ("argument", "found"),
    [
        ("x.awk", "x.awk"),
        ("--file=x.awk", "x.awk"),
        ("-fx.awk", "x.awk"),
        ("@x.awk", "x.awk"),
        ("--data=@x.awk", "x.awk"),
        ("-d@x.awk", "x.awk"),
        ("file:x.awk", "x.awk"),
        ("file:///srv/x.awk", "/srv/x.awk"),
        (". ./lib.sh; run", "./lib.sh"),
        ("a:lib", "lib"),
        ("import helper", "helper"),
        ("pkg.mod", "pkg/mod"),
        ("pkg.mod", "pkg"),
        ("--checkpoint-action=exec=./run", "./run"),
        ("require('./dep')", "./dep"),
    ],
)
def test_names_in_an_argument(argument: str, found: str) -> None:
    assert found in named_paths(argument)


@pytest.mark.parametrize("argument", ["tools/x.awk", "--file=tools/x.awk", "-ftools/x.awk", "@tools/x.awk"])
def test_a_file_that_an_argument_names_and_its_folder_are_sealed(argument: str, project: Path) -> None:
    (project / "tools").mkdir()
    (project / "tools" / "x.awk").write_text("1")
    seal = seal_program(command("awk", argument), conditions(project))
    assert parts(seal) == {("x.awk", "argument"), ("tools", "folder")}
    assert "is given x.awk by argument" in seal.partial
    (project / "tools" / "beside").write_text("1")
    assert seal_program(command("awk", argument), conditions(project)).digest != seal.digest


def test_a_known_program_is_partial_only_by_what_it_is_given(project: Path) -> None:
    (project / "x.txt").write_text("1")
    assert seal_program(command("cat"), conditions(project)).complete
    assert not seal_program(command("cat", "x.txt"), conditions(project)).complete
    assert not seal_program(command("cat"), conditions(project, env=(("LD_PRELOAD", "x"),))).complete
    assert seal_program(command("cat"), conditions(project, env=(("LANG", "C"),))).complete


def test_what_a_loader_variable_names_is_sealed(project: Path) -> None:
    (project / "lib").mkdir()
    (project / "lib" / "m.py").write_text("1")
    with_path = conditions(project, env=(("PYTHONPATH", f"{project}/none:lib"),))
    seal = seal_program(command("env", "true"), with_path)
    assert ("lib", "PYTHONPATH") in parts(seal)
    assert "its environment sets PYTHONPATH, which Python reads" in seal.partial


def test_what_the_tool_declares_to_write_is_left_out_and_said(project: Path) -> None:
    (project / "tools").mkdir()
    (project / "tools" / "x.awk").write_text("1")
    (project / "tools" / "log").write_text("1")
    writes = conditions(project, written=(str(project / "tools" / "log"),))
    seal = seal_program(command("awk", "-f", "tools/x.awk"), writes)
    (project / "tools" / "log").write_text("another line")
    assert seal_program(command("awk", "-f", "tools/x.awk"), writes).digest == seal.digest
    assert "of tools is not sealed: what the tool declares to write" in seal.partial
    wide = seal_program(command("awk", "-f", "tools/x.awk"), conditions(project, written=(str(project),)))
    assert not wide.leasable


def test_files_of_the_working_folder_are_sealed_and_the_rest_ends_leases(project: Path) -> None:
    (project / "Makefile").write_text("all:\n")
    before = seal_program(command("make"), conditions(project))
    assert parts(before) == {("Makefile", "working folder")}
    assert "may run files of its working folder the project folder, such as Makefile" in before.partial
    (project / "included.mk.txt").write_text("x")
    after = seal_program(command("make"), conditions(project))
    assert after.digest == before.digest
    assert after.surroundings != before.surroundings


def test_a_working_folder_that_is_too_large_allows_no_lease(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flycore.sandbox.folders.MOST_FILES", 2)
    for number in range(3):
        (project / f"{number}.txt").write_text("x")
    seal = seal_program(command("make"), conditions(project))
    assert (seal.leasable, seal.surroundings) == (False, "")
    assert "the project folder holds more than a lease can watch" in seal.partial


# What a program can read as it is confined.


LONE = "#!/bin/sh\necho '{\"ok\": true}'\n"


def lone(project: Path, name: str = "run") -> ResolvedProgram:
    """A script that is alone in its folder."""
    path = project / "tools" / name / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(LONE)
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="relative",
        base=Anchor.APP,
        declared=f"./tools/{name}/{name}",
        path=str(path),
        argv=(str(path),),
        interpreter=os.path.realpath("/bin/sh"),
        interpreter_argv=("/bin/sh",),
    )


def seen(project: Path, *granted: str, **more: object) -> StartConditions:
    return conditions(project, **{"cwd": "", "granted": granted, **more})


@pytest.mark.parametrize("level", [Level.DEGRADED, Level.HOST_CONTROL, Level.NONE])
def test_nothing_that_is_not_enforced_is_complete(level: Level, project: Path) -> None:
    program = lone(project)
    assert seal_program(program, seen(project)).complete
    seal = seal_program(program, seen(project, level=level))
    assert not seal.complete
    # A sandbox that was installed changes no program, so nobody is asked about a change.
    assert seal.digest == seal_program(program, seen(project)).digest
    # A program of the table loads nothing, wherever it runs.
    assert seal_program(command("cat"), seen(project, level=level)).complete


@pytest.mark.parametrize("granted", ["lib.sh", "lib", ".", "absent", "..", "/home", "link"])
def test_what_a_script_may_read_and_others_may_change_makes_its_seal_partial(
    granted: str, project: Path
) -> None:
    (project / "lib").mkdir()
    (project / "lib.sh").write_text("1")
    (project / "link").symlink_to("lib.sh")
    path = os.path.normpath(project / granted)
    seal = seal_program(lone(project), seen(project, path))
    assert any(reason.startswith("may load files of ") for reason in seal.partial)
    assert seal.digest == seal_program(lone(project), seen(project)).digest
    assert seal_program(command("cat"), seen(project, path)).complete


def test_what_nobody_but_root_may_change_leaves_a_seal_complete(project: Path) -> None:
    own = str(project / "tools" / "run")
    shown = seen(project, "/usr", "/usr/share", "/etc/os-release", own, f"{own}/run")
    assert seal_program(lone(project), shown).complete


def test_a_link_that_leads_up_to_the_root_has_a_real_path(tmp_path: Path) -> None:
    up = "/".join([".."] * len(tmp_path.parts))
    (tmp_path / "link").symlink_to(f"{up}/usr/bin")
    assert real_path(str(tmp_path / "link")) == os.path.realpath("/usr/bin")


def test_a_change_of_what_a_script_may_read_is_one_for_leases_and_trust(
    project: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for shown in (seen(project, str(elsewhere)), seen(project, str(elsewhere / "lib.sh"))):
        found = []
        for content in ("1", "2", ""):
            if content:
                (elsewhere / "lib.sh").write_text(content)
            else:
                (elsewhere / "lib.sh").unlink()
            found.append(seal_program(lone(project), shown))
        assert len({seal.surroundings for seal in found}) == 3
        assert len({seal.digest for seal in found}) == 1
        assert all(seal.leasable for seal in found)


def test_an_unconfined_script_has_the_project_in_its_surroundings(project: Path) -> None:
    outside = seen(project, level=Level.HOST_CONTROL)
    before = seal_program(lone(project), outside)
    (project / "lib.sh").write_text("1")
    after = seal_program(lone(project), outside)
    assert before.surroundings
    assert before.surroundings != after.surroundings


def test_what_no_lease_can_watch_allows_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "lib").mkdir()
    lib = str(project / "lib")
    assert seal_program(lone(project), seen(project, lib)).leasable
    written = seal_program(lone(project), seen(project, lib, written=(str(project),)))
    monkeypatch.setattr("flycore.sandbox.folders.MOST_FILES", 2)
    for number in range(3):
        (project / "lib" / f"{number}.txt").write_text("x")
    large = seal_program(lone(project), seen(project, lib))
    for seal in (written, large):
        assert not seal.leasable
        assert "no lease can watch all of lib" in seal.partial


def age(*paths: Path) -> None:
    """Wait until the files count as settled, by the clock that their times come from."""
    probe = paths[0].parent / ".clock"
    while True:
        probe.write_text("")
        newest = max(path.stat().st_ctime_ns for path in paths)
        if probe.stat().st_ctime_ns - newest > 2 * digests.SETTLED_NS:
            return


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "x.awk").write_text("2"),
        lambda folder: (folder / "x.awk").chmod(0o700),
        lambda folder: (folder / "new.awk").write_text(""),
        lambda folder: (folder / "absent").write_text(""),
        lambda folder: folder.rename(folder.parent / "moved"),
    ],
)
def test_a_seal_is_used_again_only_while_nothing_changed(
    change: Callable[[Path], object], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals, "_kept", {})  # a case before this one may have had a folder of the same name
    tools = project / "tools"
    tools.mkdir()
    (tools / "x.awk").write_text("1")
    program, how = command("awk", "-f", "tools/x.awk", "tools/absent"), conditions(project)
    age(tools / "x.awk", tools)
    (project / ".clock").unlink(missing_ok=True)
    (tools / ".clock").unlink(missing_ok=True)
    age(tools / "x.awk", project)
    first = seal_program(program, how)
    made = []
    monkeypatch.setattr(seals, "_seal", lambda *given: made.append(given) or first)
    change(tools)
    seal_program(program, how)
    assert made


def test_a_settled_seal_is_not_made_again_and_a_fresh_one_is(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, how = command("cat"), conditions(project)
    first = seal_program(program, how)
    assert is_kept(program, how)
    monkeypatch.setattr(seals, "_seal", lambda *given: pytest.fail("sealed again"))
    assert seal_program(program, how) is first
    monkeypatch.undo()
    (project / "x.awk").write_text("1")
    seal_program(command("awk", "x.awk"), how)
    assert not is_kept(command("awk", "x.awk"), how)


@pytest.mark.parametrize(("fails", "sealed"), [(4, True), (5, False)])
def test_a_file_that_changes_while_it_is_read_is_read_again(
    fails: int, sealed: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = seals._seal, [fails]

    def changing(*given: object) -> Seal:
        if left[0]:
            left[0] -= 1
            raise ChangedWhileReadError(None, "changed while it was read", "/x")
        return real(*given)  # type: ignore[arg-type]  # the arguments of the function it stands for

    monkeypatch.setattr(seals, "_seal", changing)
    how = conditions(project, home=f"/{fails}")
    if sealed:
        assert seal_program(command("cat"), how).kind is SealKind.SYSTEM
    else:
        with pytest.raises(ChangedWhileReadError):
            seal_program(command("cat"), how)


def test_a_part_that_changed_is_named_and_a_new_file_is_none(project: Path) -> None:
    (project / "tools").mkdir()
    (project / "tools" / "x.awk").write_text("1")
    program, how = command("awk", "-f", "tools/x.awk"), conditions(project)
    seal = seal_program(program, how)
    assert changed_part(program, seal, how) == ""
    (project / "tools" / "output").write_text("made by the program itself")
    assert changed_part(program, seal, how) == ""
    (project / "tools" / "x.awk").write_text("2")
    assert changed_part(program, seal, how) == str(project / "tools" / "x.awk")


@pytest.mark.anyio
async def test_a_change_right_after_the_start_ends_the_program_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    program = root.sidecar("own", ECHO.replace("read", "sleep 30; read"), cwd="app", permissions={})
    (program.parent / "beside").write_text("as it was")
    seen = []

    def changed(*given: object) -> str:
        seen.append(given)
        (program.parent / "beside").write_text("changed")
        return changed_part(*given)  # type: ignore[arg-type]  # the arguments of the function it stands for

    monkeypatch.setattr("flycore.pipeline.execute.changed_part", changed)
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "own.do")
    assert seen
    assert result.status is Status.FAILED
    assert result.error is not None
    assert result.error.code == Code.SPAWN
    assert f"{program.parent / 'beside'} changed while the program was started" in result.error.message


@pytest.mark.anyio
async def test_an_empty_working_folder_makes_a_seal_complete_until_something_lies_there(
    tmp_path: Path,
) -> None:
    root = Root(tmp_path)
    root.sidecar("own", '#!/bin/sh\nread -r r\nprintf \'{"ok": true, "at": "%s"}\' "$(pwd)"\n', cwd="empty")
    root.policy({"tool": "own.do", "decision": "allow", "because": "test"})
    async with kernel_of(root) as kernel:
        first = await kernel.call(request(kernel, "own.do"))
        assert first.output == {"at": str(root.places.empty_dir)}
        root.places.empty_dir.chmod(0o700)
        (root.places.empty_dir / "planted").write_text("x")
        assert (await approved_call(kernel, "own.do")).status is Status.SUCCESS


@pytest.mark.anyio
async def test_a_folder_that_the_input_names_is_asked_about_and_a_file_is_not(tmp_path: Path) -> None:
    root = Root(tmp_path)
    lib = root.folder / "lib.sh"
    script = (
        f'#!/bin/sh\nread -r r\n[ ! -e {lib} ] || . {lib}\nprintf \'{{"ok": true, "said": "%s"}}\' "$said"\n'
    )
    root.sidecar("own", script, cwd="empty", permissions={"fs": {"read": ["${input.path}"]}})
    lib.write_text("said=library\n")
    (root.folder / "data.txt").write_text("1")
    root.policy({"tool": "own.do", "decision": "allow", "because": "test"})
    async with kernel_of(root) as kernel:
        for given in ({"path": "data.txt"}, {"path": "absent"}, {}):
            assert (await kernel.call(request(kernel, "own.do", given))).output == {"said": ""}
        for given in ({"path": "."}, {"path": "./tools/.."}):
            assert (await approved_call(kernel, "own.do", given)).output == {"said": "library"}


@pytest.mark.anyio
async def test_a_call_leaves_its_empty_working_folder_as_it_is_so_that_the_seal_holds(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("own", "#!/bin/sh\nread -r r\necho '{\"ok\": true}'\n", cwd="empty")
    root.policy({"tool": "own.do", "decision": "allow", "because": "test"})
    folder = root.places.empty_dir
    async with kernel_of(root) as kernel:
        assert (await kernel.call(request(kernel, "own.do"))).status is Status.SUCCESS
        before = folder.stat()
        assert before.st_mode & 0o777 == 0o500
        for _ in range(3):
            assert (await kernel.call(request(kernel, "own.do"))).status is Status.SUCCESS
        assert folder.stat().st_ctime_ns == before.st_ctime_ns
        # A mode that somebody changed is set again.
        folder.chmod(0o755)
        assert (await kernel.call(request(kernel, "own.do"))).status is Status.SUCCESS
        assert folder.stat().st_mode & 0o777 == 0o500
