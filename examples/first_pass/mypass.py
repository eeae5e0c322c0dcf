"""A first pass: a maximum and a minimum become one clamp."""

from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o


@rule(o.minimum(o.maximum(any_("x"), any_("low")), any_("high")))
def limits(m, b):
    """A maximum and a minimum: min(max(x, low), high) = clamp(low, x, high), high if low > high."""
    return b.clamp(m.low, m.x, m.high)


my_pass = Pass("my-pass", rules=[limits])
