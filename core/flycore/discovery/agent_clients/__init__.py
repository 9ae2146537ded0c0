"""The configuration files of agents' programs: what connects them with flytui, and edits of these files."""
