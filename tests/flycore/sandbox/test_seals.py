"""What is sealed is what runs: any change of program or interpreter changes the seal or stops the run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flycore.model.enums import Anchor, Level, PathState, SealKind
from flycore.model.program import ResolvedProgram, Seal
from flycore.sandbox import distribution as distributions
from flycore.sandbox.distribution import Distribution
from flycore.sandbox.seals import (
    SealBrokenError,
    StartConditions,
    find_distribution,
    materialise,
    seal_program,
)

SCRIPT = '#!/bin/sh\necho first "$1"\n'


def resolved(path: Path | str, *args: str, interpreter: str = "", declared: str = "./x") -> ResolvedProgram:
    real = os.path.realpath(path)
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="relative",
        base=Anchor.APP,
        declared=declared,
        path=real,
        argv=(real, *args),
        interpreter=os.path.realpath(interpreter) if interpreter else "",
        interpreter_argv=(interpreter,) if interpreter else (),
    )


def seal(program: ResolvedProgram, *, in_place: bool = False, of: Distribution | None = None) -> Seal:
    return seal_program(program, StartConditions(in_place=in_place, distribution=of, level=Level.ENFORCED))


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A script that is the only file of its folder, below a folder that others may write."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "bin").mkdir()
    script = shared / "bin" / "tool"
    script.write_text(SCRIPT)
    script.chmod(0o700)
    return script


def test_a_lone_script_runs_from_a_private_copy(alone: Path, tmp_path: Path) -> None:
    program = resolved(alone, "arg", interpreter="/bin/sh")
    sealed = seal(program)
    assert (sealed.kind, sealed.copy, sealed.leasable, sealed.note) == (SealKind.FILE, True, True, "")
    argv = materialise(
        program, sealed, tmp_path / "private" / "store", StartConditions(level=Level.ENFORCED)
    ).argv
    alone.write_text("#!/bin/sh\necho swapped\n")
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "first arg\n"
    assert (tmp_path / "private" / "store").stat().st_mode & 0o777 == 0o700
    assert Path(argv[1]).stat().st_mode & 0o777 == 0o500
    assert Path(argv[1]).parent.stat().st_mode & 0o777 == 0o500


def test_a_binary_is_copied_and_run_as_it_is(tmp_path: Path, alone: Path) -> None:
    alone.unlink()
    alone.write_bytes(Path("/bin/echo").read_bytes())
    alone.chmod(0o700)
    program = resolved(alone, "hello")
    argv = materialise(program, seal(program), tmp_path / "p", StartConditions(level=Level.ENFORCED)).argv
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "hello\n"


@pytest.mark.parametrize("change", ["content", "same size and mtime", "replaced", "interpreter"])
def test_a_swap_between_seal_and_run_never_runs(change: str, alone: Path, tmp_path: Path) -> None:
    interpreter = tmp_path / "shared" / "sh"
    interpreter.write_bytes(Path("/bin/sh").read_bytes())
    interpreter.chmod(0o755)
    program = resolved(alone, interpreter=str(interpreter))
    sealed = seal(program)
    if change == "content":
        alone.write_text("#!/bin/sh\necho other\n")
    elif change == "same size and mtime":
        about = alone.stat()
        alone.write_text(SCRIPT.replace("first", "other"))
        os.utime(alone, ns=(about.st_atime_ns, about.st_mtime_ns))
    elif change == "replaced":
        other = tmp_path / "other"
        other.write_text("#!/bin/sh\n")
        other.rename(alone)
    else:
        interpreter.write_bytes(Path("/bin/true").read_bytes())
    with pytest.raises(SealBrokenError):
        materialise(program, sealed, tmp_path / "private", StartConditions(level=Level.ENFORCED))
    assert seal(program).digest != sealed.digest
    assert [path.name for path in (tmp_path / "private").iterdir() if not path.name.startswith(".lock")] == (
        [sealed.copies[0][1]] if change == "interpreter" else []
    )


def test_gone_or_replaced_by_a_link_or_pipe_is_a_broken_seal(alone: Path, tmp_path: Path) -> None:
    program = resolved(alone)
    sealed = seal(program)
    alone.unlink()
    with pytest.raises(SealBrokenError):
        materialise(program, sealed, tmp_path / "a", StartConditions(level=Level.ENFORCED))
    alone.symlink_to("/bin/echo")
    with pytest.raises(SealBrokenError):
        materialise(program, sealed, tmp_path / "b", StartConditions(level=Level.ENFORCED))
    alone.unlink()
    os.mkfifo(alone)
    with pytest.raises(SealBrokenError):
        materialise(program, sealed, tmp_path / "c", StartConditions(level=Level.ENFORCED))


def test_sealing_again_gives_the_same_digest_unless_something_changed(alone: Path) -> None:
    program = resolved(alone, interpreter="/bin/sh")
    first = seal(program)
    assert seal(program) == first
    os.utime(alone)
    assert seal(program) == first  # the content decides for a copy
    alone.write_text(SCRIPT + "# more\n")
    assert seal(program).digest != first.digest


@pytest.mark.parametrize("why", ["neighbour", "in place"])
def test_what_cannot_be_copied_is_partial(why: str, alone: Path, tmp_path: Path) -> None:
    if why == "neighbour":
        (alone.parent / "library.py").write_text("")
    program = resolved(alone, "a")
    sealed = seal(program, in_place=why == "in place")
    assert (sealed.kind, sealed.copy, sealed.complete) == (SealKind.FILE, False, False)
    assert sealed.partial == ("runs in place, where it may load other files",)
    conditions = StartConditions(in_place=why == "in place", level=Level.ENFORCED)
    assert materialise(program, sealed, tmp_path / "unused", conditions) == program
    assert not (tmp_path / "unused").exists()


def test_a_system_program_is_sealed_by_identity() -> None:
    sealed = seal(resolved("/bin/echo", "x", declared="echo"))
    assert (sealed.kind, sealed.copy, sealed.partial, sealed.note) == (SealKind.SYSTEM, False, (), "")


@pytest.mark.parametrize("name", ["sh", "find", "git", "some-program"])
def test_a_system_program_that_is_not_known_to_load_nothing_is_partial(name: str) -> None:
    path = f"/usr/bin/{name}" if os.path.exists(f"/usr/bin/{name}") else "/bin/ls"
    sealed = seal(resolved(path, declared=name))
    assert sealed.kind is SealKind.SYSTEM
    assert "may load files which its arguments or its working folder name" in sealed.partial[0]


def test_an_unreadable_program_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        seal(resolved(tmp_path / "missing"))


@pytest.fixture
def installed(tmp_path: Path) -> Distribution:
    """A regular install: a console script and a module, recorded."""
    folder = tmp_path / "site"
    folder.mkdir()
    files = []
    for name, text in (("flytui-sidecar", "#!/bin/sh\n"), ("module.py", "pass\n")):
        (folder / name).write_text(text)
        files.append((str(folder / name), hashlib.sha256(text.encode()).hexdigest()))
    return Distribution(script=str(folder / "flytui-sidecar"), files=tuple(files))


def test_a_bundled_sidecar_is_the_whole_distribution(installed: Distribution) -> None:
    program = resolved(installed.script, "mock.echo", interpreter="/bin/sh")
    sealed = seal(program, of=installed)
    assert (sealed.kind, sealed.complete, sealed.editable) == (SealKind.BUNDLED, True, False)
    assert seal(program, in_place=True, of=installed) == sealed


@pytest.mark.parametrize("args", [(), ("other.sidecar",), ("--probe", "mock.echo")])
def test_only_our_sidecars_count_as_bundled(args: tuple[str, ...], installed: Distribution) -> None:
    assert seal(resolved(installed.script, *args), of=installed).kind is not SealKind.BUNDLED


def test_the_same_words_with_another_program_are_not_bundled(installed: Distribution, alone: Path) -> None:
    assert seal(resolved(alone, "mock.echo"), of=installed).kind is SealKind.FILE


@pytest.mark.parametrize("what", ["changed", "gone"])
def test_a_changed_install_is_no_longer_ours(what: str, installed: Distribution) -> None:
    module = Path(installed.files[1][0])
    module.write_text("evil\n") if what == "changed" else module.unlink()
    sealed = seal(resolved(installed.script, "mock.echo"), of=installed)
    assert (sealed.kind, sealed.complete) == (SealKind.FILE, False)
    assert "module.py" in sealed.partial[0]


def test_an_editable_install_is_sealed_over_its_packages(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "__pycache__").mkdir(parents=True)
    (package / "module.py").write_text("pass\n")
    script = tmp_path / "flytui-sidecar"
    script.write_text("#!/bin/sh\n")
    of = Distribution(script=str(script), packages=(str(package),))
    program = resolved(script, "mock.echo")
    first = seal(program, of=of)
    assert (first.kind, first.editable) == (SealKind.BUNDLED, True)
    (package / "__pycache__" / "module.pyc").write_bytes(b"x")
    assert seal(program, of=of) == first
    (package / "new.json").write_text("{}")
    assert seal(program, of=of).digest != first.digest


def test_the_running_distribution_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    found = find_distribution(folder)
    assert found is not None
    assert Path(found.script).name == "flytui-sidecar"
    assert found.editable or found.files
    assert seal(resolved(found.script, "mock.echo"), of=found).kind is SealKind.BUNDLED
    assert find_distribution(tmp_path) is None
    monkeypatch.setattr(distributions, "NAME", "no-such-distribution")
    assert find_distribution(folder) is None


def test_the_names_of_our_sidecars_are_those_that_can_be_started() -> None:
    from flysidecars.main import MODULES

    assert set(MODULES) == distributions.SIDECARS
