"""Reductions, windows, prefix sums and chains over rows."""
