"""Nearly: right on paper, but e^(2x) overflows, and near 0 all digits cancel."""

from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o


@rule(o.tanh(any_("x")), dtypes="f32", exact="approximate")
def tanh_by_exponential(m, b):
    """tanh(x) = (e^2x - 1) / (e^2x + 1)."""
    e = b.exponential(b.add(m.x, m.x))
    one = b.splat(1, like=m.x)
    return b.divide(b.subtract(e, one), b.add(e, one))


expand = Pass("my-tanh", rules=[tanh_by_exponential])
