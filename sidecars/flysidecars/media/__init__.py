"""The tools of `media.local`: pictures read, speech written down, text spoken."""
