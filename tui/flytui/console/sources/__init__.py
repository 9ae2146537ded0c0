"""What is described and never run: kits, skills, plugins, others' servers; and taking a server over."""
