"""Execution plans: the steps of a program and the place of each array; no LLVM."""
