"""The same functions in f64 for targets without a C library: mostly within 2 ulp.

They need fused multiply-adds. Each file states its bounds, and
tests/unit/codegen/test_double_math.py checks them.
"""
