"""The reasons why a stability dimension is not healthy, each with the next action you can take.

There is one constructor for each cause. A message holds no measured time and no counter: those belong to
the evidence. Reasons are compared to find out whether a snapshot changed, and a number that moves would
make every snapshot a new one.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from flycore.catalog.builtin import BUNDLED_TOOLS
from flycore.catalog.fixes import NO_MACHINE, Machine, edit_fix, of_program
from flycore.catalog.proposed_entries import member_text, printed_entry, with_own_program
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Diagnostic, Fix, FixKind
from flycore.model.enums import RUNNABLE_KINDS, Level, ReasonCode, RuntimeState, Source, UpgradeState
from flycore.model.errors import StateUnwritable
from flycore.model.json import JsonObject, digest
from flycore.model.json_diff import json_difference
from flycore.model.program import ResolvedProgram
from flycore.model.refusals import Refusals, refusal_sentences, with_granted
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import Reason, RuntimeEvidence
from flycore.registry.jsonc.edit import spelled
from flycore.registry.source_text import key_position

REGISTRY_FILE = "tools/external.tools.jsonc"
LONGEST_QUOTE = 200
"""Characters that a message quotes of what a program wrote."""


def where(entry: SidecarEntry, key: str = "") -> str:
    """Return `file:line` of a key of the entry, or of the entry itself where the key is absent. For a
    discovered executable it is the file alone, which is the program itself."""
    if entry.source is Source.EXECUTABLE:
        return entry.position.file
    position = key_position(entry, key)
    return f"{position.file}:{position.line}"


def not_configured(capability: Capability, registry: str = "", line: int = 0) -> Reason:
    """Return the reason for a known tool that no sidecar offers.

    `registry` is the project's registry file, empty where there is none, and `line` the line at which its
    entries begin.
    """
    name = capability.name
    fix = Fix(kind=FixKind.EDIT, words=f"add {name} to the registry", file=registry, line=line)
    if name in BUNDLED_TOOLS:
        message = f"no sidecar in the registry offers {name}"
        remedy = (
            f'add this entry to "sidecars" in {REGISTRY_FILE}, or add the name of the tool to an entry '
            f"that is there already: {printed_entry(capability)}"
        )
    else:
        message = (
            f"no sidecar in the registry offers {name}, and this version of flytui has no program for it"
        )
        remedy = (
            f'write a process-json program (docs/writing-sidecars.md) and add this entry to "sidecars" in '
            f"{REGISTRY_FILE}: {printed_entry(capability)}"
        )
    if not registry:
        fix = Fix(kind=FixKind.INIT, words=f"write a first registry to {REGISTRY_FILE}")
    return Reason(
        code=ReasonCode.NOT_CONFIGURED, dimension="discovery", message=message, remedy=remedy, fix=fix
    )


def plan_needs(plan: str, tools: Sequence[str], first: Reason) -> Reason:
    """Return the first reason that these tools of a plan share, worded as a reason of the plan."""
    return msgspec.structs.replace(
        first,
        message=f"{plan} needs {_listed(tools)}: {first.message}",
        remedy=first.remedy if len(tools) > 1 else f"for {tools[0]}: {first.remedy}",
    )


def _listed(names: Sequence[str]) -> str:
    """Name the tools that share a reason: both of two, and the first of more."""
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more of its tools"


def schema_unknown(entry: SidecarEntry, why: str, stderr_tail: str) -> Reason:
    """Return the reason for an executable that did not say what it takes. `why` is a sentence without its
    subject."""
    wrote = stderr_tail.strip().rpartition("\n")[2][:LONGEST_QUOTE]
    said = f" ({wrote})" if wrote else ""
    return Reason(
        code=ReasonCode.SCHEMA_UNKNOWN,
        dimension="probe",
        message=f"asked with --schema, it {why}{said}: its input is not checked, and each call is asked",
        remedy=f"flytui inspect {entry.id} shows what it wrote; correct it, then run flytui tools refresh",
    )


def disabled(entry: SidecarEntry) -> Reason:
    """Return the reason for an entry with `enabled: false`. Where the entry says why it is switched off,
    that sentence is the message."""
    once = "once that no longer applies, " if entry.disabled_reason else ""
    return Reason(
        code=ReasonCode.DISABLED,
        dimension="discovery",
        message=entry.disabled_reason or f"{entry.id} is switched off in the registry",
        remedy=f'{once}set "enabled" to true at {where(entry, "enabled")}',
        fix=Fix(kind=FixKind.ENABLE, words=f"switch {entry.id} on"),
    )


def manifest_invalid(entry: SidecarEntry, problem: Diagnostic) -> Reason:
    """Return the reason for an entry that does not meet the registry's schema."""
    place = f"{problem.position.file}:{problem.position.line}" if problem.position else where(entry)
    pointer = f"{problem.pointer}: " if problem.pointer else ""
    return Reason(
        code=ReasonCode.MANIFEST_INVALID,
        dimension="manifest",
        message=f"{pointer}{problem.message} ({place})",
        remedy=problem.remedy or f"correct {place}; flytui schema registry prints the schema it has to meet",
        fix=Fix(
            kind=FixKind.EDIT,
            words="correct the entry",
            file=(problem.position or entry.position).file,
            line=(problem.position or entry.position).line,
        ),
    )


