"""Passes over the IR: each takes a verified module and leaves a verified module."""
