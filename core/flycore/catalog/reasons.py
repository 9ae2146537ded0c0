"""Why a dimension is not well, and the next action a person can take: one constructor for each cause.

A sentence here holds no measured time and no counter: those are evidence, and a reason is compared.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flycore.catalog.builtin import BUNDLED_TOOLS
from flycore.catalog.fixes import NO_MACHINE, Machine, edit_fix, of_program
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Diagnostic, Fix, FixKind
from flycore.model.enums import RUNNABLE_KINDS, ReasonCode, RuntimeState, UpgradeState
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import Reason, RuntimeEvidence
from flycore.registry.source_text import key_position

REGISTRY_FILE = "tools/external.tools.jsonc"


def where(entry: SidecarEntry, key: str = "") -> str:
    """`file:line` of a key of the entry, of the entry itself where the key is absent."""
    position = key_position(entry, key)
    return f"{position.file}:{position.line}"


def not_configured(capability: Capability, registry: str = "", line: int = 0) -> Reason:
    """Nothing offers the tool. `registry` is the project's file, where there is one, and `line` where its
    entries begin."""
    name = capability.name
    fix = Fix(kind=FixKind.EDIT, words=f"add {name} to the registry", file=registry, line=line)
    if name in BUNDLED_TOOLS:
        sidecar = capability.sidecar or ""
        lines = f'"{sidecar}": {{"command": "flytui-sidecar", "args": ["{sidecar}"], "tools": ["{name}"]}}'
        message = f"no sidecar in the registry offers {name}"
        remedy = f'add to "sidecars" in {REGISTRY_FILE}, or its name to an entry that is there: {lines}'
    else:
        own = name.replace(".", "-")
        lines = f'"{name}": {{"command": "./tools/packages/{own}/bin/{own}", "tools": ["{name}"]}}'
        message = (
            f"no sidecar in the registry offers {name}, and this version of flytui brings no program for it"
        )
        remedy = (
            f'write a process-json program (docs/writing-sidecars.md) and add to "sidecars" in '
            f"{REGISTRY_FILE}: {lines}"
        )
    if not registry:
        fix = Fix(kind=FixKind.INIT, words=f"write a first registry to {REGISTRY_FILE}")
    return Reason(
        code=ReasonCode.NOT_CONFIGURED, dimension="discovery", message=message, remedy=remedy, fix=fix
    )


def plan_needs(plan: str, tool: str, first: Reason) -> Reason:
    """A plan is not better than one of its tools, for the reason that tool gives."""
    return msgspec.structs.replace(
        first, message=f"{plan} needs {tool}: {first.message}", remedy=f"for {tool}: {first.remedy}"
    )


def disabled(entry: SidecarEntry) -> Reason:
    """The entry says `enabled: false`, and perhaps why, which then has to be over first."""
    once = "once that is over, " if entry.disabled_reason else ""
    return Reason(
        code=ReasonCode.DISABLED,
        dimension="discovery",
        message=entry.disabled_reason or f"{entry.id} is switched off in the registry",
        remedy=f'{once}set "enabled" to true at {where(entry, "enabled")}',
        fix=Fix(kind=FixKind.ENABLE, words=f"switch {entry.id} on"),
    )


def manifest_invalid(entry: SidecarEntry, problem: Diagnostic) -> Reason:
    """The entry is not what the schema asks for."""
    place = f"{problem.position.file}:{problem.position.line}" if problem.position else where(entry)
    pointer = f"{problem.pointer}: " if problem.pointer else ""
    return Reason(
        code=ReasonCode.MANIFEST_INVALID,
        dimension="manifest",
        message=f"{pointer}{problem.message} ({place})",
        remedy=problem.remedy or f"correct {place}; flytui schema registry prints what is expected",
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
    """The command leads nowhere it may."""
    place = where(entry, "command")
    if program is None:
        return Reason(
            code=ReasonCode.COMMAND_NOT_FOUND,
            dimension="path",
            message=f"the command {entry.command} was not followed",
            remedy=f'correct "command" at {place}',
            fix=edit_fix(entry, "command", "correct the command"),
        )
    return Reason(
        code=program.reason or ReasonCode.COMMAND_NOT_FOUND,
        dimension="path",
        message=program.message or f"{program.declared} leads to no program",
        remedy=program.remedy or f'install {program.declared}, or correct "command" at {place}',
        fix=of_program(entry, program, "command", "correct the command", machine),
    )


def kind_unsupported(entry: SidecarEntry) -> Reason:
    """The entry is spoken to in a way this version does not know."""
    kinds = ", ".join(RUNNABLE_KINDS)
    return Reason(
        code=ReasonCode.KIND_UNSUPPORTED,
        dimension="version",
        message=f"this version of flytui does not run the kind {entry.kind}",
        remedy=f'this version runs: {kinds}; change "kind" at {where(entry, "kind")} '
        "if the program speaks one of them",
        fix=edit_fix(entry, "kind", "change the kind"),
    )


def core_incompatible(entry: SidecarEntry, core: str) -> Reason:
    """`compatibleCore` leaves this kernel out."""
    return Reason(
        code=ReasonCode.CORE_INCOMPATIBLE,
        dimension="version",
        message=f"made for flytui {entry.compatible_core}, this is {core}",
        remedy=f'install a version of it for flytui {core}, or correct "compatibleCore" at '
        f"{where(entry, 'compatibleCore')}",
        fix=edit_fix(entry, "compatibleCore", "correct the version range"),
    )


def protocol_incompatible(entry: SidecarEntry, protocols: tuple[str, ...]) -> Reason:
    """The entry speaks a protocol this kernel does not."""
    return Reason(
        code=ReasonCode.PROTOCOL_INCOMPATIBLE,
        dimension="version",
        message=f"speaks process-json {entry.protocol_version}, this flytui speaks {', '.join(protocols)}",
        remedy=f'install a version that does, or correct "protocolVersion" at '
        f"{where(entry, 'protocolVersion')}",
        fix=edit_fix(entry, "protocolVersion", "correct the protocol version"),
    )


def version_unknown(entry: SidecarEntry, installed: str | None) -> Reason:
    """The declared package cannot be confirmed."""
    package = entry.package_id or entry.id
    declared = f" {entry.package_version}" if entry.package_version else ""
    found = f"version {installed} is installed" if installed else "its installed version is not known"
    key = "packageVersion" if entry.package_version else "packageId"
    return Reason(
        code=ReasonCode.VERSION_UNKNOWN,
        dimension="version",
        message=f"the package {package}{declared} is declared, {found}",
        remedy=f'install {package}{declared}, or correct "packageVersion" at {where(entry, key)}',
        fix=edit_fix(entry, key, "correct the package's version"),
    )


def secret_missing(entry: SidecarEntry, missing: Mapping[str, str]) -> Reason:
    """A declared secret is not there. Names only; a value is never looked at here."""
    names = ", ".join(f"{name} ({why})" if why else name for name, why in sorted(missing.items()))
    return Reason(
        code=ReasonCode.SECRET_MISSING,
        dimension="probe",
        message=f"declared secrets are not there: {names}",
        remedy=f"set {' and '.join(sorted(missing))} in the environment flytui is started from; declared at "
        f"{where(entry, 'permissions')}",
        fix=edit_fix(entry, "permissions", "change which secrets it declares; a value is set outside"),
    )


def delegate_missing(
    entry: SidecarEntry, name: str, program: ResolvedProgram, machine: Machine = NO_MACHINE
) -> Reason:
    """A delegate this tool needs leads nowhere."""
    return Reason(
        code=ReasonCode.DELEGATE_MISSING,
        dimension="probe",
        message=f"the delegate {name}: {program.message or program.declared + ' leads to no program'}",
        remedy=program.remedy or f"correct delegates.{name} at {where(entry, 'delegates')}",
        fix=of_program(entry, program, "delegates", "correct the delegate", machine),
    )


def runtime_failed(entry: SidecarEntry, state: RuntimeState, evidence: RuntimeEvidence | None) -> Reason:
    """The last call showed a fault of the sidecar itself."""
    look = f"flytui inspect {entry.id} shows what it wrote; a good call or a minute without one clears this"
    if state is RuntimeState.TIMED_OUT:
        code, message = (
            ReasonCode.RUNTIME_TIMED_OUT,
            f"the last call ran into its limit of {entry.timeout_ms} ms",
        )
        look = f'raise "timeoutMs" at {where(entry, "timeoutMs")}, or {look}'
    elif state is RuntimeState.SCHEMA_ERROR:
        code, message = (
            ReasonCode.RUNTIME_SCHEMA_ERROR,
            "the last call was answered with something unreadable",
        )
    else:
        spawn = evidence is not None and evidence.code == "spawn"
        message = "the last call could not be started" if spawn else "the program crashed in the last call"
        code = ReasonCode.RUNTIME_FAILED
    again = Fix(kind=FixKind.PROBE, words=f"ask {entry.id} again")
    return Reason(code=code, dimension="runtime", message=message, remedy=look, fix=again)


def folder_untrusted(entry: SidecarEntry) -> Reason:
    """Nothing of the entry is started before a person has seen it."""
    return Reason(
        code=ReasonCode.FOLDER_UNTRUSTED,
        dimension="sandbox",
        message=f"{entry.id} came with this folder and nobody has trusted it yet",
        remedy="run flytui trust to see what it would run, and accept it",
        fix=Fix(kind=FixKind.TRUST, words="see what it would run, and decide"),
    )


def definition_changed(tool: str, *, new: bool) -> Reason:
    """The MCP server describes the tool otherwise than when it was approved, or offers it since then."""
    said = "is new since its server was approved" if new else "changed since it was approved"
    return Reason(
        code=ReasonCode.FOLDER_UNTRUSTED,
        dimension="sandbox",
        message=f"{tool} {said}, and nobody has looked at that yet",
        remedy="press T in the console, or run flytui trust beside it, to see the difference and decide",
        fix=Fix(kind=FixKind.TRUST, words="see what changed, and decide"),
    )


def offered_no_longer(tool: str, sidecar: str) -> Reason:
    """The MCP server does not list the tool any more."""
    return Reason(
        code=ReasonCode.TOOL_UNAVAILABLE,
        dimension="probe",
        message=f"the server of {sidecar} does not offer {tool} any more",
        remedy=f"flytui inspect {sidecar} shows what it offers; ask who makes the server",
    )


def policy_denied(tool: str, because: str) -> Reason:
    """A rule denies the tool whatever the input."""
    return Reason(
        code=ReasonCode.POLICY_DENIED,
        dimension="sandbox",
        message=f"a rule denies {tool}: {because}",
        remedy="change or remove that rule in policy.jsonc",
    )


def blocked(tool: str) -> Reason:
    """A person has blocked the tool for every caller."""
    return Reason(
        code=ReasonCode.BLOCKED,
        dimension="sandbox",
        message=f"{tool} was blocked by hand",
        remedy="unblock it in the console",
    )


def ceiling_exceeded(entry: SidecarEntry, exceeded: tuple[str, ...]) -> Reason:
    """The entry declares more than the person's settings allow any entry."""
    return Reason(
        code=ReasonCode.CEILING_EXCEEDED,
        dimension="sandbox",
        message=f"declares more than security.max_permissions allows: {', '.join(exceeded)}",
        remedy=f'declare less in "permissions" at {where(entry, "permissions")}, or raise '
        "security.max_permissions in config.jsonc",
        fix=edit_fix(entry, "permissions", "declare less"),
    )