def path_failed(
    entry: SidecarEntry, program: ResolvedProgram | None, machine: Machine = NO_MACHINE
) -> Reason:
    """Return the reason for a command that was not found or may not be run. `program` is None where the
    command was not looked up."""
    place = where(entry, "command")
    if program is None:
        return Reason(
            code=ReasonCode.COMMAND_NOT_FOUND,
            dimension="path",
            message=f"the command {entry.command} was not looked up",
            remedy=f'correct "command" at {place}',
            fix=edit_fix(entry, "command", "correct the command"),
        )
    found = Reason(
        code=program.reason or ReasonCode.COMMAND_NOT_FOUND,
        dimension="path",
        message=program.message or f"no program was found for {program.declared}",
        remedy=program.remedy or f'install {program.declared}, or correct "command" at {place}',
        fix=of_program(entry, program, "command", "correct the command", machine),
    )
    own = with_own_program(entry) if found.code is ReasonCode.COMMAND_NOT_FOUND else None
    return found if own is None else _or_own_program(entry, found, own)


def _or_own_program(entry: SidecarEntry, found: Reason, own: JsonObject) -> Reason:
    """Return the reason of a missing program, with flytui's own program as the other way out."""
    fix = found.fix
    if fix is None or fix.kind is FixKind.EDIT:
        words = "put the program there, or write the entry for flytui's own as the difference shows"
        fix = msgspec.structs.replace(
            edit_fix(entry, "command", words), difference=json_difference(entry.raw, own)
        )
    remedy = f"{found.remedy}; or use flytui's own program: {member_text(entry.id, own)}"
    return msgspec.structs.replace(found, remedy=remedy, fix=fix)


def kind_unsupported(entry: SidecarEntry) -> Reason:
    """Return the reason for an entry of a kind that this version does not run."""
    kinds = ", ".join(RUNNABLE_KINDS)
    return Reason(
        code=ReasonCode.KIND_UNSUPPORTED,
        dimension="version",
        message=f"this version of flytui does not run sidecars of the kind {entry.kind}",
        remedy=f"this version runs the kinds {kinds}; if the program speaks one of them, "
        f'change "kind" at {where(entry, "kind")}',
        fix=edit_fix(entry, "kind", "change the kind"),
    )


def core_incompatible(entry: SidecarEntry, core: str) -> Reason:
    """Return the reason for an entry whose `compatibleCore` does not include this kernel's version."""
    return Reason(
        code=ReasonCode.CORE_INCOMPATIBLE,
        dimension="version",
        message=f"made for flytui {entry.compatible_core}, but this is flytui {core}",
        remedy=f'install a version of it that is made for flytui {core}, or correct "compatibleCore" at '
        f"{where(entry, 'compatibleCore')}",
        fix=edit_fix(entry, "compatibleCore", "correct the version range"),
    )


