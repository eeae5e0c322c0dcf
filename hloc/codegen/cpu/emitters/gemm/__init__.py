"""Gemms: the choice of an algorithm, complex gemms, epilogues; the rooms have the algorithms."""
