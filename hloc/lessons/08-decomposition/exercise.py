"""Exercise 8: tanh from simpler functions, at most 4 units in the last place away."""

from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o


@rule(o.tanh(any_("x")), dtypes="f32", exact="approximate")
def tanh_by_exponentials(m, b):
    """tanh(x) = (e^x - e^-x) / (e^x + e^-x), but not as it stands here."""
    up = b.exponential(m.x)
    down = b.exponential(b.negate(m.x))
    return b.divide(b.subtract(up, down), b.add(up, down))


expand = Pass("my-tanh", rules=[tanh_by_exponentials])
