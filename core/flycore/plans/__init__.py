"""High-level tools: plans of atomic calls, which the kernel runs step by step."""
