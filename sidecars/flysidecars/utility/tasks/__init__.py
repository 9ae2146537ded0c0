"""The tool `task.background`: runs commands that go on after the answer, and keeps their records."""
