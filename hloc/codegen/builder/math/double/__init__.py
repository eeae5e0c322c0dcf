"""The same functions in f64, for targets that have no C library: mostly within 2 ulp.

They need fused multiply-adds. Bounds stand in each file and are held by
tests/unit/codegen/test_double_math.py.
"""
