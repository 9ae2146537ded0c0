"""When sidecars are probed again: the catalog follows what appears on this machine and what goes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flycore.catalog.observations import Answer, Surroundings
from flycore.catalog.probes import SKIPPED, ProbeFinding, ProbeWork
from flycore.kernel import probe_schedule, refresh
from flycore.kernel.kernel import Kernel
from flycore.kernel.probe_schedule import SETTLED_S, look_around, outdated
from flycore.model.diagnostics import Position
from flycore.model.enums import Anchor, Effective, PathState, ProbeState, ReasonCode, Source, Status
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Permissions, SidecarEntry, ToolClaim
from flycore.model.stability import ProbeEvidence, Reason, ToolProbe
from kits.browser import browsing
from kits.kernel import ECHO, Root, approver_of, kernel_of, request, until
from kits.programs import needs

pytestmark = pytest.mark.anyio
PERIOD_S = 0.2
NEVER_S = 3_600.0
ASKED = {"probe": {"mode": "request"}}
SAYS = """#!/bin/sh
read -r request
echo asked >> {base}/asked
cat {base}/answer
"""
"""Answers its probe with what the test has written."""
NOT_THERE = '{"ok": false, "code": "unavailable", "error": "no engine", "remedy": "start it"}\n'
TOOL_NOT_THERE = '{"ok": true, "tools": {"own.do": {"status": "unavailable", "reason": "no engine"}}}\n'
NO_ANSWER = ""
WELL = '{"ok": true}\n'


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.policy({"tool": "*", "decision": "allow", "because": "test"})
    return root


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for outdated answers after fractions of a second."""
    monkeypatch.setattr(refresh, "REPROBE_SECONDS", PERIOD_S)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for outdated answers only if somebody asks."""
    monkeypatch.setattr(refresh, "REPROBE_SECONDS", NEVER_S)


def answer(root: Root, text: str) -> None:
    """What the sidecar `own` answers from now on."""
    (root.base / "answer").write_text(text)


def own(root: Root, text: str) -> None:
    answer(root, text)
    root.sidecar("own", SAYS.format(base=root.base), **ASKED)


def state(kernel: Kernel, name: str = "own.do") -> Effective | None:
    """The state of that tool in the catalog."""
    view = kernel.catalog().capability(name)
    return view.stability.effective if view is not None and view.sidecar is not None else None


def becomes(kernel: Kernel, wanted: Effective, name: str = "own.do") -> Callable[[], bool]:
    return lambda: state(kernel, name) is wanted


LOST = pytest.mark.parametrize("lost", [NOT_THERE, TOOL_NOT_THERE, NO_ANSWER])


@LOST
@pytest.mark.usefixtures("often")
async def test_what_was_unavailable_is_probed_again_by_the_loop(root: Root, lost: str) -> None:
    own(root, lost)
    async with kernel_of(root) as kernel:
        await until(becomes(kernel, Effective.UNAVAILABLE))
        answer(root, WELL)
        await until(becomes(kernel, Effective.AVAILABLE))
        assert (await kernel.call(request(kernel, "own.do"))).status is Status.SUCCESS


@LOST
@pytest.mark.usefixtures("never")
async def test_what_was_unavailable_is_probed_again_when_a_person_asks(root: Root, lost: str) -> None:
    own(root, lost)
    async with kernel_of(root) as kernel:
        await until(becomes(kernel, Effective.UNAVAILABLE))
        answer(root, WELL)
        kernel.probe("own")
        await until(becomes(kernel, Effective.AVAILABLE))


@LOST
@pytest.mark.usefixtures("often")
async def test_what_was_unavailable_is_probed_by_the_next_kernel(root: Root, lost: str) -> None:
    """As when a console is opened again: the answer that the last kernel kept must not hold for ever."""
    own(root, lost)
    async with kernel_of(root) as kernel:
        await until(becomes(kernel, Effective.UNAVAILABLE))
    answer(root, WELL)
    async with kernel_of(root) as kernel:
        await until(becomes(kernel, Effective.AVAILABLE))


@pytest.mark.usefixtures("often")
async def test_a_program_that_appears_and_goes_is_followed(root: Root) -> None:
    program = root.sidecar("own", ECHO)
    aside = program.rename(program.with_name("aside"))
    async with kernel_of(root) as kernel:
        assert state(kernel) is Effective.UNAVAILABLE
        aside.rename(program)
        await until(becomes(kernel, Effective.AVAILABLE))
        program.rename(aside)
        await until(becomes(kernel, Effective.UNAVAILABLE))
        aside.rename(program)
        await until(becomes(kernel, Effective.AVAILABLE))
        assert kernel.catalog().version < 100  # what does not change is not published again and again


@pytest.mark.usefixtures("often")
async def test_a_delegate_that_appears_is_told_to_the_sidecar(root: Root) -> None:
    needs_it = """#!/bin/sh
