"""What console, command line and doors may ask of a kernel, in process or over the socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from flycore.model.approval import Answer, Ask, Lease, Outcome
from flycore.model.audit import Metrics
from flycore.model.call import Activity, Progress, ToolResult
from flycore.model.catalog import Catalog
from flycore.model.check import Check
from flycore.model.events import Event, EventClass
from flycore.model.json import JsonObject
from flycore.model.picture import Picture
from flycore.model.question import Block, Question
from flycore.model.standing import StandingRule
from flycore.model.status import Status
from flycore.model.trust import TrustItem

OnProgress = Callable[[Progress], None]


class Client(Protocol):
    """Everything but deciding. Raises ConnectionLost where the kernel went away."""

    async def status(self) -> Status:
        """What the kernel says of itself."""
        ...

    async def catalog(self) -> Catalog:
        """The catalog as it is now."""
        ...

    async def call(
        self,
        tool: str,
        input: JsonObject,
        *,
        timeout_ms: int | None = None,
        said: str = "",
        inline_wait_ms: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Run a tool through the whole pipeline; waits for a person where one is needed, `inline_wait_ms`
        at most (None: what the settings say): then the call ends `pending`, and the same call made again
        takes its place.

        Cancelling the awaiting task cancels the call, its process tree and its approval request.
        """
        ...

    async def cancel(self, call_id: str) -> bool:
        """End a running or waiting call; False when there is none of that id."""
        ...

    async def activity(self) -> tuple[Activity, ...]:
        """Calls, running first, then finished ones, newest first, those of earlier kernels too."""
        ...

    async def picture(self, call_id: str, index: int) -> Picture | None:
        """An image that a call made, scaled down: the artifact of that index, from 0. None where it is no
        PNG, JPEG, GIF or WebP, is gone, damaged or too large, or is nothing the asker may see."""
        ...

    async def metrics(self) -> Metrics:
        """Per tool: how often, how it ended, how long it took. An agent is told of its own calls."""
        ...

    async def asks(self) -> tuple[Ask, ...]:
        """Approval requests: waiting ones first in order of arrival, then recent ones."""
        ...

    async def leases(self) -> tuple[Lease, ...]:
        """Leases that still hold."""
        ...

    async def blocks(self) -> tuple[Block, ...]:
        """Tools that a person has blocked."""
        ...

    async def rules(self) -> tuple[StandingRule, ...]:
        """Rules of the person's own policy file, as it is now. No agent sees them."""
        ...

    async def questions(self) -> tuple[Question, ...]:
        """Decisions that wait and are not about one call, in order of arrival."""
        ...

    async def panic(self) -> bool:
        """Stop everything: leases end, calls are ended, new ones refused until a person releases it.
        Everybody may; False where it was stopped already."""
        ...

    async def pending_trust(self) -> tuple[TrustItem, ...]:
        """Entries that wait for trust."""
        ...

    async def probe(self, sidecar: str) -> None:
        """Ask a sidecar again whether it is well; the catalog's event says when it is known."""
        ...

    async def checks(self) -> tuple[Check, ...]:
        """Look at everything the root stands on: files, programs, log, display. Not for agents."""
        ...

    def events(
        self, classes: frozenset[EventClass] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Subscribe; a listener that is too slow loses the oldest events, never holds up the kernel."""
        ...


class Approver(Protocol):
    """The person's own hand. Only the console in the kernel's process is given one."""

    def attach(self, window_ids: tuple[int, ...], pids: tuple[int, ...]) -> None:
        """Say that a person is there, and which windows and processes no tool may touch."""
        ...

    def detach(self) -> None:
        """The person has left: new requests end `no-approver`, waiting ones stay pending."""
        ...

    async def decide(self, request_id: str, subject_digest: str, answer: Answer) -> Outcome:
        """Answer a request. `subject_digest` is what the card showed: if it is another, nothing counts."""
        ...

    async def edit(self, request_id: str, subject_digest: str, input: JsonObject) -> Outcome:
        """Change a waiting request's input: checked, prepared and judged by policy anew. The request is
        then another card, with another digest, that waits like any; nothing is decided by this."""
        ...

    async def hold(self, request_id: str, held: bool) -> bool:
        """Stop a waiting request's time, or let it run on; False where there is none."""
        ...

    async def revoke(self, lease_id: str) -> bool:
        """End a lease; False when it no longer held."""
        ...

    async def remove_rule(self, where: str, digest: str) -> Outcome:
        """Take a rule out of the person's own policy file: `where` as shown (`file:line`), `digest` of the
        rule that was shown there, so that a stale list removes nothing else."""
        ...

    async def unblock(self, tool: str) -> bool:
        """Let a blocked tool be called again; False where it was not blocked."""
        ...

    async def undo(self) -> Outcome:
        """Take back the last `revoke`, `remove_rule` or `unblock` of this session."""
        ...

    async def answer(self, question_id: str, option: str, text: str = "") -> Outcome:
        """Answer a question that is not about one call."""
        ...

    async def trust(self, accepted: tuple[tuple[str, str], ...]) -> Outcome:
        """Trust entries, as (sidecar id, digest shown); one that changed meanwhile is not trusted."""
        ...

    async def enable(self, sidecar: str, enabled: bool, reason: str) -> Outcome:
        """Switch an entry on or off in its registry file, by an edit that changes nothing else; the person's
        own change keeps its trust. Calls that run go on. `reason` is kept in the file of what is off."""
        ...

    async def import_server(self, path: str, name: str, digest: str) -> Outcome:
        """Take a server of another client's file (`path` and `name` as the catalog shows them) over into the
        project's registry, and trust the entry: `digest` is that of the offer the person was shown, and where
        the file offers another by now nothing is written. Nothing that is there is changed."""
        ...

    async def refuse_pairing(self, pid: int) -> bool:
        """Have the codes that the program of that process asked for count no more; False where none did."""
        ...

    async def write_starter(self) -> Outcome:
        """Write the starter registry into a project that has none; its entries are trusted, as the person
        was shown its text. Nothing that is there is overwritten."""
        ...
