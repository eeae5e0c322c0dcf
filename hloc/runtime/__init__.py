"""Running machine code: loading, memory, arguments, calls back into the host."""
