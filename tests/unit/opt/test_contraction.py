"""Passes about dot and convolution keep every result, whatever the dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fuzz.cases.contraction import convolution, dot
from fuzz.draft import Draft
from hloc.dtypes import BF16, F32, F64, S8
from hloc.ir.attributes import Window, WindowDimension
from hloc.opt.contraction.convolution_numbers import Places
from tests.unit.opt.theme_checks import check_many

DOT_PASSES = (
    "dot-decomposer",
    "batch-dot-simplification",
    "operand-upcaster",
)
CONVOLUTION_PASSES = (
    "conv-canonicalization",
    "convolution-group-converter",
    "operand-upcaster",
)


@pytest.mark.parametrize("name", DOT_PASSES)
def test_dots_keep_their_values(name: str) -> None:
    check_many(name, dot, preferred=S8 if name == "operand-upcaster" else None)


@pytest.mark.parametrize("name", CONVOLUTION_PASSES)
def test_convolutions_keep_their_values(name: str) -> None:
    check_many(name, convolution, preferred=S8 if name == "operand-upcaster" else None)


def test_contracted_dimensions_are_sorted_in_pairs() -> None:
    check_many("dot-dimension-sorter", dot, examples=80)


def add_convolution(d: Draft, spatial: Sequence[int], window: Sequence[WindowDimension]) -> str:
    """Add a convolution of an input of some sizes, with its dimensions in any order."""
    rank = len(spatial) + 2
    places = Places(d.order(rank), d.order(rank), d.order(rank))
    batch, features, outputs = d.pick((2, 1)), d.pick((3, 1)), d.pick((4, 1))
    dims = [0] * rank, [0] * rank
    for dim, size in zip(places.input, (batch, features, *spatial), strict=True):
        dims[0][dim] = size
    sizes = (features, outputs, *(w.size for w in window))
    for dim, size in zip(places.kernel, sizes, strict=True):
        dims[1][dim] = size
    operands = [d.tame_array(F32, dims[0]), d.tame_array(F32, dims[1])]
    d.add("convolution", operands, window=Window(tuple(window)), dim_labels=places.labels)
    return "table"


def product_convolution(d: Draft) -> str:
    """Draw a convolution whose windows are one element, or all, in each dimension."""
    rank = d.integer(0, 3)
    window, spatial = [], []
    for _ in range(rank):
        size, is_point = d.pick((3, 1, 5)), d.flag()
        spatial.append(size)
        window.append(WindowDimension(1 if is_point else size, reversal=d.flag()))
    return add_convolution(d, spatial, window)


def test_products_of_matrices_are_dots() -> None:
    check_many("convolution-to-dot", product_convolution)


def dilated_convolution(d: Draft) -> str:
    """Draw a convolution of an input with holes, and windows of whole multiples, or of a point."""
    rank = d.integer(1, 3 if d.flag() else 2)
    window, spatial = [], []
    for _ in range(rank):
        size, holes = d.pick((3, 1, 4)), d.pick((4, 1, 2, 5, 11))
        of_kernel = 1 if d.flag() else holes * d.pick((1, 2))
        reach = (size - 1) * holes + 1
        low, high = d.integer(-2, of_kernel + 1), d.integer(-2, of_kernel + 1)
        if reach + low + high < of_kernel:
            low, high = of_kernel, of_kernel
        found = WindowDimension(of_kernel, 1, low, high, holes, 1, d.flag())
        window.append(found)
        spatial.append(size)
    return add_convolution(d, spatial, window)


def test_transposed_convolutions_are_dense() -> None:
    check_many("transposed-convolution-rewriter", dilated_convolution, examples=40)


def rounded(d: Draft, opcode: str) -> str:
    """Draw a dot or convolution of f32 and let its result be bf16."""
    how = dot(d) if opcode == "dot" else convolution(d)
    (inst,) = d.results
    if inst.array.dtype is F32:
        inst.computation.set_shape(inst, inst.array.with_dtype(BF16))
    return how


@pytest.mark.parametrize("opcode", ["dot", "convolution"])
def test_results_are_rounded_once(opcode: str) -> None:
    check_many("result-caster", lambda d: rounded(d, opcode), preferred=F32)


def transposed_operands(d: Draft, opcode: str) -> str:
    """Draw a dot or convolution and put transposes, two of which cancel, around its operands."""
    how = dot(d) if opcode == "dot" else convolution(d)
    (inst,) = d.results
    b, operands = d.entry, []
    for operand in inst.operands:
        order = d.order(operand.array.rank)
        back = [order.index(dim) for dim in range(len(order))]
        operands.append(b.transpose(b.copy(b.transpose(operand, order)), back))
    inst.computation.set_operands(inst, operands)
    d.results = [b.transpose(inst, d.order(inst.array.rank))]
    return how


@pytest.mark.parametrize("opcode", ["dot", "convolution"])
def test_transposes_are_folded_rightly(opcode: str) -> None:
    check_many("transpose-folding", lambda d: transposed_operands(d, opcode))


def copied_batches(d: Draft) -> str:
    """Draw a dot of copies, alone or merged with a batch dimension, and of a vector per batch."""
    merged, inner, copies_left = d.flag(), d.flag(), d.flag()
    size, copies, n, k = d.pick((2, 3, 1)), d.pick((2, 4)), d.pick((5, 1)), d.pick((3, 1, 0))
    batch = [size, copies] if inner else [copies, size]
    x = d.tame_array(F32, (size, n, k))
    kept = [0 if inner else 1, 2, 3]
    b = d.entry
    operand = b.broadcast(x, (*batch, n, k), kept)
    if merged:
        batch = [size * copies]
        operand = b.reshape(operand, (*batch, n, k))
    y = d.tame_array(F32, (k, *batch))
    dims, other = tuple(range(len(batch))), tuple(range(1, len(batch) + 1))
    numbers = [(operand, dims, (len(batch) + 1,)), (y, other, (0,))]
    (lhs, *left), (rhs, *right) = numbers if copies_left else reversed(numbers)
    d.add(
        "dot",
        [lhs, rhs],
        lhs_batch_dims=left[0],
        lhs_contracting_dims=left[1],
        rhs_batch_dims=right[0],
        rhs_contracting_dims=right[1],
    )
    return "merged" if merged else "alone"


def test_copies_of_batches_are_folded_rightly() -> None:
    check_many("repeated-operand-folding", copied_batches)


def dots_with_a_shared_operand(d: Draft) -> str:
    """Draw products of one matrix with several, on either side, and one that depends on another."""
    left, m, k = d.flag(), d.pick((3, 1, 5)), d.pick((4, 1, 0))
    shared = d.tame_array(F32, (m, k) if left else (k, m))
    for _ in range(d.integer(2, 3)):
        n = d.pick((2, 1, 7))
        other = d.tame_array(F32, (k, n) if left else (n, k))
        operands = [shared, other] if left else [other, shared]
        d.add("dot", operands, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
    return "table"


def test_merged_dots_keep_their_values() -> None:
    check_many("dot-merger", dots_with_a_shared_operand)


def few_rows_by_a_matrix(d: Draft) -> str:
    """Draw a product of few rows by a matrix, on either side, whose k may be a prime number."""
    left, rows, dtype = d.flag(), d.pick((1, 2, 4)), d.pick((F32, BF16, F64))
    k, columns = d.pick((96, 64, 67)), d.pick(((3,), (2, 5), (1,)))
    matrix, other = d.tame_array(dtype, (k, *columns)), d.tame_array(dtype, (rows, k))
    if left:
        other = d.tame_array(dtype, (k,))
    operands = [matrix, other] if left else [other, matrix]
    lhs_contracting = 0 if left else 1
    d.add("dot", operands, lhs_contracting_dims=(lhs_contracting,), rhs_contracting_dims=(0,))
    return "table"


def test_parts_of_k_are_summed() -> None:
    check_many("split-k-gemm-rewriter{min-bytes=1,part-bytes=1}", few_rows_by_a_matrix)
