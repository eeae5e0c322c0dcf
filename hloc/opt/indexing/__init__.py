"""Passes over gather, scatter and sort."""
