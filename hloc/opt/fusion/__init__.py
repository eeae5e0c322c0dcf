"""Fusion: which instructions become one kernel, and why."""
