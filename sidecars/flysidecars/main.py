"""The command `flytui-sidecar NAME` starts one bundled sidecar and imports only that one's modules."""

from __future__ import annotations

import sys

MODULES = {
    "browser.cdp": "flysidecars.browser.cdp",
    "computer.native": "flysidecars.computer.native",
    "media.local": "flysidecars.media.local",
    "mock.echo": "flysidecars.mock.echo",
    "utility.local": "flysidecars.utility.local",
    "web.search": "flysidecars.web.search",
    "wtype": "flysidecars.computer.delegates.wtype",
    "xdotool": "flysidecars.computer.delegates.xdotool",
    "ydotool": "flysidecars.computer.delegates.ydotool",
}
"""Maps the name on the command line to the module whose `sidecar` is served."""

USAGE = "usage: flytui-sidecar NAME [--probe | --schema] | --list"


def main() -> int:
    """Serve the sidecar that the first argument names. Returns the exit code: 2 for a wrong command line."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(USAGE + "\n")
        return 0 if arguments else 2
    if arguments[0] == "--list":
        sys.stdout.write("".join(f"{name}\n" for name in MODULES))
        return 0
    module = MODULES.get(arguments[0])
    if module is None:
        sys.stderr.write(_unknown(arguments[0]))
        return 2
    if arguments[1:] not in ([], ["--probe"], ["--schema"]):
        sys.stderr.write(
            f"flytui-sidecar: {arguments[0]} takes no argument but --probe and --schema\n{USAGE}\n"
        )
        return 2
    return _serve(module, arguments[1:])


def _serve(module: str, arguments: list[str]) -> int:
    # Imported here: a one-shot sidecar pays for its imports at every call, and --list needs none of them.
    from importlib import import_module

    from flysidecars.sdk import Sidecar

    sidecar: Sidecar = import_module(module).sidecar
    return sidecar.main(arguments)


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    from flysafe.text import safe_text

    near = get_close_matches(name, MODULES, 1, 0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"flytui-sidecar: there is no sidecar '{safe_text(name)}'{hint}\nthere are: {', '.join(MODULES)}\n"
