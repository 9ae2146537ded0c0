"""The tools of `utility.local`. Each tool's module is imported only when the tool is called."""
