"""Passes over element types, and expansions of elementwise opcodes."""
