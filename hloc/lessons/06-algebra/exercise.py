"""Exercise 6: six laws. The first is done; which of the others hold for floats?"""

from hloc.opt import Pass, any_, const, rule  # and FLOAT, INT for dtypes=
from hloc.opt import ops as o


@rule(o.multiply(any_("x"), const(1)))
def times_one(m):
    """X * 1 = x, exactly, for every type."""
    return m.x


# x + 0 = x          which zero, for which types?
# x * 0 = 0          for which types?
# (x + y) - y = x    for which types?
# transpose(transpose(x)) is one transpose, or none: b.transpose(m.x, dimensions=[...])
# reshape(reshape(x)) is one reshape, or none: b.reshape(m.x, m.root.dims)

simplify = Pass("my-simplify", rules=[times_one])
