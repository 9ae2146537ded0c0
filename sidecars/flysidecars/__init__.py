"""The bundled sidecars: small programs that speak process-json and import nothing of the kernel."""
