"""What runs, step by step, and where each array lies; no LLVM."""
