"""Fixtures and settings for all tests: the event loop of async tests, the number of test processes, and the
collection of garbage."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from _pytest.unraisableexception import gc_collect_iterations_key
from hypothesis import HealthCheck, settings

from kits import programs
from kits.kernels import end_kernels
from kits.order import spread
from kits.scratch import IN_MEMORY, PREFIX, SCRATCH, remove_earlier
from kits.suites import USUAL_EXAMPLES, examples

# Without limits of time: a busy machine is no fault of the case.
settings.register_profile(
    "size",
    max_examples=examples(USUAL_EXAMPLES),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("size")

COLLECT_AFTER = 100_000
"""New objects after which garbage is collected. Screens are drawn with many, of which hardly any is garbage
in a circle."""

LONGEST_ID = 80
LONGEST_NAME = 27
"""Characters of a case's name in that of its folder: paths of Unix sockets are short."""
NUMBERS = itertools.count()
FAILED = pytest.StashKey[bool]()
EXITED_BEFORE: set[int] = set()
"""Children of this process that had exited when the last case ended."""
END_TO_END = frozenset(Path(__file__).with_name(name) for name in ("clients", "e2e", "interop"))
"""Folders whose cases are all end-to-end tests."""
ENDS_AFTER = 2
"""How many of its time limits a case may take, with its fixtures, before its process is ended."""


class FailedNames:
    """Names a failed case at once: a run that is ended from outside prints no list of them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write its id beneath the dots."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\nFAILED {report.nodeid} ({report.when})")


def take_signals() -> None:
    """Take the signals that end a program, as one does that a person starts. A shell starts what runs in the
    background with some of them ignored, and every program of a test would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def pytest_configure(config: pytest.Config) -> None:
    """Put the folders of tests into memory, where that has room for them, and name failed cases at once."""
    take_signals()
    # The second one finds what the first one's finalizers left. Each looks through all that a run has made.
    config.stash[gc_collect_iterations_key] = 2
    config.pluginmanager.register(FailedNames(config))
    config.pluginmanager.register(Sized())
    if config.option.basetemp is None and SCRATCH == IN_MEMORY:
        remove_earlier()
        config.option.basetemp = f"{SCRATCH}/{PREFIX}{os.getpid()}"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove them unless a test has failed: those folders are kept for the next look, until the next run."""
    folder = f"{SCRATCH}/{PREFIX}{os.getpid()}"
    if config.option.basetemp == folder and not config.stash.get(FAILED, False):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Note whether a test has failed."""
    session.config.stash[FAILED] = exitstatus != 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The number of processes of `make test`: more than there are cores, because many tests wait."""
    return (os.cpu_count() or 1) * 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage while modules are imported and cases listed: that makes none, and all of it stays.
    What is there at the end is not looked through again."""
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(COLLECT_AFTER, 10, 10)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the end-to-end tests if they are left out: their libraries are large."""
    return True if collection_path in END_TO_END and config.option.markexpr == "not e2e" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what only root can show, if this is another user."""
    programs.marked[0] = item.get_closest_marker("e2e") is not None
    if item.get_closest_marker("root") is not None and os.geteuid() != 0:
        pytest.skip("NOT TESTED, only root can show it: pytest -m root")


class Sized:
    """Takes the tests of Hypothesis into the suites, where they make all their examples, and those of the
    folders of end-to-end tests into these."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark them, before the cases with other marks are left out."""
        for item in items:
            if hasattr(getattr(item, "obj", None), "hypothesis"):
                item.add_marker("suite")
            if not END_TO_END.isdisjoint(item.path.parents):
                item.add_marker("e2e")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the cases that take long: one that begins last is what all other processes wait for.

    xdist gives each process a part of the list, as even as possible, and takes from the ends of parts later.
    """
    parts = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if parts > 1:
        order = spread([_takes_long(item) for item in items], parts)
        items[:] = [items[number] for number in order]


def _takes_long(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("e2e", "long"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End this process, with the stacks of its threads, where a case does not end after its time limit.

    The limit raises an exception in the case. A case that then waits for a process or a thread without a
    limit would hold the whole run; so it fails, and xdist goes on with a new process.
    """
    marker = item.get_closest_marker("timeout")
    usual = item.config.getoption("timeout") or item.config.getini("timeout")
    limit = float(marker.args[0] if marker else usual)
    # The descriptor is the terminal's; standard error is a file while output is captured.
    errors = item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(limit * ENDS_AFTER, exit=True, file=errors)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        EXITED_BEFORE.update(reap(EXITED_BEFORE))


def reap(known: set[int]) -> set[int]:
    """Reap those of the `known` children that have exited; forget all of them, and return the other children
    that have exited.

    A kernel in this process adopts what the programs of its calls leave, and a case may end before that has
    exited. Hundreds of zombies would make every look at the table of processes slow. One that has just exited
    may still be waited for by the test that started it, so it is left until the next case has ended, too.
    """
    exited = {pid for pid in children() if is_zombie(pid)} if any_exited() else set()
    for pid in exited & known:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    left = exited - known
    known.clear()
    return left


def any_exited() -> bool:
    """Whether a child of this process has exited and was not reaped: one system call, after each case."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def children() -> Iterator[int]:
    """The children of this process; none where the system does not list them."""
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, listed.read_text().split())


def is_zombie(pid: int) -> bool:
    """Whether a process has exited and was not reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return False


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """The id of a long text: its beginning and its length. Whole, some would be megabytes, and each id goes
    to every process and into the environment of every program that a test starts."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{ascii(val[:LONGEST_ID])[:LONGEST_ID]}...{len(val)}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """Note that a step of a case has failed."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of this case's own, which no later case has again: a kernel whose console was killed may write
    its last lines while the next case has begun. It is kept where the case has failed."""
    name = re.sub(r"\W", "_", request.node.name)[:LONGEST_NAME]
    folder = tmp_path_factory.mktemp(f"{name}{next(NUMBERS)}", numbered=False)
    yield folder
    end_kernels(folder)
    if not request.node.stash.get(FAILED, False):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of every async test: asyncio, which the kernel uses."""
    return "asyncio"
