"""Evaluates called computations on scalars: recognised reducers, whole arrays at once, folds.

A computation of elementwise instructions on scalars gives the same values when it is evaluated once
on arrays of any one shape; this is how reduce, map, sort and scatter stay fast in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hloc.dtypes import Array, DType, dtype_of_numpy
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue
from hloc.ops.array_values import narrowed, oracle_type
from hloc.shapes import ArrayShape, Shape, TupleShape

LONG_SUM = 4096
"""Sums of more addends are computed in f64 if they would be chains of additions."""

_PASSIVE = ("parameter", "constant", "tuple", "get-tuple-element", "call", "fusion", "map")


def recognised_reducer(computation: Computation) -> str:
    """Return the opcode of a two-parameter computation of a single operation, else "".

    The opcodes are commutative; "second" stands for a computation that returns its
    second parameter, as that of a scatter that overwrites.
    """
    kinds = recognised_results(computation)
    return kinds[0] if len(kinds) == 1 and isinstance(computation.root.shape, ArrayShape) else ""


def recognised_results(computation: Computation) -> tuple[str, ...]:
    """Return `recognised_reducer` for each result of a reducer separately.

    The reducer `(add(p0, p2), subtract(p1, p3))` has `("add", "")`.
    """
    return tuple("" if row is None else _recognised(*row) for row in reducer_rows(computation))


def reducer_rows(
    computation: Computation,
) -> tuple[tuple[Instruction, Instruction, Instruction] | None, ...]:
    """Return for each result of a reducer: result, running value, element; None if not known."""
    root, parameters = computation.root, computation.parameters
    if isinstance(root.shape, TupleShape) and not root.is_a("tuple"):
        return (None,) * len(root.shape.elements)  # a fusion with several results
    results = root.operands if root.is_a("tuple") else (root,)
    if len(parameters) != 2 * len(results):
        return (None,) * len(results)
    count = len(results)
    return tuple(zip(results, parameters[:count], parameters[count:], strict=True))


def _recognised(result: Instruction, current: Instruction, element: Instruction) -> str:
    if result is element:
        return "second"
    same_types = current.shape == result.shape == element.shape
    is_plain = same_types and set(result.operands) == {current, element}
    return result.opcode.name if is_plain and result.opcode.associative else ""


def vectorises(computation: Computation) -> bool:
    """True if evaluating on arrays equals evaluating every element separately."""
    for inst in computation.instructions:
        if not works_per_element(inst) and inst.opcode.name not in _PASSIVE:
            return False
        if inst.opcode.name == "constant" and not inst.attributes.literal.is_scalar:
            return False
        if not all(vectorises(called) for called in inst.called):
            return False
    return True


def works_per_element(inst: Instruction) -> bool:
    """True if element i of the result depends on element i of the operands only."""
    if inst.opcode.name == "bitcast-convert":
        return inst.array.dtype.bits == inst.operands[0].array.dtype.bits
    return inst.opcode.elementwise


def map_scalars(
    call: CallFunction, computation: Computation, arrays: Sequence[Array], dims: tuple[int, ...]
) -> tuple[Array, ...]:
    """Apply `computation`, which takes scalars, to every element of `arrays`.

    Args:
        call: evaluates a computation.
        computation: takes one scalar per array, returns a scalar or a tuple of scalars.
        arrays: of shape `dims`, or scalars that stand for every element.
        dims: shape of the results.

    Returns:
        One array per scalar of the result.
    """
    types = result_types(computation.root.shape)
    whole = [np.broadcast_to(array, dims) for array in arrays]
    if vectorises(computation):
        results = as_tuple(call(computation, *whole))
        return tuple(
            np.broadcast_to(np.asarray(result, dtype=dtype.numpy), dims)
            for result, dtype in zip(results, types, strict=True)
        )
    out = tuple(np.empty(dims, dtype.numpy) for dtype in types)
    for index in np.ndindex(dims):
        results = as_tuple(call(computation, *(array[index] for array in whole)))
        for array, result in zip(out, results, strict=True):
            array[index] = result
    return out


def result_types(shape: Shape) -> tuple[DType, ...]:
    """Return the element types of a scalar or of a tuple of scalars."""
    if isinstance(shape, TupleShape):
        return tuple(dtype for element in shape.elements for dtype in result_types(element))
    assert isinstance(shape, ArrayShape)
    return (shape.dtype,)


def as_tuple(value: HostValue) -> tuple[Array, ...]:
    """Return a tuple unchanged and an array as a tuple of one."""
    return value if isinstance(value, tuple) else (value,)


def ufunc_of(kind: str, dtype: np.dtype[Any]) -> np.ufunc:
    """Return the NumPy function of a recognised reducer on `dtype`; on pred, add is or."""
    if dtype == np.bool_:
        kind = OF_PRED.get(kind, kind)
    ufunc: np.ufunc = getattr(np, _UFUNCS[kind])
    return ufunc


OF_PRED = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}
"""Recognised reducers on pred."""

_UFUNCS = {
    "add": "add",
    "multiply": "multiply",
    "minimum": "minimum",
    "maximum": "maximum",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}


def fold_recognised(
    kind: str, array: Array, init: Array, dims: tuple[int, ...], dtype: DType
) -> Array:
    """Reduce `array` over `dims` with one NumPy reduction; floats are rounded once, at the end."""
    wide = oracle_type(dtype)
    ufunc = ufunc_of(kind, wide)
    values, start = (narrowed(value, dtype).astype(wide) for value in (array, init))
    if values.size == 0:
        kept = tuple(size for dim, size in enumerate(values.shape) if dim not in dims)
        return narrowed(np.broadcast_to(start, kept), dtype)
    folded = ufunc.reduce(values, axis=dims, dtype=wide) if dims else values
    return narrowed(ufunc(start, folded), dtype)


def fold_general(
    call: CallFunction,
    computation: Computation,
    arrays: Sequence[Array],
    inits: Sequence[Array],
    dims: tuple[int, ...],
) -> tuple[Array, ...]:
    """Reduce `arrays` over `dims` with any reducer, left to right, for all elements at once."""
    types = result_types(computation.root.shape)
    kept = tuple(size for dim, size in enumerate(arrays[0].shape) if dim not in dims)
    rows = [
        np.moveaxis(array, dims, range(len(dims))).reshape(-1, *kept) if array.size else array
        for array in arrays
    ]
    values = tuple(
        np.broadcast_to(np.asarray(init).astype(dtype.numpy), kept)
        for init, dtype in zip(inits, types, strict=True)
    )
    if arrays[0].size == 0:
        return values
    rows = [row.astype(dtype.numpy) for row, dtype in zip(rows, types, strict=True)]
    step = 0
    while step < len(rows[0]):
        new = map_scalars(call, computation, [*values, *(row[step] for row in rows)], kept)
        step += 1
        if _same_bits(values, new):
            step += _idle_steps(call, computation, values, [row[step:] for row in rows])
        values = new
    return values


_FIRST_LOOK = 8
"""Number of steps tried at once at first; it doubles each time."""


def _idle_steps(
    call: CallFunction, computation: Computation, values: Sequence[Array], rows: Sequence[Array]
) -> int:
    """Return a number of leading `rows` that leave `values` unchanged, bit for bit.

    The argmax of a million numbers changes a few times; all steps between two changes take one
    here.
    """
    found, count = 0, _FIRST_LOOK
    while vectorises(computation) and found < len(rows[0]):
        part = [row[found : found + count] for row in rows]
        before = [np.broadcast_to(value, part[0].shape) for value in values]
        after = map_scalars(call, computation, [*before, *part], part[0].shape)
        differs = np.zeros(len(part[0]), bool)
        for old, new in zip(before, after, strict=True):
            differs |= (_bytes_of(old) != _bytes_of(new)).any(axis=1)
        if differs.any():
            return found + int(np.argmax(differs))
        found, count = found + len(part[0]), 2 * count
    return found


def _same_bits(old: Sequence[Array], new: Sequence[Array]) -> bool:
    return all(
        np.array_equal(_bytes_of(x[None]), _bytes_of(y[None]))
        for x, y in zip(old, new, strict=True)
    )


def _bytes_of(array: Array) -> Array:
    """Return the bytes of each row, an index of the first dimension."""
    return np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)


def identity_of(kind: str, dtype: np.dtype[Any]) -> Array:
    """Return the identity of a recognised reducer: 0 of add, inf of minimum ..."""
    if kind in ("minimum", "maximum") and dtype != np.bool_:
        if dtype.kind == "c":
            return np.asarray(complex(np.inf if kind == "minimum" else -np.inf), dtype)
        if dtype.kind == "f":
            return np.asarray(np.inf if kind == "minimum" else -np.inf, dtype)
        limits = np.iinfo(dtype)
        return np.asarray(limits.max if kind == "minimum" else limits.min, dtype)
    if kind == "and":
        return ~np.zeros((), dtype)
    return np.asarray(1 if kind in ("multiply", "minimum") else 0, dtype)


def combine_at(
    call: CallFunction,
    computation: Computation,
    targets: tuple[Array, ...],
    places: Array,
    updates: tuple[Array, ...],
    *,
    update_first: bool = False,
    addends: int = 0,
) -> tuple[Array, ...]:
    """Apply `computation(current, update)` at flat `places`, one update after the other.

    A sum of floats in which more than `LONG_SUM` addends may meet is made in f64.

    Args:
        call: evaluates a computation.
        computation: takes the current values and the updates, returns the new values.
        targets: arrays of one dimension; they are not changed.
        places: index into the targets per update; an index may occur more than once.
        updates: one value per place for each target.
        update_first: the computation takes the update before the current value.
        addends: largest number of updates of one place.
    """
    kind = recognised_reducer(computation) if len(targets) == 1 else ""
    if kind == "add" and addends > LONG_SUM and _is_real_float(targets[0].dtype):
        total = targets[0].astype(np.float64)
        np.add.at(total, places, updates[0].astype(np.float64))
        return (total.astype(targets[0].dtype),)
    results = tuple(target.copy() for target in targets)
    if kind == "second" and not update_first:
        results[0][places] = updates[0]
        return results
    if kind and kind != "second" and _adds_in_place(results[0].dtype):
        ufunc_of(kind, results[0].dtype).at(results[0], places, updates[0])
        return results
    for chosen in _rounds(places):
        where = places[chosen]
        current = [result[where] for result in results]
        new = [update[chosen] for update in updates]
        arguments = [*new, *current] if update_first else [*current, *new]
        values = map_scalars(call, computation, arguments, where.shape)
        for result, value in zip(results, values, strict=True):
            result[where] = value
    return results


def _is_real_float(dtype: np.dtype[Any]) -> bool:
    """Tell whether elements are HLO floats, including narrow ones."""
    found = dtype_of_numpy(dtype)
    return found is not None and found.is_float


def _adds_in_place(dtype: np.dtype[Any]) -> bool:
    """True if NumPy's in-place operations round each step as HLO does."""
    return dtype.kind in "biuc" or dtype in (np.float32, np.float64)


def _rounds(places: Array) -> Iterator[Array]:
    """Yield positions in `places` such that no place occurs twice in one round, in order."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
    counts = np.diff(np.append(first, len(ordered)))
    for turn in range(int(counts.max(initial=0))):
        yield order[first[counts > turn] + turn]
