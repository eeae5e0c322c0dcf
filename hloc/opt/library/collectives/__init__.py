"""Passes that let collectives run beside independent work."""
