"""The tools of `media.local`: they read pictures, transcribe speech and speak text."""
