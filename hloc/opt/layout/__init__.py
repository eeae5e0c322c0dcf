"""Passes that choose the order of dimensions in memory."""
