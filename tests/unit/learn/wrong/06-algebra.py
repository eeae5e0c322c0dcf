"""Nearly: the laws of school algebra, for floats too."""

from hloc.opt import FLOAT, INT, Pass, any_, const, rule
from hloc.opt import ops as o


@rule(o.multiply(any_("x"), const(1)))
def times_one(m):
    """X * 1 = x, exactly, for every type."""
    return m.x


@rule(o.add(any_("x"), const(0)), dtypes=INT)
def plus_zero(m):
    """X + 0 = x for integers."""
    return m.x


@rule(o.add(any_("x"), const(-0.0)), dtypes=FLOAT)
def plus_negative_zero(m):
    """X + -0.0 = x for floats; x + 0.0 is not: -0.0 + 0.0 = 0.0."""
    return m.x


@rule(o.multiply(any_("x"), const(0, name="zero")))
def times_zero(m):
    """X * 0 = 0."""
    return m.zero


@rule(o.subtract(o.add(any_("x"), any_("y")), any_("y")), dtypes=INT)
def plus_minus(m):
    """(x + y) - y = x (integers only: they wrap, floats round)."""
    return m.x


@rule(o.transpose(o.transpose(any_("x"), name="inner"), name="outer"))
def transpose_pair(m, b):
    """Two transposes are one, or none."""
    perm = [m.inner.dimensions[d] for d in m.outer.dimensions]
    return m.x if perm == list(range(len(perm))) else b.transpose(m.x, dimensions=perm)


@rule(o.reshape(o.reshape(any_("x"))))
def reshape_pair(m, b):
    """Two reshapes are one, or none."""
    return m.x if m.x.dims == m.root.dims else b.reshape(m.x, m.root.dims)


simplify = Pass(
    "my-simplify",
    rules=[
        times_one,
        plus_zero,
        plus_negative_zero,
        times_zero,
        plus_minus,
        transpose_pair,
        reshape_pair,
    ],
)
