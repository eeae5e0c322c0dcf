"""`hloc isolate`: every piece of a module alone, on its true inputs, on two sides.

`pieces.py` splits a module, `values.py` holds the values of instructions, `sides.py` runs
a piece, `search.py` walks the module, `judge.py` classifies differences, `report.py` writes the
report.
"""
