"""The kernel: what external tools there are, whether they are well, who may run them, and running them."""

__version__ = "0.1.0"
"""The kernel's version, which `compatibleCore` ranges are checked against."""

SIDECAR_PROTOCOLS = ("1", "process-json/1")
"""Values of `protocolVersion` that this kernel speaks."""
