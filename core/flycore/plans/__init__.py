"""High-level tools: plans over atomic ones, carried out step by step inside the kernel."""
