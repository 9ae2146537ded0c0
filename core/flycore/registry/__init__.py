"""The files of a project and a person: registries, settings, and the paths of all files of a root."""

from __future__ import annotations

from flycore.registry.schema import registry_schema

__all__ = ["registry_schema"]
