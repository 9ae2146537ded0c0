"""The table of the systems whose files flytui knows. A new system is a module and a row here."""

from __future__ import annotations

from flycore.discovery.other_systems.clients import CLIENTS
from flycore.discovery.other_systems.flyflor import FLYFLOR
from flycore.discovery.other_systems.gibson import GIBSON
from flycore.discovery.other_systems.glee import GLEE
from flycore.discovery.other_systems.model import OtherSystem
from flycore.discovery.other_systems.ybs import YBS

SYSTEMS: tuple[OtherSystem, ...] = (FLYFLOR, YBS, GIBSON, GLEE)
"""Systems with files that flytui does not read, which `doctor` and `lint` name."""
MIGRATED: tuple[OtherSystem, ...] = (*SYSTEMS, CLIENTS)
"""Systems that `flytui migrate` carries over."""
