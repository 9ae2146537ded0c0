"""Step 3: following the entry's programs to files, and sealing what they are."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio.to_thread

from flycore.executive.resolve import Target
from flycore.executive.stop import Rejection, failed
from flycore.executive.world import RootEnvironment, RootState
from flycore.model.base import Value
from flycore.model.enums import Code, Kind, PathState, ReasonCode, Status
from flycore.model.json import digest
from flycore.model.program import ResolvedProgram, Seal, SealedDelegate
from flycore.registry.resolve import at_url
from flycore.sandbox.members import PACKAGES
from flycore.sandbox.names import seal_address, seal_by_name
from flycore.sandbox.seals import seal_program
from flycore.sandbox.trees import UnsealableError


class Sealed(Value, frozen=True, kw_only=True):
    """The programs of an entry, and what is sealed of each."""

    program: ResolvedProgram
    seal: Seal
    delegates: tuple[SealedDelegate, ...]
    delegate_programs: dict[str, ResolvedProgram]
    """Where each delegate leads, by name."""

    def delegate_digests(self) -> dict[str, str]:
        """What an approval is bound to of each delegate, by name."""
        return {item.name: digest([list(item.argv), item.seal.digest]) for item in self.delegates}


async def seal_entry(ground: RootEnvironment, world: RootState, target: Target) -> Sealed | Rejection:
    """Follow and seal the entry's command and every delegate that resolves. Packages are looked at beside
    the loop: reading one for the first time takes as long as its size asks for."""
    packages = ground.places.app_root / PACKAGES
    if packages.is_dir():
        return await anyio.to_thread.run_sync(_sealed, ground, world, target, packages)
    return _sealed(ground, world, target, packages)


def _sealed(ground: RootEnvironment, world: RootState, target: Target, packages: Path) -> Sealed | Rejection:
    entry = target.entry
    if entry.url:
        return Sealed(program=at_url(entry), seal=seal_address(entry), delegates=(), delegate_programs={})
    program = ground.resolve(world.registry, entry, entry.command, entry.args)
    if program.state is not PathState.RESOLVED:
        return _unresolved(program)
    seal = partial(
        seal_program, in_place=entry.seal_in_place, distribution=ground.distribution, packages=packages
    )
    try:
        own = seal_by_name(entry, program, seal(program)) if entry.kind is Kind.MCP else seal(program)
        delegates, programs = [], {}
        for name, delegate in sorted(entry.delegates.items()):
            followed = ground.resolve(world.registry, entry, delegate.command, delegate.args)
            if followed.state is PathState.RESOLVED:
                programs[name] = followed
                delegates.append(SealedDelegate(name=name, argv=followed.argv, seal=seal(followed)))
    except UnsealableError as error:
        hint = 'mend that, or set "seal": "in-place" to be asked each time'
        return failed(Code.SPAWN, f"it cannot be sealed: {error.filename} {error.strerror}", hint)
    except OSError as error:
        return failed(Code.SPAWN, f"the program cannot be read: {error.strerror}", path=str(error.filename))
    return Sealed(program=program, seal=own, delegates=tuple(delegates), delegate_programs=programs)


def _unresolved(program: ResolvedProgram) -> Rejection:
    return Rejection(
        status=Status.UNAVAILABLE,
        code=program.reason or ReasonCode.COMMAND_NOT_FOUND,
        message=program.message,
        hint=program.remedy,
    )