def protocol_incompatible(entry: SidecarEntry, protocols: tuple[str, ...]) -> Reason:
    """Return the reason for an entry that speaks a protocol version this kernel does not speak."""
    return Reason(
        code=ReasonCode.PROTOCOL_INCOMPATIBLE,
        dimension="version",
        message=f"speaks process-json {entry.protocol_version}, "
        f"but this flytui speaks {', '.join(protocols)}",
        remedy=f'install a version of it that does, or correct "protocolVersion" at '
        f"{where(entry, 'protocolVersion')}",
        fix=edit_fix(entry, "protocolVersion", "correct the protocol version"),
    )


def version_unknown(entry: SidecarEntry, installed: str | None) -> Reason:
    """Return the reason for a declared package whose installed version is unknown or another one."""
    package = entry.package_id or entry.id
    declared = f" {entry.package_version}" if entry.package_version else ""
    found = f"but version {installed} is installed" if installed else "but its installed version is not known"
    key = "packageVersion" if entry.package_version else "packageId"
    return Reason(
        code=ReasonCode.VERSION_UNKNOWN,
        dimension="version",
        message=f"the package {package}{declared} is declared, {found}",
        remedy=f'install {package}{declared}, or correct "packageVersion" at {where(entry, key)}',
        fix=edit_fix(entry, key, "correct the package's version"),
    )


def secret_missing(entry: SidecarEntry, missing: Mapping[str, str]) -> Reason:
    """Return the reason for declared secrets that are not set. `missing` maps each name to why it counts as
    missing; no value of a secret is ever read here."""
    names = ", ".join(f"{name} ({why})" if why else name for name, why in sorted(missing.items()))
    return Reason(
        code=ReasonCode.SECRET_MISSING,
        dimension="probe",
        message=f"secrets that it declares are not set: {names}",
        remedy=f"{secret_remedy(missing)}; declared at {where(entry, 'permissions')}",
        fix=edit_fix(
            entry, "permissions", "change which secrets it declares; you set their values in the environment"
        ),
    )


def secret_remedy(missing: Iterable[str]) -> str:
    """Return the two ways to give the tool its secrets."""
    names = sorted(missing)
    commands = " and ".join(f"flytui secrets set {name}" for name in names)
    return (
        f"set {' and '.join(names)} in the environment that you start flytui from, or keep it in the "
        f"system's keyring: {commands}"
    )


def delegate_missing(
    entry: SidecarEntry, name: str, program: ResolvedProgram, machine: Machine = NO_MACHINE
) -> Reason:
    """Return the reason for a tool whose delegate was not found or may not be run."""
    return Reason(
        code=ReasonCode.DELEGATE_MISSING,
        dimension="probe",
        message=f"the delegate {name}: {program.message or f'no program was found for {program.declared}'}",
        remedy=program.remedy or f"correct delegates.{name} at {where(entry, 'delegates')}",
        fix=of_program(entry, program, "delegates", "correct the delegate", machine),
    )


def dialect_unknown(entry: SidecarEntry, tool: str) -> Reason:
    """Return the reason for an acting tool of a foreign program that may read other fields than flytui's."""
    return Reason(
        code=ReasonCode.DIALECT_UNKNOWN,
        dimension="probe",
        message=f"it is not known which fields {entry.id} reads for {tool}: it may ignore some of the "
        "input, and answer success without having acted",
        remedy=f'give {tool} in "tools" at {where(entry, "tools")} the inputSchema that its program reads: '
        f'{{"name": "{tool}", "inputSchema": {{…}}}}; or write "dialect": "flyflor" into the entry, if the '
        f"program is one of Flyflor's: flytui migrate does so. If it reads the fields that flytui inspect "
        f'{tool} shows, let its probe answer "protocol": "process-json/1"',
        fix=edit_fix(entry, "tools", f"describe {tool} as its program reads it"),
    )


