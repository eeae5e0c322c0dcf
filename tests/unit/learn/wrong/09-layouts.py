"""Nearly: the dimension numbers stay as they were; only square matrices let that pass."""

from hloc.opt import Pass, any_, rule
from hloc.opt import ops as o


def is_square(m):
    """Return whether the shapes would not notice."""
    return len(set(m.a.dims)) == 1


@rule(o.dot(o.transpose(any_("a")), any_("b"), name="dot"), when=is_square)
def left_transpose(m, b):
    """dot(transpose(a), b) is dot(a, b)."""
    return b.dot(
        m.a,
        m.b,
        lhs_contracting_dims=m.dot.lhs_contracting_dims,
        rhs_contracting_dims=m.dot.rhs_contracting_dims,
    )


fold = Pass("my-transpose-folding", rules=[left_transpose])
