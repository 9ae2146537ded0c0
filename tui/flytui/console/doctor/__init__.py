"""The screen Doctor, and the checks of the terminal itself."""
