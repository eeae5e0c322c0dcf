"""Transposes move every element to its place: in tiles, or few columns at once."""

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.emitters.movement.tiles import read_across
from hloc.report.inputs import random_inputs
from tests.tolerance import assert_close

TYPES = {"f32": np.float32, "u8": np.uint8, "c64": np.complex64, "s64": np.int64}


def module(dtype: str, dims: tuple[int, ...], order: tuple[int, ...], then: str) -> str:
    sizes = ",".join(str(dims[dim]) for dim in order)
    return f"""HloModule m

ENTRY e {{
  x = {dtype}[{",".join(map(str, dims))}] parameter(0)
  t = {dtype}[{sizes}] transpose(x), dimensions={{{",".join(map(str, order))}}}
  ROOT r = {dtype}[{sizes}] {then}
}}
"""


@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize(
    ("dims", "order"),
    [
        ((64, 64), (1, 0)),
        ((1030, 1100), (1, 0)),
        ((97, 130), (1, 0)),
        ((3, 70, 65), (0, 2, 1)),
        ((70, 3, 65), (2, 1, 0)),
        ((65, 2, 71), (2, 0, 1)),
        ((66, 2, 3, 67), (1, 3, 2, 0)),
        ((3, 97), (1, 0)),
        ((2, 4, 5, 33), (1, 3, 2, 0)),
        ((5, 2, 3, 33), (0, 2, 3, 1)),
    ],
)
def test_each_element_moves_to_its_place(
    dtype: str, dims: tuple[int, ...], order: tuple[int, ...]
) -> None:
    x: np.ndarray[Any, Any] = np.arange(np.prod(dims)).reshape(dims).astype(TYPES[dtype])
    for then in ("copy(t)", "add(t, t)"):
        (got,) = hloc.compile(module(dtype, dims, order, then))(x)
        want = x.transpose(order)
        np.testing.assert_array_equal(got, want if then == "copy(t)" else want + want)


OPERATIONS = {
    "f32": "multiply(e, n)",
    "f16": "add(e, n)",
    "u8": "add(e, n)",
    "c64": "multiply(e, n)",
    "f64": "subtract(e, n)",
    "s64": "xor(e, n)",
    "pred": "and(e, n)",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", sorted(OPERATIONS))
@pytest.mark.parametrize("dims", [(64, 64), (97, 130), (3, 70, 65), (200, 128)])
def test_arrays_of_two_layouts_meet_element_by_element(
    dtype: str, dims: tuple[int, ...], threads: int
) -> None:
    """The layouts are those of a transpose as JAX writes it; tiles of `y` are copied."""
    rows = ",".join(map(str, reversed(range(len(dims)))))
    columns = ",".join(map(str, (len(dims) - 2, len(dims) - 1, *reversed(range(len(dims) - 2)))))
    shape = f"{dtype}[{','.join(map(str, dims))}]"
    across, along = f"{shape}{{{columns}}}", f"{shape}{{{rows}}}"
    text = f"""HloModule m, entry_computation_layout={{({along}, {across})->{along}}}

f {{
  e = {along} parameter(0)
  y = {across} parameter(1)
  n = {along} {"not" if dtype == "pred" else "negate"}(y)
  o = {along} {OPERATIONS[dtype]}
  ROOT r = {along} {"or" if dtype == "pred" else "add"}(o, y)
}}

ENTRY e {{
  a = {along} parameter(0)
  b = {across} parameter(1)
  ROOT r = {along} fusion(a, b), kind=kLoop, calls=f
}}
"""
    module = hloc.parse(text)
    inputs = random_inputs(module, 0)
    (got,) = hloc.compile(module, opt_level=0, threads=threads)(*inputs)
    (want,) = hloc.evaluate(module, *inputs)
    assert_close(np.asarray(got), np.asarray(want), dtype)


@pytest.mark.parametrize(
    ("other", "is_across"),
    [
        ("broadcast(v), dimensions={0}", False),
        ("iota(), iota_dimension=1", False),
        ("parameter(2)", True),
    ],
)
def test_only_arrays_in_memory_are_read_across(other: str, is_across: bool) -> None:
    """A broadcast has no place in memory, whatever its layout: no loop in tiles is for it."""
    text = f"""HloModule m
ENTRY e {{
  p = f32[80,70]{{0,1}} parameter(0)
  v = f32[80]{{0}} parameter(1)
  b = f32[80,70]{{1,0}} {other}
  ROOT r = f32[80,70]{{0,1}} add(p, b)
}}"""
    root = hloc.parse(text).entry.root
    assert (read_across(root, root.array, (1, 0)) is not None) == is_across
