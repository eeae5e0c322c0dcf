"""Builders of code: operations on HLO's element types, indices, loops, elementary functions."""
