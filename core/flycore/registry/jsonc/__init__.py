"""JSONC text: `parse` reads what it says, `spans` finds where each part stands, `edit` changes one part."""
