"""The parts of the application that act: each is a plain class, and is handed what it uses."""
