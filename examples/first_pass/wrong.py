"""A pass with a law that does not hold for floats."""

from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o


@rule(o.divide(any_("x"), any_("x")))
def ratio(m, b):
    """A number divided by itself: x / x = 1."""
    return b.splat(1, like=m.x)


ratios = Pass("ratios", rules=[ratio])
