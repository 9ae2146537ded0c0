"""Reads the stdout of an executable: one document, in the form that follows from its schema."""

from __future__ import annotations

from flycore.model.enums import Code, Envelope, Status
from flycore.model.json import Json, JsonObject, StrictJsonError, read_strict
from flycore.runners.output import Answer, excerpt, exit_facts, exit_words

_LONGEST_MESSAGE = 2_000


def read_executable_answer(envelope: Envelope, stdout: bytes, exit_code: int, stderr_tail: str) -> Answer:
    """Return the answer that follows from everything the executable wrote, and from its exit code."""
    document, fault = _document(stdout)
    if document is not None and _has_envelope(envelope, document):
        return _of_envelope(document, exit_code, stderr_tail)
    if exit_code != 0:
        return _failed(Code.EXIT, f"the tool {exit_words(exit_code)}", exit_code, stderr_tail)
    if envelope is Envelope.PARAMETERS:
        fault = fault or "has no success that is true or false"
        return _malformed(fault, stdout, exit_code, stderr_tail)
    if document is not None:
        return Answer(status=Status.SUCCESS, output=document)
    if not stdout.strip():
        return Answer(status=Status.SUCCESS, output={})
    return _malformed(fault, stdout, exit_code, stderr_tail)


def _document(stdout: bytes) -> tuple[JsonObject | None, str]:
    """Return the object on stdout, or None and why there is none."""
    if not stdout.strip():
        return None, "is empty"
    try:
        value: Json = read_strict(stdout)
    except StrictJsonError as reason:
        return None, str(reason)
    return (value, "") if isinstance(value, dict) else (None, "is not a JSON object")


def _has_envelope(envelope: Envelope, document: JsonObject) -> bool:
    """Return whether the document is to be read as an envelope around a result."""
    if envelope is Envelope.OBJECT or not isinstance(document.get("success"), bool):
        return False
    return envelope is Envelope.PARAMETERS or "result" in document or "error" in document


def _of_envelope(document: JsonObject, exit_code: int, stderr_tail: str) -> Answer:
    more: JsonObject = {"metadata": document["metadata"]} if "metadata" in document else {}
    if document["success"] is not True:
        error = document.get("error")
        message = error if isinstance(error, str) and error else "the tool gave no reason"
        details: JsonObject = {**more, **exit_facts(exit_code, stderr_tail)}
        if error is not None and not isinstance(error, str):
            details["error"] = error
        return Answer(status=Status.FAILED, code=Code.FAILED, message=message, details=details)
    if exit_code != 0:
        return _failed(
            Code.EXIT, f"the tool answered, but {exit_words(exit_code)}", exit_code, stderr_tail, more
        )
    return Answer(status=Status.SUCCESS, output={"result": document.get("result"), **more})


def _malformed(fault: str, stdout: bytes, exit_code: int, stderr_tail: str) -> Answer:
    more: JsonObject = {"excerpt": excerpt(stdout), "fault": fault}
    return _failed(Code.INVALID_OUTPUT, f"the answer {fault}", exit_code, stderr_tail, more)


def _failed(
    code: Code, otherwise: str, exit_code: int, stderr_tail: str, more: JsonObject | None = None
) -> Answer:
    """Return a failure. The error is what the tool wrote to stderr; where that is nothing, `otherwise`."""
    said = stderr_tail.strip()
    return Answer(
        status=Status.FAILED,
        code=code,
        message=said[-_LONGEST_MESSAGE:] or otherwise,
        hint=otherwise if said else "an executable prints one JSON object on stdout, and faults on stderr",
        details={**(more or {}), **exit_facts(exit_code, stderr_tail)},
    )
