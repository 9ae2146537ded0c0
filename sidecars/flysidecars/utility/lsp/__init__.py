"""The tools `lsp.symbols` and `lsp.diagnostics`: a small client for the server that `delegates.lsp` names."""

from flysidecars.utility.lsp.tool import lsp_diagnostics, lsp_symbols

__all__ = ["lsp_diagnostics", "lsp_symbols"]
