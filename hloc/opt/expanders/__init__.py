"""Opcodes for which there is no kernel, expanded into others."""
