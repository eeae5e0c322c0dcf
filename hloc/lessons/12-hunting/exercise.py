"""Exercise 12: one of these five rules is wrong. Find it, name it, fix it."""

from hloc.opt import Pass, any_, const, rule
from hloc.opt import ops as o

ANSWERS = {"culprit": None}  # the name of the wrong rule, as "times-one"


@rule(o.negate(o.negate(any_("x"))))
def negate_negate(m):
    """-(-x) = x."""
    return m.x


@rule(o.multiply(any_("x"), const(1)))
def times_one(m):
    """X * 1 = x."""
    return m.x


@rule(o.reverse(o.reverse(any_("x"), name="inner"), name="outer"))
def reverse_reverse(m):
    """Two reversals of the same dimensions are none."""
    return m.x if len(m.inner.dimensions) == len(m.outer.dimensions) else None


@rule(o.slice(o.slice(any_("x"), name="inner"), name="outer"))
def slice_slice(m, b):
    """A slice of a slice is one slice."""
    pairs = list(zip(m.inner.slice, m.outer.slice, strict=True))
    if any(r.stride != 1 for pair in pairs for r in pair):
        return None
    starts = [i.start + o.start for i, o in pairs]
    limits = [i.start + o.limit for i, o in pairs]
    return b.slice(m.x, starts, limits)


@rule(o.maximum(any_("x"), any_("x")))
def maximum_same(m):
    """max(x, x) = x."""
    return m.x


cleanup = Pass(
    "my-cleanup",
    rules=[negate_negate, times_one, reverse_reverse, slice_slice, maximum_same],
)
