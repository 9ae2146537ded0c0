"""The checks of any program against the sidecar contract, by the real runner and real processes, without a
sandbox."""
