"""What a child process gets: its environment, its sealed programs, its sandbox level, and masks over its
secrets."""
