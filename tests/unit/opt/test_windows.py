"""Passes about windows keep every result, and a cumulative sum of a million is no million sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloc
from fuzz.cases.window import (
    argmax,
    not_commutative,
    reduce,
    select_and_scatter,
    simple_reducer,
)
from fuzz.choices import Seeded
from fuzz.draft import Draft
from hloc.dtypes import BF16, F32, PRED, S32
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.computation import Computation
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.shapes import ArrayShape
from tests.unit.opt.theme_checks import check_many


def test_select_and_scatter_picks_the_same_places() -> None:
    check_many("select-and-scatter-expander", select_and_scatter)
    passes = "select-and-scatter-unroller{max-positions=27}"
    check_many(passes, select_and_scatter, preferred=F32, examples=40)


def test_reductions_in_pieces_keep_their_values() -> None:
    check_many("tree-reduction-rewriter{window-size=2}", reduce, preferred=F32, examples=40)


def test_reductions_in_parts_keep_their_values() -> None:
    check_many("split-reduction-rewriter{min-bytes=1}", reduce, preferred=F32, examples=80)


def large_reduce(d: Draft) -> str:
    """Draw a reduction of a few hundred elements, with a start that counts once."""
    dims = [d.pick((96, 1, 2)), d.pick((40, 3)), d.pick((5, 1, 7))]
    opcode = d.pick(("add", "maximum", "multiply"))
    reduced = [dim for dim in range(3) if d.flag()] or [0]
    x, start = d.tame_array(F32, dims), d.scalar(F32, 3)
    add = d.entry.scalar_function(opcode, F32)
    d.results = [d.entry.reduce([x], [start], reduced, add)]
    return "table"


def test_the_start_of_a_reduction_in_parts_counts_once() -> None:
    check_many("split-reduction-rewriter{min-bytes=1}", large_reduce, examples=60)


def _cumulative_window(d: Draft, size: int) -> WindowDimension:
    """Draw a window that always begins, or always ends, with the array."""
    near, wider = d.integer(-1, 1), d.pick((0, 1, 3))
    low = size + wider - 1 + near
    high = -d.integer(0, 1) if near < 1 else -1
    if d.flag():
        low, high = high, low
    return WindowDimension(size + wider, pad_low=low, pad_high=high)


def _sum_and_largest(d: Draft) -> Computation:
    values, counts = ArrayShape(F32), ArrayShape(S32)
    b, (x, i, y, j) = d.computation("both", [values, counts, values, counts])
    b.computation.set_root(b.tuple([b.add(y, x), b.maximum(i, j)]))
    return b.computation


def cumulative(d: Draft) -> str:
    dims = d.dims(1, 3, sizes=(5, 3, 17, 40, 2), limit=400)
    dim = d.integer(0, len(dims) - 1)
    window = [WindowDimension(1)] * len(dims)
    window[dim] = _cumulative_window(d, dims[dim])
    attributes: dict[str, Any] = {"window": Window(tuple(window))}
    form = d.pick(("one", "two", "argmax"))
    if form == "one":
        dtype = d.pick((F32, S32, BF16, PRED))
        reducer, _ = simple_reducer(d, dtype)
        init = d.tame_array(dtype, ())
        d.add("reduce-window", [d.tame_array(dtype, dims), init], [reducer], **attributes)
        return "table"
    reducer = _sum_and_largest(d) if form == "two" else argmax(d, F32)
    arrays = [d.tame_array(F32, dims), d.any_array(S32, dims)]
    inits = [d.tame_array(F32, ()), d.any_array(S32, ())]
    d.add("reduce-window", [*arrays, *inits], [reducer], **attributes)
    return "table"


@pytest.mark.parametrize("base", [2, 3, 16])
def test_scans_keep_their_values(base: int) -> None:
    check_many(f"reduce-window-rewriter{{base-length={base}}}", cumulative)


def logsumexp(d: Draft) -> str:
    """Draw a cumulative log of sums of exponentials."""
    n = d.integer(17, 60)
    scalar = ArrayShape(F32)
    b, (x, y) = d.computation("logaddexp", [scalar, scalar])
    difference = b.subtract(x, y)
    small = b.instruction("log-plus-one", (b.exponential(b.negate(b.abs(difference))),))
    total = b.add(b.maximum(x, y), small)
    undefined = b.compare(difference, difference, "NE")
    b.computation.set_root(b.select(undefined, b.add(x, y), total))
    window = Window((WindowDimension(n, pad_low=n - 1),))
    operands = [d.tame_array(F32, (n,), special=True), d.entry.constant(-np.inf, F32)]
    d.add("reduce-window", operands, [b.computation], window=window)
    return "table"


def test_cumulative_logsumexp_is_known() -> None:
    check_many("reduce-window-rewriter", logsumexp)


def long_windows(d: Draft) -> str:
    """Draw windows of any size, stride, dilation and padding over one or two dimensions."""
    dims = d.dims(1, 2, sizes=(17, 5, 30, 8))
    window = []
    for n in dims:
        low, high = d.integer(-1, n), d.integer(-1, n)
        size, dilation = d.integer(1, n), d.pick((1, 2))
        fits = (size - 1) * dilation < n + low + high
        window.append(
            WindowDimension(size, d.pick((1, 3)), low, high, window_dilation=dilation)
            if fits
            else WindowDimension(1)
        )
    dtype = d.pick((F32, S32, BF16))
    reducer, _ = simple_reducer(d, dtype)
    operands = [d.tame_array(dtype, dims), d.tame_array(dtype, ())]
    d.add("reduce-window", operands, [reducer], window=Window(tuple(window)))
    return "table"


def test_long_windows_keep_their_values() -> None:
    check_many("long-window-rewriter{gain=0,min-work=1}", long_windows, examples=40)


def last_nonzero(d: Draft) -> str:
    """Draw a cumulative fold by a reducer that is associative but not commutative."""
    n, reverse = d.integer(17, 40), d.flag()
    x = d.any_array(S32, (n,))
    low, high = (0, n - 1) if reverse else (n - 1, 0)
    window = Window((WindowDimension(n, pad_low=low, pad_high=high),))
    scalar = ArrayShape(S32)
    b, (left, right) = d.computation("last_nonzero", [scalar, scalar])
    zero = b.constant(0, S32)
    b.computation.set_root(b.select(b.compare(right, zero, "NE"), right, left))
    d.add("reduce-window", [x, d.entry.constant(0, S32)], [b.computation], window=window)
    return "exact"


def test_trusted_reducers_keep_their_order() -> None:
    check_many("reduce-window-rewriter{any-reducer=true}", last_nonzero)


def test_unknown_reducers_are_left_alone_and_named() -> None:
    draft = Draft(Seeded(0))
    x, init = draft.entry.parameter(0, ArrayShape(S32, (100,))), draft.entry.constant(0, S32)
    window = Window((WindowDimension(100, pad_low=99),))
    reducer = not_commutative(draft, S32)
    inst = draft.entry.instruction("reduce-window", [x, init], called=[reducer], window=window)
    draft.results = [inst]
    context = PassContext(remarks=[])
    assert not Pipeline.parse("reduce-window-rewriter").run(draft.finish(), context)
    assert context.remarks is not None
    assert [remark.text for remark in context.remarks] == ["first is not known to be associative"]


CUMSUM = """
HloModule cumsum
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
ENTRY e {
  x = f32[1000000] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[1000000] reduce-window(x, zero), window={size=1000000 pad=999999_0}, to_apply=add
}
"""


def test_a_cumulative_sum_of_a_million_is_accurate_and_small() -> None:
    module = hloc.parse(CUMSUM)
    assert Pipeline.parse("reduce-window-rewriter,dce").run(module)
    assert module.instruction_count < 150
    x = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
    want = np.cumsum(x.astype(np.float64))
    (got,) = hloc.evaluate(module, x)
    assert np.abs(got - want).max() < 1e-3
    (got,) = hloc.compile(hloc.parse(CUMSUM), opt_level=2)(x)
    assert np.abs(got - want).max() < 1e-3
