"""What the project and the person declare: registry files, settings, and where everything lies."""

from __future__ import annotations

from flycore.registry.schema import registry_schema

__all__ = ["registry_schema"]
