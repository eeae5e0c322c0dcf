"""LLVM: its text, the machines it makes code for, objects and the processes that make them."""
