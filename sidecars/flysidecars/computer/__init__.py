"""Desktop tools: screenshots, windows, mouse and keyboard on X11, Wayland and macOS."""
