"""Which command prints which document."""

from __future__ import annotations

from flytui.cli.documents import (
    ActivityDocument,
    ApprovalsDocument,
    AuditDocument,
    ConfigDocument,
    ConfigPathDocument,
    DemoDocument,
    DoctorDocument,
    Document,
    GrantsDocument,
    ImportDocument,
    InitDocument,
    InspectDocument,
    LintDocument,
    MetricsDocument,
    PanicDocument,
    PolicyCheckDocument,
    PolicyExplainDocument,
    PolicyReplayDocument,
    PreflightDocument,
    SidecarCheckDocument,
    StatusDocument,
    SwitchDocument,
    ToolsDocument,
    TrustDocument,
    WhyDocument,
)
from flytui.cli.door_documents import ServeDocument
from flytui.cli.token_document import TokenDocument

DOCUMENTS: dict[str, type[Document]] = {
    "inspect": InspectDocument,
    "why": WhyDocument,
    "doctor": DoctorDocument,
    "preflight": PreflightDocument,
    "tools": ToolsDocument,
    "trust": TrustDocument,
    "approvals": ApprovalsDocument,
    "activity": ActivityDocument,
    "grants": GrantsDocument,
    "policy-check": PolicyCheckDocument,
    "policy-explain": PolicyExplainDocument,
    "policy-replay": PolicyReplayDocument,
    "panic": PanicDocument,
    "token": TokenDocument,
    "status": StatusDocument,
    "serve": ServeDocument,
    "demo": DemoDocument,
    "audit": AuditDocument,
    "metrics": MetricsDocument,
    "lint": LintDocument,
    "enable": SwitchDocument,
    "disable": SwitchDocument,
    "init": InitDocument,
    "config": ConfigDocument,
    "config-path": ConfigPathDocument,
    "import": ImportDocument,
    "sidecar-check": SidecarCheckDocument,
}
"""Command to the document it prints."""
