"""The Approvals screen and the card: what waits for a person, and the keys that decide."""
