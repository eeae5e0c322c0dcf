"""Passes over calls and the call graph: bodies in the place of calls, equal layers as calls."""
