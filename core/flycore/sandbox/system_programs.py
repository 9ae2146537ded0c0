"""The table of system programs that load no code by argument or working folder.

It is `data/system_programs.json`. A program counts only if its package owns the file, so that another program
under the same name does not.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

from flycore.sandbox.digests import file_digest
from flycore.sandbox.observed_files import is_unchanging, note_content

PACKAGE_LISTS = "/var/lib/dpkg/info"
"""The folder of the lists of files that Debian's packages own."""
LARGEST_LIST = 1 << 20


@cache
def known_programs() -> dict[str, str]:
    """The package of each program of the table, by the program's name."""
    text = Path(__file__).with_name("data").joinpath("system_programs.json").read_text("utf-8")
    return {item["name"]: item["package"] for item in json.loads(text)["programs"]}


def loads_nothing(path: str) -> bool:
    """Whether the system program at `path`, a real path, is one of the table. Unknown means no."""
    package = known_programs().get(os.path.basename(path))
    if package is None:
        return False
    return any(_owns(listing, path) for listing in _lists_of(package))


def _lists_of(package: str) -> tuple[str, ...]:
    machines = (
        "",
        *(f":{name}" for name in ("amd64", "arm64", "armhf", "i386", "riscv64", "ppc64el", "s390x")),
    )
    return tuple(f"{PACKAGE_LISTS}/{package}{machine}.list" for machine in machines)


def _owns(listing: str, path: str) -> bool:
    """Whether the list names the program. Raises nothing."""
    try:
        if not is_unchanging(listing):
            return False
        return path in _files_of(listing, file_digest(listing)[1])
    except FileNotFoundError:
        note_content(listing, None)
        return False
    except OSError:
        return False


@cache
def _files_of(listing: str, sha: str) -> frozenset[str]:
    """The files that the list with that digest names. Where `/bin` is a link to `/usr/bin`, both names
    count."""
    with open(listing, "rb") as file:
        names = os.fsdecode(file.read(LARGEST_LIST)).splitlines()
    return frozenset(names) | {f"/usr{name}" for name in names if name.startswith(("/bin/", "/sbin/"))}
