"""The bundled sidecars: small programs that speak process-json and know nothing of the kernel."""
