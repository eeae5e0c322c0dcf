"""Windows over arrays: reduce-window, select-and-scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hloc.dtypes import PRED, Array, DType
from hloc.ir.attribute_fields import attr
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CalledRole,
    CallFunction,
    HostValue,
    Operands,
    ShapeRequest,
    define,
)
from hloc.lazy_dataclass import dataclass
from hloc.ops.array_values import narrowed, oracle_type
from hloc.ops.checks import (
    array_operand,
    array_operands,
    check_compatible,
    check_parameters,
    require,
    same_type,
    scalar_of,
)
from hloc.ops.factors import windows_of_one
from hloc.ops.folding import (
    combine_at,
    identity_of,
    map_scalars,
    recognised_results,
    result_types,
    ufunc_of,
)
from hloc.ops.reducers import like_root, reducer_results, split_operands
from hloc.ops.windows import is_plain, padded_base, window_of, window_slices, windowed_dims
from hloc.shapes import ArrayShape, Shape, TupleShape, same_dims


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAttributes:
    window: Window | None = attr("window", default=None)


# ---------------------------------------------------------------- shape rules


def infer_reduce_window(request: ShapeRequest) -> Shape:
    """Return the array of windows: `f32[10]`, `size=3 stride=2` -> `f32[4]`; several: a tuple.

    The element type is that of the init value, as in XLA.
    """
    inputs, inits = split_operands("reduce-window", request)
    (reducer,) = request.called
    reducer_results("reduce-window", reducer, inputs, inits, tuple_of_one=True)
    window = window_of("reduce-window", request.attributes.window, inputs[0].rank)
    _no_reversal("reduce-window", window)
    dims = windowed_dims("reduce-window", inputs[0].dims, window)
    dynamic = inputs[0].dynamic
    return like_root(reducer, tuple(ArrayShape(i.dtype, dims, None, dynamic) for i in inits))


def _no_reversal(name: str, window: Window) -> None:
    require(
        not any(d.reversal for d in window.dimensions), f"{name}: the window cannot be reversed"
    )


def infer_select_and_scatter(request: ShapeRequest) -> Shape:
    """Return the operand's shape; the source has one element per window."""
    name = "select-and-scatter"
    operand, source, init = array_operands(name, request)
    select, scatter = request.called
    scalar = scalar_of(operand)
    selected = check_parameters(name, select, (scalar, scalar), mixed=True)
    check_compatible(name, f"the result of {select.name}", selected, ArrayShape(PRED))
    require(init.rank == 0, f"{name}: init must be a scalar, but is {init.text_without_layout}")
    reducer_results(name, scatter, (source,), (init,))
    window = window_of(name, request.attributes.window, operand.rank)
    _no_reversal(name, window)
    expected = ArrayShape(operand.dtype, windowed_dims(name, operand.dims, window))
    require(
        same_dims(source, expected) and same_type(source.dtype, operand.dtype),
        f"{name}: source has shape {source.text_without_layout}, "
        f"but the windows make {expected.text_without_layout}",
    )
    return array_operand(name, request, 0)


# ---------------------------------------------------------------- evaluation


