"""Passes about element types keep every value, NaN, zeros of both signs and ties included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hloc
from fuzz.cases import contraction, elementwise, structured, window
from fuzz.draft import FLOATS, Draft
from hloc.dtypes import BF16, F32, S32
from hloc.errors import HloError
from hloc.opt.pipeline import Pipeline
from hloc.shapes import ArrayShape
from tests.unit.opt.theme_checks import check_many


def total_order(d: Draft) -> str:
    dtype, dims = d.pick(FLOATS), d.dims(0, 2)
    x, y = d.any_array(dtype, dims), d.any_array(dtype, dims)
    d.add("compare", [x, y], direction=d.pick(("LT", "EQ", "GE")), type="TOTALORDER")
    return "exact"


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("comparison-expander", total_order),
        ("topk-decomposer", structured.CASES["topk"]),
        ("bitcast-dtypes-expander", elementwise.CASES["bitcast-convert"]),
        ("stochastic-convert-decomposer", elementwise.CASES["stochastic-convert"]),
    ],
)
def test_values_are_kept(name: str, draw: Callable[[Draft], str]) -> None:
    check_many(name, draw)


def test_changed_types_compute_the_same() -> None:
    passes = "change-op-data-type{opcodes=dot,from-type=bf16}"
    check_many(passes, contraction.dot, preferred=BF16)


NORMALISED = {
    "dot": contraction.dot,
    "convolution": contraction.convolution,
    "reduce": window.reduce,
    "reduce-window": window.reduce_window,
    **{
        opcode: elementwise.CASES[opcode]
        for opcode in ("add", "maximum", "exponential", "clamp", "compare", "round-nearest-even")
    },
}


@pytest.mark.parametrize("opcode", NORMALISED)
def test_normalised_floats_round_each_step(opcode: str) -> None:
    check_many("float-normalization", NORMALISED[opcode], preferred=BF16)


def test_logistic_is_close() -> None:
    check_many("logistic-expander", elementwise.CASES["logistic"], "table", preferred=F32)


def first_of_sorted(d: Draft) -> str:
    """Draw the first k elements of a sort along any dimension, with places or without."""
    dims = d.dims(1, 3, sizes=(5, 2, 8))
    dim, dtype = d.integer(0, len(dims) - 1), d.pick((F32, S32, BF16))
    direction = d.pick(("GT", "LT"))
    with_places, turned = d.flag(), d.flag()
    x = d.any_array(dtype, dims)
    types = [dtype, dtype, S32, S32] if with_places else [dtype, dtype]
    b, (left, right, *_) = d.computation("order", [ArrayShape(t) for t in types])
    kind = "TOTALORDER" if dtype.is_float else ""
    pair = (right, left) if turned else (left, right)
    b.computation.set_root(b.compare(*pair, direction, kind))
    operands = [x, d.entry.iota(S32, dims, dim)] if with_places else [x]
    found = d.entry.instruction(
        "sort", operands, called=[b.computation], dimensions=(dim,), is_stable=True
    )
    limits = list(dims)
    limits[dim] = d.integer(0, dims[dim] - 1)
    parts = [d.entry.get_tuple_element(found, i) for i in range(2)] if with_places else [found]
    d.results = [d.entry.slice(part, [0] * len(dims), limits) for part in parts]
    return "exact"


def test_beginnings_of_sorts_are_topk() -> None:
    check_many("topk-rewriter", first_of_sorted)


PACKED = """
HloModule packed, entry_computation_layout={(s4[3,5]{1,0:E(4)})->s4[5,3]{1,0:E(4)}}
ENTRY e {
  x = s4[3,5]{1,0:E(4)} parameter(0)
  ROOT r = s4[5,3]{1,0:E(4)} transpose(x), dimensions={1,0}
}
"""


def test_packed_elements_go_and_come() -> None:
    module = hloc.parse(PACKED)
    x = np.arange(-7, 8).reshape(3, 5)
    x = x.astype(module.entry.root.array.dtype.numpy)
    (want,) = hloc.evaluate(module, x)
    text = str(module)
    assert Pipeline.parse("sub-byte-normalization", check_changed=True).run(module)
    assert "E(4)" not in str(module)
    assert Pipeline.parse("sub-byte-normalization{packed=true}", check_changed=True).run(module)
    assert str(module) == text
    (got,) = hloc.evaluate(module, x)
    assert (got == want).all()


@pytest.mark.parametrize(
    ("passes", "text"),
    [
        ("float-normalization{type=s32}", "float type such as bf16, but got 's32'"),
        ("float-normalization{type=f64}", "narrower than f32, but got f64"),
        ("change-op-data-type{to-type=f33}", "float type such as bf16, but got 'f33'"),
        ("change-op-data-type{opcodes=dot+sort}", "not 'sort'"),
    ],
)
def test_wrong_options_are_faults(passes: str, text: str) -> None:
    with pytest.raises(HloError, match=text):
        Pipeline.parse(passes).run(hloc.parse(PACKED))
