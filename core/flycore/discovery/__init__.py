"""Where things are found that nobody has to run: kits, skills, plugins, other clients' servers."""