def no_arguments(entry: SidecarEntry, tool: str, why: str, key: str) -> Reason:
    """Return the reason for a tool whose actions another program does, which `config` names at `key`, and of
    which it is not known how it is told."""
    return Reason(
        code=ReasonCode.DELEGATE_MISSING,
        dimension="probe",
        message=why,
        remedy=f'write "{key}": "xdotool" into config at {where(entry, "config")}; for another program give '
        f'{tool} in "tools" at {where(entry, "tools")} the inputSchema that it reads: {{"name": "{tool}", '
        '"inputSchema": {"type": "object", "properties": {"args": {"type": "array", "items": {"type": '
        '"string"}}}, "required": ["args"]}}',
        fix=edit_fix(entry, "config", "name the program that acts"),
    )


def answered_unavailable(entry: SidecarEntry, tool: str, said: str, hint: str) -> Reason:
    """Return the reason for a tool that answered its last call with `unavailable`. `said` and `hint` are its
    own words."""
    words = f"; it says what helps: {hint}" if hint else ""
    return Reason(
        code=ReasonCode.ANSWERED_UNAVAILABLE,
        dimension="runtime",
        message=f"{tool} answered its last call that it is unavailable: {said}{words}",
        remedy=f"give it what it lacks; its entry is at {where(entry)}. The next call that succeeds clears "
        f"this, and so does asking it again: R in the console, or flytui doctor",
        fix=edit_fix(entry, "config", "give it what it lacks"),
    )


def runtime_failed(entry: SidecarEntry, state: RuntimeState, evidence: RuntimeEvidence | None) -> Reason:
    """Return the reason for a sidecar whose last call failed through a fault of its own."""
    remedy = (
        f"flytui inspect {entry.id} shows what the program wrote; the next call that succeeds clears this, "
        "and so does a minute without a call"
    )
    if state is RuntimeState.TIMED_OUT:
        code, message = (
            ReasonCode.RUNTIME_TIMED_OUT,
            f"the last call took longer than its limit of {entry.timeout_ms} ms",
        )
        remedy = f'raise "timeoutMs" at {where(entry, "timeoutMs")} if the work needs longer; {remedy}'
    elif state is RuntimeState.SCHEMA_ERROR:
        code, message = (
            ReasonCode.RUNTIME_SCHEMA_ERROR,
            "the program's answer to the last call could not be read",
        )
    else:
        spawn = evidence is not None and evidence.code == "spawn"
        message = (
            "the program could not be started for the last call"
            if spawn
            else "the program crashed during the last call"
        )
        code = ReasonCode.RUNTIME_FAILED
    probe = Fix(kind=FixKind.PROBE, words=f"probe {entry.id} again")
    return Reason(code=code, dimension="runtime", message=message, remedy=remedy, fix=probe)


def folder_untrusted(entry: SidecarEntry) -> Reason:
    """Return the reason for an entry that no person has trusted yet: nothing of it is started before."""
    came = f" was found in {entry.position.file}" if entry.source.discovered else " came with this folder"
    return Reason(
        code=ReasonCode.FOLDER_UNTRUSTED,
        dimension="sandbox",
        message=f"{entry.id}{came}, and nobody has trusted it yet",
        remedy="run flytui trust to see what it would run, and accept it if you want that",
        fix=Fix(kind=FixKind.TRUST, words="see what it would run, and decide"),
    )


def definition_changed(tool: str, *, new: bool) -> Reason:
    """Return the reason for a tool whose definition by its program changed since a person approved it, or
    which the program did not offer then (`new`)."""
    change = "is new since its program was approved" if new else "has changed since it was approved"
    return Reason(
        code=ReasonCode.FOLDER_UNTRUSTED,
        dimension="sandbox",
        message=f"{tool} {change}, and nobody has looked at that yet",
        remedy="press T in the console, or run flytui trust beside it, to see the difference and decide",
        fix=Fix(kind=FixKind.TRUST, words="see what changed, and decide"),
    )


