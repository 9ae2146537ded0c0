"""What a project's registry replaces of the user's own: whole entries by their ids, and tools by their names.

Only an entry that may run replaces anything. While a project's entry is not trusted, not valid or switched
off, the user's entry of the same id is in force, and the user's tools stay with the user's entries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from flycore.approval.entry_summary import describe_entry
from flycore.approval.trust_facts import trust_facts
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.enums import Decision, Kind, Source
from flycore.model.program import ResolvedProgram
from flycore.model.question import TrustItem
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.pipeline.context import Files
from flycore.policy.conditions import Match, PolicyCall
from flycore.policy.evaluate import Policy
from flycore.policy.rules import Rule
from flycore.registry.load import in_file_order, mark_conflicts

RULE = "kept-by-user"


def settle_entries(registry: Registry, running: frozenset[str]) -> Registry:
    """Return the registry with the user's entries in force that no running entry of the project replaces.

    `running` are the ids of the project's entries that are trusted, valid and switched on.
    """
    users = tuple(entry for entry in registry.entries if entry.source is Source.USER)
    discovered = tuple(entry for entry in registry.entries if entry.source.discovered)
    bundled = tuple(entry for entry in registry.entries if entry.source is Source.BUNDLE)
    if not users and not registry.replaced:
        return registry
    restored = tuple(entry for entry in registry.replaced if entry.id not in running)
    own = _tool_owners((*users, *registry.replaced))
    ids = {entry.id for entry in restored}
    entries: list[SidecarEntry] = []
    notes: dict[str, Diagnostic] = {}
    for entry in registry.entries:
        if entry.source is not Source.PROJECT or entry.id in ids:
            continue
        taken = _taken_tools(entry, own)
        if entry.id in running:
            entries.append(msgspec.structs.replace(entry, took_over=taken) if taken else entry)
            continue
        # Of two entries of a project, the first has a tool also while it cannot run.
        kept = tuple(claim for claim in entry.tools if _owner(claim.name, own) is None)
        if len(kept) != len(entry.tools):
            notes[entry.id] = _kept_note(entry, taken)
            entry = msgspec.structs.replace(entry, tools=kept)
        entries.append(entry)
    # Discovered entries come last, and so replace nothing of a registry, as those of bundles nothing of the
    # user's.
    marked = mark_conflicts((*entries, *in_file_order((*users, *restored)), *bundled, *discovered))
    return msgspec.structs.replace(
        registry,
        entries=tuple(_with_note(entry, notes) for entry in marked),
        replaced=tuple(entry for entry in registry.replaced if entry.id in running),
    )


def _tool_owners(users: tuple[SidecarEntry, ...]) -> dict[str, SidecarEntry]:
    """Return the user's entries by the names of their tools; `id.*` stands for the tools of an MCP server."""
    owners: dict[str, SidecarEntry] = {}
    for entry in users:
        names = (f"{entry.id}.*",) if entry.kind is Kind.MCP else entry.tool_names
        for name in names:
            owners.setdefault(name, entry)
    return owners


def _owner(tool: str, owners: Mapping[str, SidecarEntry]) -> SidecarEntry | None:
    """Return the user's entry that offers the tool."""
    if tool in owners:
        return owners[tool]
    # The id of an MCP server may hold dots, and the last part of its tools' names holds none.
    return owners.get(f"{tool.rpartition('.')[0]}.*")


def _taken_tools(entry: SidecarEntry, owners: Mapping[str, SidecarEntry]) -> dict[str, str]:
    """Return the tools of the user's entries that this entry offers, too, with the ids of those entries."""
    if entry.kind is not Kind.MCP:
        found = ((name, _owner(name, owners)) for name in entry.tool_names)
        return {name: owner.id for name, owner in found if owner is not None}
    # Its tools are known when it runs. It does not get a name that an entry in force claims, so it takes over
    # only those of the entry whose id it has.
    start = f"{entry.id}."
    return {
        name: owner.id for name, owner in owners.items() if owner.id == entry.id and name.startswith(start)
    }


def _kept_note(entry: SidecarEntry, taken: Mapping[str, str]) -> Diagnostic:
    return Diagnostic(
        severity=Severity.WARNING,
        rule=RULE,
        message=f"your own registry offers {', '.join(taken)}, and keeps them until this entry may run",
        remedy="nothing, if you want to keep them; flytui trust says what the entry would replace",
        pointer=f"/sidecars/{entry.id}/tools",
        position=entry.position,
        sidecar=entry.id,
    )


