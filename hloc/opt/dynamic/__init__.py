"""Propagation of dynamic dimension sizes through each opcode."""
