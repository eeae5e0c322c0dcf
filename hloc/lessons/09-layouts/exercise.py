"""Exercise 9: a dot can read its operands in any order, so a transpose in front of it is waste."""

from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o


@rule(o.dot(o.transpose(any_("a"), name="turned"), any_("b"), name="dot"))
def left_transpose(m, b):
    """dot(transpose(a), b) is a dot of a that contracts another dimension."""
    contracted = m.dot.lhs_contracting_dims[0]  # of the transpose; which one is it of a?
    if len(m.a.dims) != 2:
        return None
    return b.dot(
        m.a,
        m.b,
        lhs_contracting_dims=(contracted,),
        rhs_contracting_dims=m.dot.rhs_contracting_dims,
    )


fold = Pass("my-transpose-folding", rules=[left_transpose])
