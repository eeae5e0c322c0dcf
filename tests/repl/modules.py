"""Modules that several tests open."""

TINY = """HloModule tiny
ENTRY e {
  x = f32[4] parameter(0)
  n = f32[4] negate(x)
  nn = f32[4] negate(n)
  ROOT r = f32[4] add(nn, x)
}
"""