def sandbox_unavailable(entry: SidecarEntry, mechanism: str) -> Reason:
    """This machine cannot give the level that is asked for."""
    return Reason(
        code=ReasonCode.SANDBOX_UNAVAILABLE,
        dimension="sandbox",
        message=f"this machine cannot confine it as required: {mechanism}",
        remedy=f'lower sandbox.minimum in config.jsonc, or declare less in "permissions" at '
        f"{where(entry, 'permissions')}",
    )


def quota_limited(why: str) -> Reason:
    """The caller's quota is used up for now; `why` says which and until when."""
    return Reason(
        code=ReasonCode.QUOTA_LIMITED,
        dimension="sandbox",
        message=f"the quota of calls is used up for now: {why}",
        remedy='wait until it is free again, or raise "quota" in config.jsonc',
    )


_UPGRADES = {
    UpgradeState.STAGED: (ReasonCode.UPGRADE_STAGED, "an upgrade is staged and not applied"),
    UpgradeState.APPLYING: (ReasonCode.UPGRADE_APPLYING, "an upgrade is being applied"),
    UpgradeState.ROLLBACK_REQUIRED: (
        ReasonCode.ROLLBACK_REQUIRED,
        "an upgrade failed and has to be rolled back",
    ),
    UpgradeState.FAILED: (ReasonCode.UPGRADE_FAILED, "an upgrade failed"),
}


def upgrade(entry: SidecarEntry) -> tuple[Reason, ...]:
    """What the state of an upgrade means; nothing for `idle`."""
    if entry.upgrade not in _UPGRADES:
        return ()
    code, message = _UPGRADES[entry.upgrade]
    remedy = (
        f'finish the upgrade of {entry.package_id or entry.id}, then remove "upgrade" at '
        f"{where(entry, 'upgrade')}"
    )
    fix = edit_fix(entry, "upgrade", "finish the upgrade, then remove the key")
    message = f"{message} ({entry.id})"
    return (Reason(code=code, dimension="upgrade", message=message, remedy=remedy, fix=fix),)
