"""The fixes that flytui offers for a reason.

They come from the tables in this module alone: no text of a sidecar, a package or a cache becomes part of a
fix. Names and paths from the registry go into a fix only as single arguments or as the file to be edited, so
that no declaration can add an option or a command of its own.
"""

from __future__ import annotations

import shlex

import msgspec

from flycore.model.diagnostics import Fix, FixKind
from flycore.model.enums import ReasonCode
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import Reason
from flycore.registry.source_text import key_position

MANAGERS: dict[str, tuple[str, ...]] = {
    "apt-get": ("apt-get", "install"),
    "dnf": ("dnf", "install"),
    "pacman": ("pacman", "-S"),
    "brew": ("brew", "install"),
}
"""The install command of each package manager, in the order in which they are looked for."""
_SU = ("su", "-c")
AS_ROOT = (("sudo",), _SU)
"""What gives a command root's rights, in the order in which it is looked for. `su` takes one text."""
_COMMON = ("bash", "espeak-ng", "ffmpeg", "perl", "python3", "ruby", "scrot", "xdotool")
PACKAGES: dict[str, dict[str, tuple[str, ...]]] = {
    **{name: dict.fromkeys(MANAGERS, (name,)) for name in _COMMON},
    "chromium": {
        "apt-get": ("chromium",),
        "dnf": ("chromium",),
        "pacman": ("chromium",),
        "brew": ("--cask", "chromium"),
    },
    "node": {"apt-get": ("nodejs",), "dnf": ("nodejs",), "pacman": ("nodejs",), "brew": ("node",)},
    "npx": {"apt-get": ("npm",), "dnf": ("nodejs-npm",), "pacman": ("npm",), "brew": ("node",)},
    "pylsp": {
        "apt-get": ("python3-pylsp",),
        "pacman": ("python-lsp-server",),
        "brew": ("python-lsp-server",),
    },
    "python": {"apt-get": ("python-is-python3",), "dnf": ("python-unversioned-command",)},
    "tesseract": {
        "apt-get": ("tesseract-ocr",),
        "dnf": ("tesseract",),
        "pacman": ("tesseract", "tesseract-data-eng"),
        "brew": ("tesseract",),
    },
}
"""The packages that hold each program, by package manager. A manager that has no such package is absent."""
NEEDED: dict[str, str] = {
    "audio.speak": "espeak-ng",
    **{
        f"browser.{word}": "chromium"
        for word in ("click", "evaluate", "navigate", "open", "screenshot", "snapshot", "type")
    },
    "computer.keyboard": "xdotool",
    "computer.mouse": "xdotool",
    "computer.window": "xdotool",
    "vision.ocr": "tesseract",
}
"""The program that the bundled sidecar of each known tool starts."""
CONFIGURED: dict[str, str] = {"web.search": "name a search provider"}
"""The known tools whose bundled sidecar needs a value in the entry's `config`, with the words of the fix."""
_PROBE_AGAIN = frozenset((ReasonCode.PROBE_SLOW, ReasonCode.PROBE_TIMEOUT, ReasonCode.SCHEMA_UNKNOWN))
"""Reasons that may be gone when the sidecar is asked again, without anything done in between."""


class Machine(msgspec.Struct, frozen=True):
    """What this machine has to install programs with. Where nothing is known, no install fix is offered."""

    manager: str = ""
    """The package manager: a key of MANAGERS, or empty."""
    prefix: tuple[str, ...] = ()
    """The words before the command that give it root's rights, of AS_ROOT; none where it needs no others."""
    absent: frozenset[str] = frozenset()
    """The programs of NEEDED that are not on PATH."""
    own: tuple[str, ...] = ("flytui",)
    """The command of this flytui."""
    root: str = ""
    """The app root, absolute."""


NO_MACHINE = Machine()


def edit_fix(entry: SidecarEntry, key: str, words: str) -> Fix:
    """Return the fix that opens the entry's file at that key, or at the entry where the key is absent."""
    place = key_position(entry, key)
    return Fix(kind=FixKind.EDIT, words=words, file=place.file, line=place.line)


def login_fix(entry: SidecarEntry, machine: Machine) -> Fix:
    """Return the fix that logs the person in at the entry's server, in a browser."""
    root = ("--root", machine.root) if machine.root else ()
    argv = (*machine.own, "upstream", "login", *root, entry.id)
    return Fix(kind=FixKind.COMMAND, words=f"log in at {entry.id}", argv=argv)


def install_fix(program: str, machine: Machine) -> Fix | None:
    """Return the fix that installs a known program, or None where this machine has no known package."""
    package = PACKAGES.get(program, {}).get(machine.manager)
    if package is None:
        return None
    command = (*MANAGERS[machine.manager], *package)
    argv = (*machine.prefix, *((shlex.join(command),) if machine.prefix == _SU else command))
    return Fix(kind=FixKind.COMMAND, words=f"install {program}", argv=argv)


def of_program(entry: SidecarEntry, program: ResolvedProgram, key: str, words: str, machine: Machine) -> Fix:
    """Return the fix for a command or a delegate, written at `key`, that cannot be run: make the file
    executable, install the program, or edit the entry."""
    if program.reason is ReasonCode.NOT_EXECUTABLE and program.shut:
        argv = ("chmod", "u+x", "--", program.shut)
        return Fix(kind=FixKind.COMMAND, words="make it executable for you", argv=argv)
    known = install_fix(program.wanted, machine) if program.wanted else None
    return known or edit_fix(entry, key, words)


def probe_again_remedy(entry: SidecarEntry) -> str:
    """Return the remedy for a sidecar that named none itself."""
    return f"see what it wrote with flytui inspect {entry.id}, then probe it again"


def of_probe(
    entry: SidecarEntry, reason: Reason, tool: str | None, bundled: bool, machine: Machine
) -> Reason:
    """Return the reason of a probe with the fix that fits it."""
    # A fix that the reason came with is replaced: probe answers are the sidecar's own words and are read back
    # from a cache file, and no command of theirs may be offered to a person.
    return msgspec.structs.replace(reason, fix=_probed(entry, reason, tool, bundled, machine))


def _probed(
    entry: SidecarEntry, reason: Reason, tool: str | None, bundled: bool, machine: Machine
) -> Fix | None:
    needed = NEEDED.get(tool or "", "") if bundled else ""
    if needed in machine.absent and (known := install_fix(needed, machine)) is not None:
        return known
    if reason.code is ReasonCode.LOGIN_NEEDED:
        return login_fix(entry, machine)
    if reason.code is ReasonCode.DELEGATE_MISSING:
        return edit_fix(entry, "delegates", "name the delegate")
    if reason.code is ReasonCode.SECRET_MISSING:
        return edit_fix(
            entry, "permissions", "declare the secret; you set its value in the environment of flytui"
        )
    if bundled and tool in CONFIGURED and reason.code is ReasonCode.TOOL_UNAVAILABLE:
        return edit_fix(entry, "config", CONFIGURED[tool])
    if reason.code in _PROBE_AGAIN or reason.remedy == probe_again_remedy(entry):
        return Fix(kind=FixKind.PROBE, words=f"probe {entry.id} again")
    return None
