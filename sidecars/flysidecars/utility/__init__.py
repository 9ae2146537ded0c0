"""The tools of `utility.local`, each in a room of its own that is imported when it is called."""
