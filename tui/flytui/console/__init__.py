"""The console: what a person sees and decides, over the client Protocol alone."""
