"""What the policy files say of a call: reading them, matching rules, the default, and trying past calls."""
