"""The older name of `flycore.model.json`."""

from flycore.model.json import Json as Json
from flycore.model.json import JsonObject as JsonObject
from flycore.model.json import canonical_json as canonical_json
from flycore.model.json import digest as digest
from flycore.model.json import text_digest as text_digest
