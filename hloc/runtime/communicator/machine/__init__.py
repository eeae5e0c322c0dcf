"""Sources of the local engine's machine code: Python syntax, translated to LLVM, never run."""
