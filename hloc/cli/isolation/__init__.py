"""`hloc isolate`: every piece of a module alone, on its true inputs, on two sides.

`pieces.py` cuts a module, `values.py` holds what instructions compute, `sides.py` runs a piece,
`search.py` walks the module, `judge.py` says what a difference means, `report.py` what people read.
"""
