"""Cases of control flow, tuples, tokens, asynchronous forms, and what is identity on one device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fuzz.draft import ARRAY_TYPES, NUMBERS, Draft
from hloc.dtypes import F32, F64, PRED, S32, TOKEN, U32, DType
from hloc.ir.attributes import RawText
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape, Shape, TupleShape

TOKEN_SHAPE = ArrayShape(TOKEN)


def _tuple(d: Draft) -> tuple[Instruction, list[Instruction]]:
    arrays = [d.any_array(d.pick(ARRAY_TYPES), d.dims(limit=60)) for _ in range(d.integer(1, 3))]
    return d.entry.tuple(arrays), arrays


def tuple_(d: Draft) -> str:
    arrays = _tuple(d)[1]
    d.results += [arrays[0], *arrays]  # one array twice
    return "exact"


def get_tuple_element(d: Draft) -> str:
    value, arrays = _tuple(d)
    for index in d.order(len(arrays)):
        d.results.append(d.entry.get_tuple_element(value, index))
    return "exact"


def opt_barrier(d: Draft) -> str:
    value, arrays = _tuple(d)
    barrier = d.entry.instruction("opt-barrier", [value])
    d.results += [d.entry.get_tuple_element(barrier, index) for index in range(len(arrays))]
    return "exact"


def domain(d: Draft) -> str:
    x = d.any_array(d.pick(ARRAY_TYPES), d.dims())
    attributes = RawText('{kind="sharding", entry={maximal device=0}, exit={maximal device=0}}')
    d.results.append(d.entry.instruction("domain", [x], domain=attributes))
    return "exact"


def after_all(d: Draft) -> str:
    x = d.any_array(d.pick(ARRAY_TYPES), d.dims())
    tokens = [d.entry.instruction("after-all") for _ in range(d.integer(0, 2))]
    token = d.entry.instruction("after-all", tokens)
    d.results.append(d.entry.instruction("add-dependency", [x, token]))
    return "exact"


def _function(d: Draft, dtype: DType, dims: tuple[int, ...], name: str) -> Computation:
    """Add a computation of an array x and a number: x * 2 - x, or so."""
    shape = d.shape(dtype, dims)
    b, (x, y) = d.computation(name, [shape, shape])
    root = b.subtract(b.add(x, y), y) if d.flag() else b.add(x, y)
    b.computation.set_root(root)
    return b.computation


def _operands(d: Draft) -> tuple[DType, tuple[int, ...], list[Instruction]]:
    dtype, dims = d.pick(NUMBERS), d.dims()
    return dtype, dims, [d.tame_array(dtype, dims), d.tame_array(dtype, dims)]


def call(d: Draft) -> str:
    dtype, dims, operands = _operands(d)
    d.add("call", operands, [_function(d, dtype, dims, "called")])
    return "table"


def fusion(d: Draft) -> str:
    dtype, dims, operands = _operands(d)
    called = _function(d, dtype, dims, "fused")
    d.add("fusion", operands, [called], shape=called.root.shape, kind="kLoop")
    return "table"


def conditional(d: Draft) -> str:
    dtype, dims, operands = _operands(d)
    by_pred = d.flag()
    count = 2 if by_pred else d.integer(1, 4)
    branches = []
    for number in range(count):
        b, (x,) = d.computation(f"branch_{number}", [d.shape(dtype, dims)])
        b.computation.set_root(b.negate(x) if number % 2 == 0 else x)
        branches.append(b.computation)
    chosen = d.pick(operands)
    if by_pred:
        index = d.scalar(PRED, d.flag())
    else:
        index = d.scalar(S32, d.pick((0, 1, 2, -1, 3, 7, 2**31 - 1)))
    d.add("conditional", [index, *([chosen] * count)], branches)
    return "exact"


def while_(d: Draft) -> str:
    """Draw a loop of 0 to 5 rounds over a counter and two arrays, which may change places."""
    dtype, dims = d.pick((F32, F64, S32, *NUMBERS)), d.dims()
    shape = d.shape(dtype, dims)
    state = TupleShape((ArrayShape(S32), shape, shape))
    condition, (s,) = d.computation("condition", [state])
    limit = condition.constant(np.int32(d.integer(0, 5)))
    counter = condition.get_tuple_element(s, 0)
    condition.computation.set_root(condition.compare(counter, limit, "LT"))
    body, (s,) = d.computation("body", [state])
    i, x, y = (body.get_tuple_element(s, index) for index in range(3))
    one = body.constant(np.int32(1))
    new = body.subtract(y, x)
    parts = [body.add(i, one), new, x] if d.flag() else [body.add(i, one), x, new]
    body.computation.set_root(body.tuple(parts))
    b = d.entry
    arrays = [b.instruction("copy", [d.tame_array(dtype, dims)], shape=shape) for _ in range(2)]
    init = b.tuple([d.scalar(S32, 0), *arrays])
    loop = d.entry.instruction("while", [init], None, [condition.computation, body.computation])
    d.results += [d.entry.get_tuple_element(loop, index) for index in (2, 1, 0)]
    return "table"


def async_(d: Draft) -> str:
    dtype, dims, operands = _operands(d)
    called = _function(d, dtype, dims, "wrapped")
    shapes = TupleShape(tuple(p.shape for p in called.parameters))
    for number, operand in enumerate(operands):
        operands[number] = d.entry.instruction(
            "copy", [operand], shape=called.parameters[number].shape
        )
    state = TupleShape((shapes, called.root.shape, ArrayShape(U32)))
    b = d.entry
    started = b.instruction(
        "async-start", operands, called=[called], shape=state, async_execution_thread="main"
    )
    for _ in range(d.integer(0, 2)):
        started = b.instruction("async-update", [started], shape=state)
    d.results.append(b.instruction("async-done", [started], shape=called.root.shape))
    return "table"


def copy_start(d: Draft) -> str:
    shape = d.shape(d.pick(ARRAY_TYPES), d.dims())
    x = d.any_array(shape.dtype, shape.dims)
    b = d.entry
    state = TupleShape((shape, x.shape, ArrayShape(U32)))
    started = b.instruction("copy-start", [x], shape=state)
    d.results.append(b.instruction("copy-done", [started], shape=shape))
    return "exact"


def custom_call(d: Draft) -> str:
    x = d.any_array(F32, d.dims(1, 3, sizes=(3, 1, 5, 8)))
    if d.flag():
        d.results.append(_custom(d.entry, "Sharding", [x], x.shape))
        return "exact"
    dims = x.array.dims
    x = d.tame_array(F32, dims)
    kept = (*dims[:-1], d.integer(1, dims[-1]))
    shape = TupleShape((ArrayShape(F32, kept), ArrayShape(S32, kept)))
    call = _custom(d.entry, "TopK", [x], shape)
    d.results += [d.entry.get_tuple_element(call, index) for index in range(2)]
    return "exact"


def _custom(b: Builder, target: str, operands: list[Instruction], shape: Shape) -> Instruction:
    return b.instruction("custom-call", operands, shape=shape, custom_call_target=target)


def numbers(d: Draft) -> str:
    d.any_array(F32, ())
    d.results += [d.entry.instruction("replica-id"), d.entry.instruction("partition-id")]
    return "exact"


def all_reduce(d: Draft) -> str:
    dtype = d.pick(NUMBERS)
    x = d.any_array(dtype, d.dims())
    reducer = d.reducer("add", dtype)
    if d.flag():
        d.results.append(d.entry.instruction("all-reduce", [x], None, [reducer], x.shape))
        return "exact"
    started = d.entry.instruction("all-reduce-start", [x], None, [reducer], x.shape)
    d.results.append(d.entry.instruction("all-reduce-done", [started], shape=x.shape))
    return "exact"


def collective(name: str, d: Draft) -> str:
    """A collective of one participant."""
    x = d.any_array(d.pick(NUMBERS), d.dims(1))
    called = [d.reducer("add", x.array.dtype)] if name == "reduce-scatter" else []
    values: dict[str, Any] = {"dimensions": (d.integer(0, x.array.rank - 1),)}
    if name == "collective-broadcast":
        values = {}
    elif name == "collective-permute":
        values = {"source_target_pairs": ((0, 0),)}
    d.results.append(d.entry.instruction(name, [x], None, called, x.shape, **values))
    return "exact"


def dimension_size(d: Draft) -> str:
    dims = d.dims(1, 3)
    x = d.any_array(d.pick(ARRAY_TYPES), dims)
    d.add("get-dimension-size", [x], dimensions=(d.integer(0, len(dims) - 1),))
    return "exact"


def set_dimension_size(d: Draft) -> str:
    """Cut an array, and ask for the size and a value that the rest does not touch."""
    dims = d.dims(1, 3, sizes=(3, 1, 5))
    dim = d.integer(0, len(dims) - 1)
    x = d.any_array(S32, dims)
    size = d.scalar(S32, d.integer(0, dims[dim]))
    b = d.entry
    cut = b.instruction("set-dimension-size", [x, size], dimensions=(dim,))
    d.add("get-dimension-size", [cut], dimensions=(dim,))
    return "exact"


def dynamic_reshape(d: Draft) -> str:
    dtype, dims = d.pick(ARRAY_TYPES), d.dims(0, 3, sizes=(2, 1, 3, 5, 0))
    sizes = tuple(dims[i] for i in d.order(len(dims)))
    operands = [d.any_array(dtype, dims), *(d.scalar(S32, size) for size in sizes)]
    d.add("dynamic-reshape", operands, shape=ArrayShape(dtype, sizes))
    return "exact"


_COLLECTIVES = (
    "all-gather",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "reduce-scatter",
)

CASES: dict[str, Callable[[Draft], str]] = {
    **{name: partial(collective, name) for name in _COLLECTIVES},
    "add-dependency": after_all,
    "after-all": after_all,
    "all-reduce": all_reduce,
    "all-reduce-done": all_reduce,
    "all-reduce-start": all_reduce,
    "async-done": async_,
    "async-start": async_,
    "async-update": async_,
    "call": call,
    "conditional": conditional,
    "copy-done": copy_start,
    "copy-start": copy_start,
    "custom-call": custom_call,
    "domain": domain,
    "dynamic-reshape": dynamic_reshape,
    "fusion": fusion,
    "get-dimension-size": dimension_size,
    "get-tuple-element": get_tuple_element,
    "opt-barrier": opt_barrier,
    "partition-id": numbers,
    "replica-id": numbers,
    "set-dimension-size": set_dimension_size,
    "tuple": tuple_,
    "while": while_,
}
