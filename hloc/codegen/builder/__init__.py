"""Builders of code: what HLO's element types mean, indices, loops and elementary functions."""