def _evaluate_reduce_window(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    count = len(operands) // 2
    reducer = inst.called[0]
    window = inst.attributes.window or Window()
    kinds = ["" if kind == "second" else kind for kind in recognised_results(reducer)]
    inputs, inits = operands[:count], operands[count:]
    types = result_types(reducer.root.shape)
    general = inits if all(kinds) else _fold_generally(call, reducer, inputs, inits, window)
    results = tuple(
        _fold_windows(kind, x, init, window, dtype) if kind else result
        for kind, x, init, dtype, result in zip(kinds, inputs, inits, types, general, strict=True)
    )
    return results if isinstance(inst.shape, TupleShape) else results[0]


def _fold_windows(kind: str, array: Array, init: Array, window: Window, dtype: DType) -> Array:
    """Fold along one dimension after the other; the operation may be reordered."""
    wide = oracle_type(dtype)
    ufunc = ufunc_of(kind, wide)
    result = narrowed(array, dtype).astype(wide)
    fill = identity_of(kind, wide)
    for dim in range(array.ndim):
        alone = _only(window, dim)
        dims = windowed_dims("reduce-window", result.shape, alone)
        base = padded_base(result, alone, fill)
        result = np.full(dims, fill, wide)
        for part in window_slices(alone, dims):
            result = np.asarray(ufunc(result, base[part]))
    return narrowed(ufunc(narrowed(init, dtype).astype(wide), result), dtype)


def _only(window: Window, dim: int) -> Window:
    """Return the window that is 1 in every dimension but `dim`."""
    one = WindowDimension(1)
    return Window(tuple(d if i == dim else one for i, d in enumerate(window.dimensions)))


def _fold_generally(
    call: CallFunction,
    reducer: Computation,
    arrays: Sequence[Array],
    inits: Sequence[Array],
    window: Window,
) -> tuple[Array, ...]:
    """Fold every window in row-major order, skipping padding and holes; all windows at once."""
    types = result_types(reducer.root.shape)
    dims = windowed_dims("reduce-window", arrays[0].shape, window)
    bases = [
        padded_base(narrowed(array, dtype), window, np.zeros((), dtype.numpy))
        for array, dtype in zip(arrays, types, strict=True)
    ]
    inside = _inside(arrays[0].shape, window)
    values = tuple(
        np.broadcast_to(narrowed(init, dtype), dims)
        for init, dtype in zip(inits, types, strict=True)
    )
    for part in window_slices(window, dims):
        found = map_scalars(call, reducer, [*values, *(base[part] for base in bases)], dims)
        if inside is None:
            values = found
        else:
            mask = inside[part]
            values = tuple(np.where(mask, new, old) for new, old in zip(found, values, strict=True))
    return values


def _inside(dims: tuple[int, ...], window: Window) -> Array | None:
    """Return a mask of the elements of the padded base that are in the array; None if all are."""
    if is_plain(window):
        return None
    return padded_base(np.ones(dims, bool), window, np.zeros((), bool))


def _evaluate_select_and_scatter(
    inst: Instruction, operands: Operands, call: CallFunction
) -> HostValue:
    operand, source, init = operands
    select, scatter = inst.called
    window = inst.attributes.window or Window()
    where = _selected(call, select, operand, window, source.shape)
    found = where >= 0
    dtype = inst.array.dtype
    result = np.full(operand.size, narrowed(init, dtype), dtype.numpy)
    updates = narrowed(source, dtype)[found]
    # The scatter computation takes (source, current).
    (result,) = combine_at(call, scatter, (result,), where[found], (updates,), update_first=True)
    return result.reshape(operand.shape)


def _selected(
    call: CallFunction, select: Computation, operand: Array, window: Window, dims: tuple[int, ...]
) -> Array:
    """Return the flat index of the element each window selects, -1 if it has none.

    The first element of a window is the candidate; another takes its place when
    select(candidate, other) is false.
    """
    window = Window(tuple(replace(d, reversal=False) for d in window.dimensions))
    base = padded_base(operand, window, np.zeros((), operand.dtype))
    numbers = np.arange(operand.size, dtype=np.int64).reshape(operand.shape)
    places = padded_base(numbers, window, np.asarray(-1, np.int64))
    best = np.zeros(dims, operand.dtype)
    where = np.full(dims, -1, np.int64)
    for part in window_slices(window, dims):
        value, place = base[part], places[part]
        (keeps,) = map_scalars(call, select, (best, value), dims)
        takes = (place >= 0) & ((where < 0) | ~keeps)
        best, where = np.where(takes, value, best), np.where(takes, place, where)
    return where


# ---------------------------------------------------------------- rows

REDUCE_WINDOW = define(
    reads="reduce-window(x, init) folds every window of x with to_apply; padding is skipped",
    arity=None,
    infer=infer_reduce_window,
    attributes=WindowAttributes,
    calls=(CalledRole("to_apply"),),
    evaluate=_evaluate_reduce_window,
    factors=windows_of_one,
    flops=1,
)

SELECT_AND_SCATTER = define(
    reads="select-and-scatter(x, s, init) adds each s, by scatter, where select picks in x",
    infer=infer_select_and_scatter,
    attributes=WindowAttributes,
    calls=(CalledRole("select"), CalledRole("scatter")),
    evaluate=_evaluate_select_and_scatter,
    factors=windows_of_one,
    flops=2,
)
