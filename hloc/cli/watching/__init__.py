"""Observers of the passes of a compilation, as the command line asks for them.

`watched_passes.py` runs the passes; the others print, check, time or store what each pass did.
"""
