"""JSONC text: `parse` reads the value, `spans` finds the place of each part, `edit` changes one part."""
