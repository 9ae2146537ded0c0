"""Policy: reads the policy files, matches their rules, decides calls, and replays past calls on a draft."""
