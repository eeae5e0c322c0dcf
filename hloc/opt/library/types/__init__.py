"""Passes about element types, and about opcodes that are formulas of simpler ones."""
