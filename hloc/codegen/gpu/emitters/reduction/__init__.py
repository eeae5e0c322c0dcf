"""Reductions, prefix sums and chains over rows on GPUs."""