read -r request
case "$request" in
  *argv*) echo '{"ok": true}' ;;
  *) echo '{"ok": false, "code": "unavailable", "error": "no delegate"}' ;;
esac
"""
    delegate = root.folder / "tools" / "helper"
    root.sidecar("own", needs_it, **ASKED, delegates={"other": {"command": "./tools/helper"}})
    async with kernel_of(root) as kernel:
        await until(becomes(kernel, Effective.UNAVAILABLE))
        delegate.write_text("#!/bin/sh\n")
        delegate.chmod(0o755)
        await until(becomes(kernel, Effective.AVAILABLE))


@pytest.mark.usefixtures("often")
async def test_a_sidecar_without_its_secret_or_without_trust_is_not_probed(root: Root) -> None:
    own(root, WELL)
    root.sidecars["own"]["permissions"] = {"secrets": ["NOT_SET_ANYWHERE"]}
    root.sidecar("other", SAYS.format(base=root.base), **ASKED)
    root.sidecar("seen", ECHO, **ASKED)
    async with kernel_of(root, trusted=False) as kernel:
        waiting = {item.sidecar: item.digest for item in kernel.pending_trust()}
        assert (
            await approver_of(kernel).trust((("own", waiting["own"]), ("seen", waiting["seen"])))
        ).accepted
        for sidecar in ("own", "other", "seen"):
            kernel.probe(sidecar)
        view = await until(
            lambda: (found := kernel.catalog().sidecar("seen")) and found.stability.probe and found
        )
        assert view.stability.probe is ProbeState.HEALTHY
        assert state(kernel) is state(kernel, "other.do") is Effective.UNAVAILABLE
    assert not (root.base / "asked").exists()


@pytest.mark.usefixtures("never")
async def test_a_healthy_answer_replaces_what_an_earlier_call_was_told(root: Root) -> None:
    own(root, NOT_THERE)
    async with kernel_of(root) as kernel:
        await until(becomes(kernel, Effective.UNAVAILABLE))
        answer(root, WELL)
        kernel.probe("own")
        await until(becomes(kernel, Effective.AVAILABLE))
        answer(root, NOT_THERE)
        assert (await kernel.call(request(kernel, "own.do"))).status is Status.UNAVAILABLE
        await until(becomes(kernel, Effective.DEGRADED))
        answer(root, WELL)
        kernel.probe("own")
        await until(becomes(kernel, Effective.AVAILABLE))


# The programs that flytui's own sidecars look for.


@pytest.mark.parametrize(
    ("sidecar", "program", "name", "there"),
    [
        ("media.local", "tesseract", "vision.ocr", {Effective.AVAILABLE}),
        # Without a loudspeaker it can still save what it says.
        ("media.speech", "espeak-ng", "audio.speak", {Effective.AVAILABLE, Effective.DEGRADED}),
    ],
)
@pytest.mark.usefixtures("often")
async def test_a_program_on_the_path_is_followed(
    root: Root, sidecar: str, program: str, name: str, there: set[Effective]
) -> None:
    needs(program)
    folder = root.base / "programs"
    folder.mkdir()
    root.sidecars[sidecar] = {
        "command": "flytui-sidecar",
        "args": ["media.local"],
        "env": {"PATH": str(folder)},
        "permissions": {"fs": {"read": [str(folder)]}},
        "tools": [name],
    }
    root.write()
    link = folder / program
    async with kernel_of(root) as kernel:
        for _ in range(2):
            await until(becomes(kernel, Effective.UNAVAILABLE, name))
            link.symlink_to(f"/usr/bin/{program}")
            await until(lambda: state(kernel, name) in there)
            link.unlink()
        await until(becomes(kernel, Effective.UNAVAILABLE, name))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.e2e
@pytest.mark.usefixtures("often")
async def test_a_browser_is_followed(root: Root) -> None:
    needs("chromium")
    port = free_port()
    root.sidecars["browser.cdp"] = {
        "command": "flytui-sidecar",
        "args": ["browser.cdp"],
        "config": {"endpoint": f"http://127.0.0.1:{port}"},
        "permissions": {"network": True},
        "tools": ["browser.open", "browser.snapshot"],
    }
    root.write()
    async with kernel_of(root) as kernel:
        await until(becomes(kernel, Effective.UNAVAILABLE, "browser.open"))
        with browsing(root.base, port):
            await until(becomes(kernel, Effective.AVAILABLE, "browser.open"))
            opened = await kernel.call(request(kernel, "browser.open", {"url": "about:blank"}))
            assert opened.status is Status.SUCCESS, opened.error
        await until(becomes(kernel, Effective.UNAVAILABLE, "browser.open"))
        await until(becomes(kernel, Effective.UNAVAILABLE, "browser.snapshot"))


# Which answers are asked for again.


NOW = 1_000_000.0
LACKS = Reason(code=ReasonCode.TOOL_UNAVAILABLE, dimension="probe", message="no engine", remedy="start it")
SLOW = Reason(code=ReasonCode.PROBE_TIMEOUT, dimension="probe", message="no answer", remedy="wait")


def work(*, bundled: bool = True, network: bool = False, path: Path | None = None) -> ProbeWork:
    entry = SidecarEntry(
        id="own",
        source=Source.PROJECT,
        position=Position(file="tools/external.tools.jsonc", line=3, column=5),
        command="own",
        tools=(ToolClaim(name="own.do"),),
        env={"PATH": str(path)} if path else {},
        permissions=Permissions(network=network),
        digest="one",
    )
    program = ResolvedProgram(
        state=PathState.RESOLVED,
        mode="path",
        base=Anchor.APP,
        declared="own",
        path="/bin/sh",
        argv=("/bin/sh",),
    )
    return ProbeWork(entry=entry, program=program, bundled=bundled)


def finding(reason: Reason | None = None, *, at: float = NOW, tool: ProbeState | None = None) -> ProbeFinding:
    tools = {} if tool is None else {"own.do": ToolProbe(status=tool)}
    found = ProbeState.HEALTHY if reason is None else ProbeState.UNAVAILABLE
    return ProbeFinding(state=found, reason=reason, evidence=ProbeEvidence(at=at, tools=tools))


def is_outdated(asked: ProbeWork, found: ProbeFinding, seen: Surroundings | None, now: float = NOW) -> bool:
    return bool(outdated([(asked, Answer(finding=found, surroundings=seen))], now))


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no server starts or ends meanwhile."""
    monkeypatch.setattr(probe_schedule, "listening_sockets", frozenset)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("found", "bundled", "again"),
    [
        (finding(), True, False),
        (finding(at=NOW - 599), True, False),
        (finding(at=NOW - 600), True, True),
        (finding(at=NOW + 9), True, True),  # the clock was set back
        (finding(LACKS), True, False),
        (finding(tool=ProbeState.UNAVAILABLE), True, False),
        (finding(SLOW), True, True),
        (finding(), False, False),
        (finding(LACKS), False, True),
        (finding(tool=ProbeState.DEGRADED), False, True),
        (SKIPPED, False, False),
    ],
)
async def test_an_answer_holds_as_long_as_what_it_rests_on(
    found: ProbeFinding, bundled: bool, again: bool
) -> None:
    asked = work(bundled=bundled)
    assert is_outdated(asked, found, look_around(asked, None, NOW - SETTLED_S)) is again


@pytest.mark.usefixtures("quiet")
async def test_what_has_just_appeared_may_need_a_moment(tmp_path: Path) -> None:
    asked = work(path=tmp_path)
    first = look_around(asked, None, NOW - SETTLED_S)
    assert not is_outdated(asked, finding(LACKS), first)
    (tmp_path / "program").touch()
    assert is_outdated(asked, finding(), first)
    seen = look_around(asked, first, NOW)
    assert is_outdated(asked, finding(LACKS), seen, NOW + SETTLED_S - 1)
    assert look_around(asked, seen, NOW + SETTLED_S) == seen
    assert not is_outdated(asked, finding(LACKS), seen, NOW + SETTLED_S)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found


async def test_a_server_counts_for_what_has_the_network(server: socket.socket) -> None:
    asked = work(network=True)
    before = look_around(asked, None, NOW - SETTLED_S)
    server.listen()
    assert is_outdated(asked, finding(), before)
