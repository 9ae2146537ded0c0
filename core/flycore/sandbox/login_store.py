"""The logins at MCP servers over HTTP: kept in the system's keyring, or in a file of this user alone.

The file of the root is the index: it says which servers have a login and whether its tokens are in the
keyring. A file that another user could have written or read holds no login. All functions here block.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from flycore.model.login import Login, LoginSecret
from flycore.registry.paths import LOGINS_FILE, RootPaths
from flycore.sandbox.keyring_secrets import ask_keyring, keep_in_keyring, remove_from_keyring
from flycore.store.json_store import Store
from flysafe.atomic import private_folder

MAX_BYTES = 1_048_576
IN_KEYRING = "the system's keyring"


class LoginsUnsafe(OSError):
    """The file of the logins may have been read or written by others, or is none."""


@dataclass(frozen=True, slots=True)
class LoginStore:
    """The logins of one root, by the id of the entry."""

    places: RootPaths
    environ: Mapping[str, str] = field(repr=False)

    @property
    def path(self) -> Path:
        """The file."""
        return self.places.state_dir / LOGINS_FILE

    def all(self) -> dict[str, Login]:
        """Return every login; those whose tokens are in the keyring without them. Raises OSError."""
        store = self._store()
        if store.why_unread:
            raise LoginsUnsafe(f"{LOGINS_FILE} cannot be used: {store.why_unread}")
        return store.value

    def _store(self) -> Store[dict[str, Login]]:
        return Store[dict[str, Login]](self.path, dict[str, Login], {}, MAX_BYTES, secret=True)

    def find(self, sidecar: str, server: str) -> Login | None:
        """Return the login of the entry at that address, with its tokens. None where there is none, also
        where the login is for another address or the keyring does not give it. Raises OSError."""
        login = self.all().get(sidecar)
        if login is None or login.server != server:
            return None
        if login.secret is not None or login.ended:
            return login
        name = self._name(sidecar)
        kept = ask_keyring([name], self.environ).values.get(name, "")
        try:
            return msgspec.structs.replace(login, secret=msgspec.json.decode(kept, type=LoginSecret))
        except (msgspec.DecodeError, ValueError):
            return None

    def keep(self, sidecar: str, login: Login) -> str:
        """Keep the login in place of an earlier one, and return where its tokens are: in the keyring, or in
        the file. Raises OSError."""
        secret = "" if login.secret is None else msgspec.json.encode(login.secret).decode()
        in_keyring = bool(secret) and not keep_in_keyring(self._name(sidecar), secret, self.environ)
        with self._changing() as logins:
            logins[sidecar] = msgspec.structs.replace(login, secret=None) if in_keyring else login
        return IN_KEYRING if in_keyring else str(self.path)

    def end(self, sidecar: str, login: Login, why: str) -> None:
        """Forget the tokens of a login that the server no longer takes, and remember why. A newer login
        stays. Raises OSError."""
        with self._changing() as logins:
            now = logins.get(sidecar)
            if now is None or now.at != login.at:
                return
            logins[sidecar] = msgspec.structs.replace(now, secret=None, ended=why)
        if now.secret is None:
            remove_from_keyring(self._name(sidecar), self.environ)

    def remove(self, sidecar: str) -> Login | None:
        """Forget the login of the entry, and return what it was without its tokens. Raises OSError."""
        with self._changing() as logins:
            was = logins.pop(sidecar, None)
        if was is not None and was.secret is None and not was.ended:
            remove_from_keyring(self._name(sidecar), self.environ)
        return was

    def stamp(self) -> tuple[int, ...]:
        """Return what changes whenever the file does; empty where there is none."""
        try:
            facts = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return ()
        return facts.st_ino, facts.st_mtime_ns, facts.st_size

    def _name(self, sidecar: str) -> str:
        """Return the name of the login in the keyring, which all roots of the user share."""
        return f"login {self.places.key} {sidecar}"

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Login]]:
        """The logins, which are written when the block ends. Others wait meanwhile."""
        private_folder(self.places.state_dir)
        # Not `open_anchor`: a descriptor of that kind cannot be locked.
        folder = os.open(self.places.state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A kernel that refreshes tokens and a person who logs in may write at the same time.
            fcntl.flock(folder, fcntl.LOCK_EX)
            logins = self.all()
            yield logins
            self._store().write(logins)
        finally:
            os.close(folder)