def _with_note(entry: SidecarEntry, notes: Mapping[str, Diagnostic]) -> SidecarEntry:
    if entry.source is not Source.PROJECT or entry.id not in notes:
        return entry
    return msgspec.structs.replace(entry, problems=(*entry.problems, notes[entry.id]))


# What trust says of it.


def summarize_entry(entry: SidecarEntry, files: Files) -> tuple[str, ...]:
    """Return the lines that a person sees before trusting the entry; `files` are as they are written."""
    return (
        *replacement_lines(entry, files.registry, files.policy),
        *describe_entry(entry, files.resolutions(entry.id)),
    )


def with_facts(
    items: Iterable[TrustItem], files: Files, is_bundled: Callable[[ResolvedProgram | None], bool]
) -> tuple[TrustItem, ...]:
    """Return the items with their facts in short. `is_bundled` says whether a program came with flytui."""
    registry = files.registry
    entries = {entry.id: entry for entry in (*registry.replaced, *registry.entries)}
    made: list[TrustItem] = []
    for item in items:
        entry = entries.get(item.sidecar)
        if entry is not None:
            facts = trust_facts(
                entry,
                files.resolutions(entry.id),
                registry.app_root,
                own=is_bundled(files.programs.get(entry.id)),
                overrides=bool(replacement_lines(entry, registry, files.policy)),
            )
            item = msgspec.structs.replace(item, facts=facts)
        made.append(item)
    return tuple(made)


def replacement_lines(entry: SidecarEntry, registry: Registry, policy: Policy) -> tuple[str, ...]:
    """Return the lines of an entry's summary about what trust in it would replace, and which rules of the
    user would allow its tools. `registry` is the one of the files."""
    if entry.source is Source.USER:
        return ()
    if entry.source.discovered or entry.source is Source.BUNDLE:
        return tuple(_rule_lines(entry, policy, {}))
    users = tuple(one for one in registry.entries if one.source is Source.USER)
    owners = _tool_owners((*users, *registry.replaced))
    taken = _taken_tools(entry, owners)
    return (*_replaced_lines(entry, registry, owners, taken), *_rule_lines(entry, policy, taken))


def _replaced_lines(
    entry: SidecarEntry, registry: Registry, owners: Mapping[str, SidecarEntry], taken: Mapping[str, str]
) -> Iterator[str]:
    for other in registry.replaced:
        if other.id == entry.id:
            offered = f"{other.id}.*" if other.kind is Kind.MCP else ", ".join(other.tool_names)
            yield f"replaces your own entry {_named(other)}, which offers {_quoted(offered)}"
    for name in taken:
        owner = _owner(name, owners)
        if owner is not None and owner.id != entry.id:
            yield f"takes over {_quoted(name)} from your own entry {_named(owner)}"


def _rule_lines(entry: SidecarEntry, policy: Policy, taken: dict[str, str]) -> Iterator[str]:
    """Yield, for each allow of the policy, the tools of the entry that it names."""
    settled = msgspec.structs.replace(entry, took_over=taken)
    for rule in policy.rules:
        if rule.decision is not Decision.ALLOW:
            continue
        matched = [name for name in _names(entry, rule) if rule.match(PolicyCall(tool=name)) is not Match.NO]
        held = [name for name in matched if settled.takes_over(name) or not rule.is_for(entry.origin)]
        free = [name for name in matched if name not in held]
        if free:
            yield f"the rule at {_quoted(rule.place)} allows {', '.join(map(_quoted, free))}"
        if held:
            listed = ", ".join(map(_quoted, held))
            yield f"the rule at {_quoted(rule.place)} would not count, so that you are asked, for {listed}"


def _names(entry: SidecarEntry, rule: Rule) -> tuple[str, ...]:
    """Return the names of the entry's tools. Those of an MCP server are known when it runs: its rule's own
    pattern stands for them, or `id.*`."""
    if entry.kind is not Kind.MCP:
        return entry.tool_names
    return (rule.tool if rule.tool.startswith(f"{entry.id}.") else f"{entry.id}.*",)


def _named(entry: SidecarEntry) -> str:
    return f"{_quoted(entry.id)} ({_quoted(f'{entry.position.file}:{entry.position.line}')})"


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
