"""The table of the systems whose files flytui knows. A new system is a module and a row here."""

from __future__ import annotations

from flycore.discovery.other_systems.gibson import GIBSON
from flycore.discovery.other_systems.glee import GLEE
from flycore.discovery.other_systems.model import OtherSystem
from flycore.discovery.other_systems.ybs import YBS

SYSTEMS: tuple[OtherSystem, ...] = (YBS, GIBSON, GLEE)
