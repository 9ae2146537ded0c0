"""What the entry of a request permits, which a bundled tool holds itself to, with or without a sandbox.

A request without `permissions` comes from an older kernel, or from a person who runs the program by hand:
then only the protected files are refused.
"""

from __future__ import annotations

import os
import re

from flysidecars.sdk.failures import ToolFailed, Unavailable

JsonObject = dict[str, object]

_INPUT = re.compile(r"\$\{input\.([A-Za-z0-9_-]{1,64})\}")


class Permissions:
    """The permissions of a request. `write` has the declared paths; None where the request names none."""

    __slots__ = ("network", "write")

    def __init__(self, raw: object, given: JsonObject) -> None:
        declared = raw if isinstance(raw, dict) else {}
        self.network = not isinstance(raw, dict) or declared.get("network") is True
        self.write: tuple[str, ...] | None = None
        if isinstance(raw, dict):
            paths = declared.get("write")
            self.write = tuple(
                filled
                for path in (paths if isinstance(paths, list) else [])
                if isinstance(path, str) and (filled := _filled(path, given)) is not None
            )

    def require_network(self) -> None:
        """Raise `Unavailable` where the entry does not declare the network."""
        if not self.network:
            raise Unavailable(
                "the entry does not declare the network, so nothing is sent",
                'write "network": true in permissions of the entry, if it may send to other machines',
            )

    def require_write(
        self, project: str, path: str, *, own_state: bool = False, on_the_way: bool = False
    ) -> None:
        """Raise `ToolFailed` (`not-permitted`) where the tool may not write `path`: real, absolute, without
        links. `own_state` says that it is a file of the tool itself, which the entry need not declare, and
        `on_the_way` that it is a missing folder, which may also lie above a declared path."""
        root = os.path.realpath(project)
        relative = os.path.relpath(path, root)
        # Only a call that writes takes the time to import it.
        from flysafe.protected_paths import protection_of

        found = protection_of(relative)
        if found is not None:
            raise ToolFailed(
                "not-permitted", f"no tool writes {relative}, because {found.why}", path=relative
            )
        if own_state or self.write is None:
            return
        whole = os.path.normpath(path)
        allowed = [os.path.realpath(os.path.join(root, name)) for name in self.write]
        if on_the_way and any(_is_below(folder, whole) for folder in allowed):
            return
        if not any(_is_below(whole, folder) for folder in allowed):
            declared = ", ".join(self.write) or "nothing"
            raise ToolFailed(
                "not-permitted",
                f"{relative} is outside what the entry may write ({declared})",
                path=relative,
                write=list(self.write),
            )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _filled(path: str, given: JsonObject) -> str | None:
    """The declared path with its `${input.NAME}` filled in; None where the input has no such text."""
    values = {name: given.get(name) for name in _INPUT.findall(path)}
    if not all(isinstance(value, str) and value for value in values.values()):
        return None
    return _INPUT.sub(lambda found: str(values[found[1]]), path)
