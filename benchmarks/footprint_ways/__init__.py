"""Ways to run one program from start to result, each a process; see `benchmarks/footprint.py`."""
