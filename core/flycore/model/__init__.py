"""Values everybody agrees on: frozen, no IO."""
