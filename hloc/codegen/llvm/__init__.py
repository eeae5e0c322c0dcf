"""LLVM: its text, target machines, objects, and the processes that compile them."""