def offered_no_longer(tool: str, sidecar: str) -> Reason:
    """Return the reason for a tool that its MCP server or its executable no longer lists."""
    return Reason(
        code=ReasonCode.TOOL_UNAVAILABLE,
        dimension="probe",
        message=f"{sidecar} no longer offers {tool}",
        remedy=f"flytui inspect {sidecar} shows what it offers now; the maker of the program knows why",
    )


def policy_denied(tool: str, because: str) -> Reason:
    """Return the reason for a tool that a policy rule denies for every input."""
    return Reason(
        code=ReasonCode.POLICY_DENIED,
        dimension="sandbox",
        message=f"a rule denies {tool}: {because}",
        remedy="change or remove that rule in policy.jsonc; flytui policy explain names its line",
    )


def blocked(tool: str) -> Reason:
    """Return the reason for a tool that a person has blocked for every caller."""
    return Reason(
        code=ReasonCode.BLOCKED,
        dimension="sandbox",
        message=f"{tool} was blocked for every caller",
        remedy="unblock it on the screen Grants of the console",
    )


def ceiling_exceeded(entry: SidecarEntry, exceeded: tuple[str, ...]) -> Reason:
    """Return the reason for a tool of an agent that declares more permissions than such tools may have."""
    return Reason(
        code=ReasonCode.CEILING_EXCEEDED,
        dimension="sandbox",
        message="declares more than security.max_permissions allows a tool of an agent: "
        f"{', '.join(exceeded)}",
        remedy=f'declare less in "permissions" at {where(entry, "permissions")}, or allow more in '
        "security.max_permissions in config.jsonc",
        fix=edit_fix(entry, "permissions", "declare less"),
    )


def below_minimum(tool: str, least: Level, level: Level) -> str:
    """Say in words that a tool would run at a weaker level than it may."""
    return f"{tool} needs the level {least}, and only {level} is possible here"


def sandbox_unavailable(entry: SidecarEntry, mechanism: str, remedy: str = "") -> Reason:
    """Return the reason for an entry that this machine cannot confine as strictly as is required. `remedy`
    says what makes a stronger level possible."""
    weaker = "set a weaker level for the tool in sandbox.minimum of config.jsonc"
    return Reason(
        code=ReasonCode.SANDBOX_UNAVAILABLE,
        dimension="sandbox",
        message=f"this machine cannot confine it as strictly as required: {mechanism}",
        remedy=f"{remedy}; or {weaker}" if remedy else weaker,
    )


def permission_missing(entry: SidecarEntry, tool: str, refusals: Refusals) -> Reason:
    """Return the reason for a tool whose last call failed and was refused what its entry does not permit."""
    place = where(entry, "permissions")
    message = "; ".join(refusal_sentences(refusals, tool))
    if entry.source is Source.EXECUTABLE:
        return Reason(
            code=ReasonCode.PERMISSION_MISSING,
            dimension="sandbox",
            message=message,
            remedy=f"an executable in a folder of tools gets no permissions; if {entry.position.file} may "
            f"have that, write an entry of the kind executable for it in {REGISTRY_FILE}, with permissions",
        )
    if not refusals.grantable:
        return Reason(
            code=ReasonCode.PERMISSION_MISSING,
            dimension="sandbox",
            message=message,
            remedy=f'if it needs that, declare it yourself in "permissions" at {place}: see docs/sandbox.md',
            fix=edit_fix(entry, "permissions", "declare what it may reach"),
        )
    line = spelled(permitted(entry, refusals)["permissions"])
    return Reason(
        code=ReasonCode.PERMISSION_MISSING,
        dimension="sandbox",
        message=message,
        remedy=f'if it may have that, write "permissions": {line} at {place}, and trust the entry again',
        fix=Fix(
            kind=FixKind.PERMIT,
            words=f"add it to the permissions of {entry.id}",
            file=entry.position.file,
            difference=json_difference(entry.raw, permitted(entry, refusals)),
            digest=permit_digest(entry, refusals),
        ),
    )


