"""Step 4 for the paths of an input: a call is refused before a person is asked if its input names a path that
its entry does not let it write, or that no tool may write.

Which fields of an input are such paths is known in two ways: a capability says which field leads to the file
that it makes, and an entry names fields in its `permissions.fs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

import anyio.to_thread

from flycore.catalog.reasons import permission_missing
from flycore.catalog.registry_capability import allowed_paths
from flycore.model.catalog import Capability
from flycore.model.enums import Code, Level, ReasonCode, Status
from flycore.model.json import JsonObject
from flycore.model.refusals import Refusals
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.pipeline.call import Rejection, denied
from flycore.pipeline.context import JudgeContext, RootEnvironment, RootState
from flycore.pipeline.prepare import Prepared
from flycore.sandbox.call_confinement import CallFolders, NotPermitted, PathLimit, declared_mounts
from flycore.sandbox.confinement import Mount
from flycore.sandbox.evidence import Ground, refused_write
from flycore.sandbox.levels import CONFINING
from flycore.sandbox.protected_files import protection_of_grant
from flysafe.protected_paths import deciding_names

_PROGRAMS = "tools"
"""The folder of a project in which its tools' programs usually lie, with its registry and policy."""


def path_limits(root_state: RootState, entry: SidecarEntry) -> tuple[PathLimit, ...]:
    """Return the paths that a tool may be permitted at most; no limits for one that a person declared."""
    limits = root_state.created_limits if entry.creator else ()
    return tuple(
        PathLimit(read=allowed_paths(limit, "read"), write=allowed_paths(limit, "write")) for limit in limits
    )


def ground_of(root: RootEnvironment, prepared: Prepared) -> Ground:
    """Return the places by which refused paths of a call are judged."""
    places = root.places
    app_root = str(places.app_root)
    sealed = [
        path for seal in prepared.sealed.seals for path in (seal.program, *(path for path, _ in seal.copies))
    ]
    return Ground(
        app_root=app_root,
        home=root.environ.get("HOME", ""),
        protected=(*map(str, places.own_folders), *(f"{app_root}/{name}" for name in deciding_names())),
        program=(*(path for path in sealed if path), f"{app_root}/{_PROGRAMS}"),
        private_tmp=prepared.sandbox.level is Level.ENFORCED,
    )


async def path_refusal(context: JudgeContext, prepared: Prepared) -> Rejection | None:
    """Return the rejection of a call whose input names a path that no tool may write, or that the entry may
    not write, with the line to add to the entry; None of any other call."""
    capability, entry, given = prepared.target.capability, prepared.target.entry, prepared.input
    permissions = entry.effective_permissions
    written = tuple(proof.of for proof in capability.proofs if proof.relation == "written")
    by_input = any("${" in path for path in (*permissions.read, *permissions.write))
    if not by_input and not any(isinstance(given.get(field), str) for field in written):
        return None
    ground = ground_of(context.root, prepared)
    folders = CallFolders(app_root=ground.app_root, cwd=ground.app_root, home=ground.home)
    limits = path_limits(context.state.latest, entry)

    def find() -> Rejection | None:
        try:
            mounts = declared_mounts(permissions, given, folders, limits)
        except NotPermitted as error:
            return _rejection(str(error), error.hint, error.path)
        confined = prepared.sandbox.level in CONFINING
        if confined and by_input and (out := next(filter(_leads_out, mounts), None)) is not None:
            message = f"{out.path} leads out of the folder in which it has to stay, by a link"
            return _rejection(message, "name a path that no link leads away from", out.path)
        paths = _written_paths(permissions, given, folders, limits, written)
        if (stop := _protected(context.root, paths)) is not None:
            return stop
        granted = [mount.path for mount in mounts if mount.writable]
        found = (
            _unwritable(capability, entry, field, given.get(field), granted, ground) for field in written
        )
        return next(filter(None, found), None)

    # The path is the caller's choice and may lie on a file system that answers slowly.
    return await anyio.to_thread.run_sync(find)


def _written_paths(
    permissions: Permissions,
    given: JsonObject,
    folders: CallFolders,
    limits: tuple[PathLimit, ...],
    fields: Sequence[str],
) -> Iterator[str]:
    """The paths that the input names to be written, a file before its folder."""
    for named in map(given.get, fields):
        if isinstance(named, str) and named and "\0" not in named:
            yield os.path.join(folders.app_root, named)
    for declared in permissions.write:
        # `${input.NAME}/..` is the folder of the file that the input names.
        for part in (declared.removesuffix("/.."), declared):
            with suppress(NotPermitted):  # where the whole is permitted, the file alone may be no grant
                if "${" in part:
                    made = declared_mounts(Permissions(write=(part,)), given, folders, limits)
                    yield from (mount.path for mount in made)


def _protected(root: RootEnvironment, paths: Iterator[str]) -> Rejection | None:
    own = tuple(map(str, root.places.own_folders))
    for path in paths:
        found = protection_of_grant(path, str(root.places.app_root), own)
        if found is not None:
            return denied(
                Code.PROTECTED_PATH,
                f"the input names {path}, which no tool may write: {found.why}",
                "name another path; the person alone changes this one",
                path=path,
            )
    return None


def _leads_out(mount: Mount) -> bool:
    """Whether a link leads from the path out of the project, or of the folder that its declaration names."""
    path = os.path.realpath(mount.path)
    tops = filter(None, (mount.anchor, mount.within))
    return not all(_at_or_below(path, os.path.realpath(top)) for top in tops)


def _unwritable(
    capability: Capability,
    entry: SidecarEntry,
    field: str,
    named: object,
    granted: Sequence[str],
    ground: Ground,
) -> Rejection | None:
    if not isinstance(named, str) or not named or "\0" in named:
        return None  # the tool itself says what is wrong with it
    project = os.path.realpath(ground.app_root)
    path = _real_path(os.path.join(project, named))
    if any(_at_or_below(path, os.path.realpath(folder)) for folder in granted):
        return None
    if not _at_or_below(path, project):
        message = f"{named} lies outside the project, in which {capability.name} writes"
        return _rejection(message, "name a path below the project's folder", path)
    # The folder of the file, and not the file: what is declared and missing is made as a folder.
    item = refused_write(path, ground, top=f"${{input.{field}}}/..")
    refusals = Refusals(paths=(item,), write=(item.grant,) if item.grant else ())
    reason = permission_missing(entry, capability.name, refusals)
    return _rejection(reason.message, reason.remedy, path)


def _rejection(message: str, hint: str, path: str) -> Rejection:
    return Rejection(
        status=Status.FAILED,
        code=ReasonCode.PERMISSION_MISSING,
        message=message,
        hint=hint,
        details={"path": path},
    )


def _real_path(path: str) -> str:
    """The path as the tool would write it: its folder without links. A link at its end is replaced, not
    followed."""
    folder, name = os.path.split(path.rstrip("/"))
    return os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(folder), name)


def _at_or_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
