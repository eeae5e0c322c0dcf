"""Passes about opcodes that decompose matrices or solve systems."""
