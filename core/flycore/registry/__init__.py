"""The files of a project and a person: registries, settings, and the paths of all files of a root."""
