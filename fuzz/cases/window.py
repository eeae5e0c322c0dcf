"""Cases of reduce, reduce-window, select-and-scatter, map, scan."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.draft import ARRAY_TYPES, Draft
from hloc.dtypes import F32, F64, PRED, S32, DType
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.windows import windowed_dims
from hloc.shapes import ArrayShape

ORDERED = tuple(dtype for dtype in ARRAY_TYPES if not dtype.is_complex)


def simple_reducer(d: Draft, dtype: DType) -> tuple[Computation, bool]:
    """Return a reducer of one array, and whether any order gives equal values."""
    if dtype is PRED:
        opcode = d.pick(("or", "and", "xor", "add"))
    elif dtype.is_integer:
        opcode = d.pick(("add", "maximum", "minimum", "multiply", "xor", "or"))
    elif dtype.is_complex:
        opcode = d.pick(("add", "multiply"))
    else:
        opcode = d.pick(("add", "maximum", "minimum", "multiply"))
    exact = not (dtype.is_float or dtype.is_complex) or opcode in ("maximum", "minimum")
    return d.reducer(opcode, dtype), exact


def argmax(d: Draft, dtype: DType) -> Computation:
    """Add the reducer of values and their places that keeps the larger value, then the first."""
    value, place = ArrayShape(dtype), ArrayShape(S32)
    b, (x, i, y, j) = d.computation("argmax", [value, place, value, place])
    larger = b.compare(x, y, "GT")
    same = b.compare(x, y, "EQ")
    first = b.logical_and(same, b.compare(i, j, "LT"))
    keep = b.logical_or(larger, first)
    b.computation.set_root(b.tuple([b.select(keep, x, y), b.select(keep, i, j)]))
    return b.computation


def not_commutative(d: Draft, dtype: DType) -> Computation:
    """Add a reducer that keeps its first operand, whatever the order of folding."""
    scalar = ArrayShape(dtype)
    b, (x, _) = d.computation("first", [scalar, scalar])
    b.computation.set_root(x)
    return b.computation


def reduce(d: Draft) -> str:
    """Draw a reduction: of one array, of values and indices, or by a reducer with an order."""
    dims = d.dims(0, 4)
    dimensions = d.some(range(len(dims)))
    form = d.pick(("simple", "argmax", "first"))
    if form == "argmax":
        dtype = d.pick([t for t in ORDERED if t is not PRED])
        arrays = [d.tame_array(dtype, dims), d.any_array(S32, dims)]
        inits = [d.tame_array(dtype, ()), d.any_array(S32, ())]
        d.add("reduce", [*arrays, *inits], [argmax(d, dtype)], dimensions=dimensions)
        return "exact"
    dtype = d.pick(ARRAY_TYPES)
    if form == "first":
        operands = [d.any_array(dtype, dims), d.any_array(dtype, ())]
        d.add("reduce", operands, [not_commutative(d, dtype)], dimensions=dimensions)
        return "exact"
    reducer, exact = simple_reducer(d, dtype)
    operands = [d.tame_array(dtype, dims, special=True), d.tame_array(dtype, ())]
    d.add("reduce", operands, [reducer], dimensions=dimensions)
    return "values" if exact else "table"


def window_over(d: Draft, size: int, plain: bool = False) -> WindowDimension:
    """Return one dimension of a window that fits an array of `size`."""
    dilation = 1 if plain else d.pick((1, 2, 3))
    whole = 0 if size == 0 else (size - 1) * dilation + 1
    low = d.integer(0 if plain else -min(1, whole), 2)
    high = d.integer(0 if plain else max(-1, -(whole + low)), 2)
    return WindowDimension(
        d.pick((2, 1, 3)),
        stride=d.pick((1, 2, 3)),
        pad_low=low,
        pad_high=high,
        base_dilation=dilation,
        window_dilation=1 if plain else d.pick((1, 2)),
    )


def reduce_window(d: Draft) -> str:
    dims = d.dims(0, 3, sizes=(3, 1, 5, 8, 0), limit=120)
    window = Window(tuple(window_over(d, size) for size in dims))
    if d.flag():
        dtype = d.pick([t for t in ORDERED if t is not PRED])
        arrays = [d.tame_array(dtype, dims), d.any_array(S32, dims)]
        inits = [d.tame_array(dtype, ()), d.any_array(S32, ())]
        d.add("reduce-window", [*arrays, *inits], [argmax(d, dtype)], window=window)
        return "exact"
    dtype = d.pick(ARRAY_TYPES)
    reducer, exact = simple_reducer(d, dtype)
    operands = [d.tame_array(dtype, dims, special=True), d.tame_array(dtype, ())]
    d.add("reduce-window", operands, [reducer], window=window)
    return "values" if exact else "table"


def select_and_scatter(d: Draft) -> str:
    dims = d.dims(0, 3, sizes=(3, 1, 5, 8, 0), limit=120)
    window = Window(tuple(window_over(d, size, plain=True) for size in dims))
    dtype = d.pick((F32, F64, S32, *(t for t in ORDERED if t is not PRED)))
    scalar = ArrayShape(dtype)
    b, (x, y) = d.computation("chosen", [scalar, scalar])
    b.computation.set_root(b.compare(x, y, d.pick(("GE", "GT", "LE", "LT"))))
    source = windowed_dims("select-and-scatter", dims, window)
    operands = [d.tame_array(dtype, dims), d.tame_array(dtype, source), d.tame_array(dtype, ())]
    called = [b.computation, d.reducer("add", dtype)]
    d.add("select-and-scatter", operands, called, window=window)
    return "table"


def map_(d: Draft) -> str:
    dims, dtype = d.dims(), d.pick([t for t in ARRAY_TYPES if t is not PRED])
    scalar = ArrayShape(dtype)
    b, (x, y) = d.computation("mapped", [scalar, scalar])
    b.computation.set_root(b.subtract(b.add(x, y), x))
    operands = [d.tame_array(dtype, dims), d.tame_array(dtype, dims)]
    d.add("map", operands, [b.computation], dimensions=tuple(range(len(dims))))
    return "table"


def scan(d: Draft) -> str:
    dims, dtype = d.dims(1, 3, sizes=(3, 1, 5, 0)), d.pick((F32, F64, S32))
    dim = d.integer(0, len(dims) - 1)
    step = ArrayShape(dtype, (*dims[:dim], *dims[dim + 1 :]))
    b, (carry, x) = d.computation("step", [step, step])
    b.computation.set_root(b.tuple([b.multiply(carry, x), b.add(carry, x)]))
    operands: list[Instruction] = [d.tame_array(dtype, dims), d.tame_array(dtype, step.dims)]
    d.add("scan", operands, [b.computation], dimensions=(dim,), num_carries=1, is_reverse=d.flag())
    return "table"


CASES: dict[str, Callable[[Draft], str]] = {
    "map": map_,
    "reduce": reduce,
    "reduce-window": reduce_window,
    "scan": scan,
    "select-and-scatter": select_and_scatter,
}
