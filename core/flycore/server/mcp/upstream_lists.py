"""The resources, templates and prompts of MCP servers as clients of flytui's own server see them.

A URI is `flytui://`, the entry's id, `/`, and the URI by which the server knows the resource; a prompt is
called by the entry's id, `_`, and its name. So two servers that use the same ones do not collide. All other
fields are as the server sent them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from mcp_types import Prompt, Resource, ResourceTemplate
from pydantic import BaseModel, ValidationError

from flycore.model.catalog import Catalog
from flycore.model.json import JsonObject
from flycore.model.upstream import COMPLETE, GET_PROMPT, READ_RESOURCE
from flycore.server.mcp.names import Names

URI_START = "flytui://"
RESOURCES, PROMPTS = "resources", "prompts"
LIST_PAGE_SIZE = 100
"""Entries on one page of a list."""

Listed = TypeVar("Listed", bound=BaseModel)


class DoorLists(msgspec.Struct, frozen=True):
    """One state of the lists, each sorted by what its entries are asked for."""

    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    readers: dict[str, str] = msgspec.field(default_factory=dict)
    """The capability that reads the resources of each entry."""
    askers: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    """By the name of a prompt here: the capability that gets it, and the server's own name of it."""
    completers: dict[str, str] = msgspec.field(default_factory=dict)
    """The capability that completes arguments for each entry."""
    owners: dict[str, str] = msgspec.field(default_factory=dict)
    """The entry of each prompt, by the prompt's name here."""

    def changed(self, other: DoorLists) -> set[str]:
        """Return which lists differ."""
        kinds = {PROMPTS} if self.prompts != other.prompts else set[str]()
        same = (self.resources, self.templates) == (other.resources, other.templates)
        return kinds if same else {*kinds, RESOURCES}

    def source(self, uri: str) -> tuple[str, str, str] | None:
        """Return the entry's id, the capability that reads the resource, and the server's own URI of it; None
        where no server has it. A server's own URI, as its tools name it in links, is taken where one server
        alone has it or, if none lists it, where one alone has its scheme."""
        if uri.startswith(URI_START):
            entry, _, own = uri.removeprefix(URI_START).partition("/")
            reader = self.readers.get(entry)
            return (entry, reader, own) if reader is not None and own else None
        scheme = uri.partition(":")[0] + ":"
        own_uris = [
            known.removeprefix(URI_START).partition("/")
            for known in (*(one.uri for one in self.resources), *(one.uri_template for one in self.templates))
        ]
        exact = {entry for entry, _, own in own_uris if own == uri}
        found = exact or {entry for entry, _, own in own_uris if own.startswith(scheme)}
        if len(found) != 1:
            return None
        entry = found.pop()
        return entry, self.readers[entry], uri


def mapped_uri(entry: str, uri: str) -> str:
    """Return the URI under which clients know the resource of an entry."""
    return f"{URI_START}{entry}/{uri}"


def door_lists(catalog: Catalog, usable: frozenset[str]) -> DoorLists:
    """Return the lists of all servers; `usable` are the capabilities that agents may call."""
    readers, getters, completers = dict[str, str](), dict[str, str](), dict[str, str]()
    for view in catalog.capabilities:
        if view.capability.name in usable and view.sidecar is not None:
            if view.capability.request == READ_RESOURCE:
                readers[view.sidecar] = view.capability.name
            elif view.capability.request == GET_PROMPT:
                getters[view.sidecar] = view.capability.name
            elif view.capability.request == COMPLETE:
                completers[view.sidecar] = view.capability.name
    resources: list[Resource] = []
    templates: list[ResourceTemplate] = []
    own_prompts: dict[str, tuple[str, str, Prompt]] = {}
    owners: dict[str, str] = {}
    for server in catalog.sidecars:
        if server.id in readers:
            resources += _read(Resource, server.lists.resources, server.id, "uri")
            templates += _read(ResourceTemplate, server.lists.templates, server.id, "uriTemplate")
        if server.id in getters:
            for prompt in _read(Prompt, server.lists.prompts, server.id, ""):
                own_prompts[f"{server.id}.{prompt.name}"] = (getters[server.id], prompt.name, prompt)
                owners[f"{server.id}.{prompt.name}"] = server.id
    names = Names(sorted(own_prompts)).name_of
    prompts = [prompt.model_copy(update={"name": names[key]}) for key, (_, _, prompt) in own_prompts.items()]
    return DoorLists(
        resources=tuple(sorted(resources, key=lambda one: one.uri)),
        templates=tuple(sorted(templates, key=lambda one: one.uri_template)),
        prompts=tuple(sorted(prompts, key=lambda one: one.name)),
        readers=readers,
        askers={names[key]: (getter, own) for key, (getter, own, _) in own_prompts.items()},
        completers=completers,
        owners={names[key]: owner for key, owner in owners.items()},
    )


def _read(kind: type[Listed], listed: tuple[JsonObject, ...], entry: str, uri: str) -> Iterator[Listed]:
    for sent in listed:
        mapped = {**sent, uri: mapped_uri(entry, str(sent[uri]))} if uri else sent
        try:
            yield kind.model_validate(mapped)
        except ValidationError:
            continue  # the kernel's SDK has read it; another version of it may not
