"""Passes about reduce-window, reduce and select-and-scatter."""
