"""State that is kept in files of this user alone."""
