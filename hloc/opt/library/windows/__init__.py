"""Passes over reduce-window, reduce and select-and-scatter."""
