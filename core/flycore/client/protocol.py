"""The interfaces that consoles and the command line use; `flycore.rpc.methods` declares them."""

from __future__ import annotations

from flycore.rpc.methods import Approver as Approver
from flycore.rpc.methods import Client as Client
from flycore.rpc.methods import OnProgress as OnProgress
