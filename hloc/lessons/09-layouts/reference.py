"""Solution 9: the contracted dimension is looked up in the permutation; matrices only."""

from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o


@rule(o.dot(o.transpose(any_("a"), name="turned"), any_("b"), name="dot"))
def left_transpose(m, b):
    """dot(transpose(a), b) is a dot of a that contracts another dimension."""
    if len(m.a.dims) != 2 or m.dot.lhs_batch_dims:
        return None
    contracted = tuple(m.turned.dimensions[d] for d in m.dot.lhs_contracting_dims)
    return b.dot(
        m.a,
        m.b,
        lhs_contracting_dims=contracted,
        rhs_contracting_dims=m.dot.rhs_contracting_dims,
    )


@rule(o.dot(any_("a"), o.transpose(any_("b"), name="turned"), name="dot"))
def right_transpose(m, b):
    """dot(a, transpose(b)) is a dot of b that contracts another dimension."""
    if len(m.b.dims) != 2 or m.dot.rhs_batch_dims:
        return None
    contracted = tuple(m.turned.dimensions[d] for d in m.dot.rhs_contracting_dims)
    return b.dot(
        m.a,
        m.b,
        lhs_contracting_dims=m.dot.lhs_contracting_dims,
        rhs_contracting_dims=contracted,
    )


fold = Pass("my-transpose-folding", rules=[left_transpose, right_transpose])