def permitted(entry: SidecarEntry, refusals: Refusals) -> JsonObject:
    """Return the entry as it is written, with what was refused permitted."""
    declared = entry.raw.get("permissions")
    permissions = with_granted(declared if isinstance(declared, dict) else {}, refusals)
    return {**entry.raw, "permissions": permissions}


def permit_digest(entry: SidecarEntry, refusals: Refusals) -> str:
    """Return the digest by which a person's consent holds for exactly this change of exactly this entry."""
    return digest([entry.id, entry.digest, permitted(entry, refusals)])


def quota_limited(why: str) -> Reason:
    """Return the reason for a caller that has used up its quota. `why` says which limit was reached, and
    when a call is free again."""
    return Reason(
        code=ReasonCode.QUOTA_LIMITED,
        dimension="sandbox",
        message=f"the quota of calls is used up for now: {why}",
        remedy='wait until a call is free again, or raise "quota" in config.jsonc',
    )


_STATE_REMEDIES = {
    errno.EROFS: "mount that file system for writing, or set XDG_STATE_HOME to a folder that can be written",
    errno.ENOSPC: "make room there, or set XDG_STATE_HOME to a folder on another disk",
    errno.EDQUOT: "make room in your quota, or set XDG_STATE_HOME to a folder on another disk",
    errno.EACCES: "take it over (`chown`), or set XDG_STATE_HOME to a folder of your own",
    errno.ENOLCK: "its file system has no locks: set XDG_STATE_HOME to a folder on a local disk",
    errno.EOPNOTSUPP: "its file system has no locks: set XDG_STATE_HOME to a folder on a local disk",
    errno.EMFILE: "close programs, or raise the limit of descriptors (`ulimit -n`)",
}


def state_unwritable(path: str, error: OSError) -> StateUnwritable | None:
    """Return why no kernel can run where the root's state cannot be written, with the remedy; None for an
    error of another kind."""
    remedy = _STATE_REMEDIES.get(error.errno or 0)
    return None if remedy is None else StateUnwritable(path, error.strerror or str(error), remedy)


_UPGRADES = {
    UpgradeState.STAGED: (ReasonCode.UPGRADE_STAGED, "an upgrade is staged, but not applied yet"),
    UpgradeState.APPLYING: (ReasonCode.UPGRADE_APPLYING, "an upgrade is being applied"),
    UpgradeState.ROLLBACK_REQUIRED: (
        ReasonCode.ROLLBACK_REQUIRED,
        "an upgrade failed and has to be rolled back",
    ),
    UpgradeState.FAILED: (ReasonCode.UPGRADE_FAILED, "an upgrade failed"),
}


def _upgrade_remedy(entry: SidecarEntry) -> str:
    """Return what a person does about a package that flytui manages."""
    package = f"{entry.package_id or entry.id}{' --user' if entry.source is Source.USER else ''}"
    if entry.upgrade is UpgradeState.STAGED:
        return f"run flytui packages apply {package}, which shows what changes; or answer in the console"
    if entry.upgrade is UpgradeState.APPLYING:
        return "wait until it is done; if nothing happens, flytui packages list finishes or undoes it"
    return f"run flytui packages rollback {package}, or answer in the console"


def upgrade(entry: SidecarEntry) -> tuple[Reason, ...]:
    """Return the reason that the state of an upgrade gives; nothing for `idle`."""
    if entry.upgrade not in _UPGRADES:
        return ()
    code, message = _UPGRADES[entry.upgrade]
    if "upgrade" not in entry.raw:
        message = f"{message} ({entry.id})"
        return (Reason(code=code, dimension="upgrade", message=message, remedy=_upgrade_remedy(entry)),)
    remedy = (
        f'finish the upgrade of {entry.package_id or entry.id}, then remove "upgrade" at '
        f"{where(entry, 'upgrade')}"
    )
    fix = edit_fix(entry, "upgrade", "finish the upgrade, then remove the key")
    message = f"{message} ({entry.id})"
    return (Reason(code=code, dimension="upgrade", message=message, remedy=remedy, fix=fix),)
