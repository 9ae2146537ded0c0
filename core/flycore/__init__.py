"""The kernel: what external tools there are, whether they are well, who may run them, and running them.

For a program in Python this is the way in:

    async with flycore.connect() as kernel:
        result = await kernel.call("file.hash", {"path": "README.md"})

`connect` finds the kernel of the root, or starts one for as long as it is needed, and gives a `Client`. How a
call ends is told in its `ToolResult`; the exceptions are for a kernel that is not there, or not any more.
Nothing is imported before its name is used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from `typing`, whose import takes a fifth of a short command's time
if TYPE_CHECKING:
    from flycore.client.client import connect as connect
    from flycore.model.call import Progress as Progress
    from flycore.model.call import ToolResult as ToolResult
    from flycore.model.catalog import Catalog as Catalog
    from flycore.model.enums import Code as Code
    from flycore.model.enums import Phase as Phase
    from flycore.model.enums import Status as Status
    from flycore.model.errors import ConnectionLost as ConnectionLost
    from flycore.model.errors import FlyError as FlyError
    from flycore.model.errors import KernelUnreachable as KernelUnreachable
    from flycore.model.errors import ProtocolError as ProtocolError
    from flycore.model.errors import RootBusy as RootBusy
    from flycore.model.events import Event as Event
    from flycore.model.events import EventClass as EventClass
    from flycore.rpc.methods import Client as Client

__version__ = "0.1.0"
"""The kernel's version, which `compatibleCore` ranges are checked against."""

_HOMES = {
    "Catalog": "flycore.model.catalog",
    "Client": "flycore.rpc.methods",
    "Code": "flycore.model.enums",
    "ConnectionLost": "flycore.model.errors",
    "Event": "flycore.model.events",
    "EventClass": "flycore.model.events",
    "FlyError": "flycore.model.errors",
    "KernelUnreachable": "flycore.model.errors",
    "Phase": "flycore.model.enums",
    "Progress": "flycore.model.call",
    "ProtocolError": "flycore.model.errors",
    "RootBusy": "flycore.model.errors",
    "Status": "flycore.model.enums",
    "ToolResult": "flycore.model.call",
    "connect": "flycore.client.client",
}
"""Every public name, and the module it is imported from at its first use."""


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
