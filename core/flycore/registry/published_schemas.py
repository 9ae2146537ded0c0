"""The JSON Schemas that flytui publishes: of the files that people write, and of a call's request and result.

Each is a file of the distribution, or is made of such files. `write_schemas` puts copies into a project,
where an editor finds them by the key `$schema` of a file, or by the first line of a YAML file.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from flycore.model.json import JsonObject
from flycore.registry.paths import MANIFEST_FILE, MANIFESTS_DIR, TOOLS_CONFIG_FILE
from flycore.registry.schema import MANIFEST_SCHEMA_FILE, manifest_schema
from flysafe.atomic import create_beneath, replace_beneath
from flysafe.beneath import read_beneath

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "tools/schemas"
"""Folder of a project for the copies."""
MOST_BYTES = 1_048_576


class PublishedSchema(NamedTuple):
    """A schema, and the files that it describes."""

    name: str
    """Its name for `flytui schema`; with `.schema.json` that of its copy."""
    package: str
    resource: str
    describes: str
    """The files that it describes, for people; empty for what is no file."""
    make: Callable[[], JsonObject] | None = None
    """Makes the schema where it has parts of others; None where it is the file as it is."""

    @property
    def text(self) -> str:
        """The schema as text."""
        if self.make is not None:
            return json.dumps(self.make(), ensure_ascii=False, indent=2) + "\n"
        return resources.files(self.package).joinpath(self.resource).read_text(encoding="utf-8")

    @property
    def file(self) -> str:
        """The path of its copy in a project."""
        return f"{FOLDER}/{self.name}.schema.json"


PUBLISHED = (
    PublishedSchema(
        "registry", "flycore.registry", "external.tools.schema.json", "tools/external.tools.jsonc"
    ),
    PublishedSchema("policy", "flycore.policy", "policy.schema.json", "tools/policy.jsonc, policy.jsonc"),
    PublishedSchema("settings", "flycore.registry", "settings.schema.json", "config.jsonc"),
    PublishedSchema("tools-config", "flycore.registry", "tools-config.schema.json", TOOLS_CONFIG_FILE),
    PublishedSchema(
        "manifest",
        "flycore.registry",
        MANIFEST_SCHEMA_FILE,
        f"{MANIFESTS_DIR}/NAME/{MANIFEST_FILE}",
        manifest_schema,
    ),
    PublishedSchema("kits", "flycore.discovery", "kits.schema.json", "tools/kits/kits.jsonc"),
    PublishedSchema("request", "flycore.model", "request.schema.json", ""),
    PublishedSchema("result", "flycore.model", "result.schema.json", ""),
)


def published_schema(name: str) -> JsonObject:
    """Return the schema of that name, as a new value each time. Raises KeyError for an unknown name."""
    found = {schema.name: schema for schema in PUBLISHED}[name]
    value: JsonObject = json.loads(found.text)
    return value


def write_schemas(app_root: Path) -> tuple[tuple[str, ...], str]:
    """Write the schemas of files into the project, and return those written, and why one was not.

    A copy of another version is replaced. A link that leads out of the project is not followed.
    """
    written: list[str] = []
    for schema in PUBLISHED:
        data = schema.text.encode("utf-8")
        if not schema.describes:
            continue
        try:
            if _write(app_root, schema.file, data):
                written.append(schema.file)
        except OSError as error:
            return tuple(written), f"{schema.file} cannot be written: {error.strerror or error}"
    return tuple(written), ""


def _write(app_root: Path, relative: str, data: bytes) -> bool:
    """Write one file; False where it has these bytes already."""
    try:
        create_beneath(app_root, relative, data)
    except FileExistsError:
        before = read_beneath(app_root, relative, MOST_BYTES, links=True)
        if before == data:
            return False
        if b"urn:flytui:schema:" not in before:
            raise OSError(errno.EEXIST, "another file has this name") from None
        replace_beneath(app_root, relative, before, data)
    return True
