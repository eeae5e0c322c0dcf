"""Data movement as index maps: which element of which operand each element of the result is.

The map of a static move comes from the evaluator: its row runs on arrays that contain the
numbers of their elements.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from hloc.dtypes import PRED, S64
from hloc.ir.instruction import Instruction
from hloc.prove.terms import CONSTANT, CannotFollowError, Special, Terms, Value, array_of


def index_map(
    inst: Instruction, sizes: list[tuple[int, ...]], *indices: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return for each element of the result its number among the elements of all operands.

    Args:
        inst: the move.
        sizes: sizes of the operands that are moved.
        indices: values of the index operands.
    """
    numbered, first = [], 0
    for dims in sizes:
        count = int(np.prod(dims))
        numbered.append(np.arange(first, first + count, dtype=np.int64).reshape(dims))
        first += count
    # As an instruction on s64: the row returns arrays of the result's type.
    wide: Any = SimpleNamespace(
        attributes=inst.attributes,
        array=inst.array.with_dtype(S64),
        shape=inst.array.with_dtype(S64),
        operands=[SimpleNamespace(array=o.array.with_dtype(S64)) for o in inst.operands],
    )
    evaluate = inst.opcode.evaluate
    assert evaluate is not None
    return np.asarray(evaluate(wide, (*numbered, *indices), _no_calls))


def _no_calls(*_arguments: Any) -> Any:
    raise AssertionError("a move calls no computation")


def moved(inst: Instruction, operands: tuple[Value, ...]) -> Value:
    """Return the elements of all operands that the move takes."""
    pool = np.concatenate([operand.reshape(-1) for operand in operands])
    numbers = index_map(inst, [operand.shape for operand in operands])
    return array_of(list(pool[numbers.reshape(-1)]), numbers.shape)


# ---------------------------------------------------------------- at computed places


def gather(
    _terms: Terms, inst: Instruction, operands: tuple[Value, ...], _call: Callable[..., Value]
) -> Value:
    """Return the result of a gather with known indices."""
    array, indices = operands
    if any(term.op != CONSTANT for term in indices.reshape(-1)):
        raise CannotFollowError("only known indices are supported", inst)
    flat = [term.detail for term in indices.reshape(-1)]
    known = np.array(flat, inst.operands[1].array.dtype.numpy).reshape(indices.shape)
    numbers = index_map(inst, [array.shape], known)
    return array_of(list(array.reshape(-1)[numbers.reshape(-1)]), numbers.shape)


def dynamic_slice(
    terms: Terms, inst: Instruction, operands: tuple[Value, ...], _call: Callable[..., Value]
) -> Value:
    """Handle one dimension after another: each element is selected among the possible ones."""
    array, sizes = operands[0], inst.attributes.dynamic_slice_sizes
    for dim, start in enumerate(_flat(operands[1:])):
        places = range(array.shape[dim] - sizes[dim] + 1)
        parts = [_part(array, dim, place, sizes[dim]) for place in places]
        array = _chosen(terms, start, parts)
    return array


def dynamic_update_slice(
    terms: Terms, inst: Instruction, operands: tuple[Value, ...], _call: Callable[..., Value]
) -> Value:
    """Return the array with the update at each place that the start indices may select."""
    array, update = operands[:2]
    return _updated(terms, array, update, _flat(operands[2:]), 0, ())


def _flat(indices: tuple[Value, ...]) -> list[Any]:
    """Return one start per dimension, from scalars or from one vector."""
    return [term for index in indices for term in index.reshape(-1)]


def _updated(
    terms: Terms,
    array: Value,
    update: Value,
    starts: list[Any],
    dim: int,
    place: tuple[int, ...],
) -> Value:
    """Return `array` with `update` at symbolic starts: a choice among all places."""
    if array.ndim == 0:
        return update
    if dim == array.ndim:
        result = array.copy()
        ranges = tuple(slice(s, s + n) for s, n in zip(place, update.shape, strict=True))
        result[ranges] = update
        return result
    places = range(array.shape[dim] - update.shape[dim] + 1)
    parts = [_updated(terms, array, update, starts, dim + 1, (*place, p)) for p in places]
    return _chosen(terms, starts[dim], parts)


def _chosen(terms: Terms, start: Any, parts: list[Value]) -> Value:
    """Return parts[start], the start clamped, as selects from the last part to the first."""
    result = parts[-1]
    for place in reversed(range(len(parts) - 1)):
        # An index type too narrow for the place never starts after it.
        bits = start.dtype.bits - start.dtype.is_signed
        if place >= 1 << bits:
            continue
        bound = terms.literal(place, start.dtype)
        before = terms.apply("compare", PRED, (start, bound), _below(start.dtype))
        chosen = [
            terms.apply("select", yes.dtype, (before, yes, no)) if yes is not no else yes
            for yes, no in zip(parts[place].reshape(-1), result.reshape(-1), strict=True)
        ]
        result = array_of(chosen, parts[place].shape)
    return result


def _part(array: Value, dim: int, start: int, size: int) -> Value:
    return array[
        tuple(slice(start, start + size) if d == dim else slice(None) for d in range(array.ndim))
    ]


def _below(dtype: Any) -> tuple[str, str]:
    return "LE", "SIGNED" if dtype.is_signed else "UNSIGNED"


# ---------------------------------------------------------------- bits


def bitcast_convert(
    terms: Terms, inst: Instruction, operands: tuple[Value, ...], _call: Callable[..., Value]
) -> Value:
    """Return a bitcast to a type of the same width; other widths are not supported."""
    source, target = inst.operands[0].array.dtype, inst.array.dtype
    if source is target:
        return operands[0]
    if source.bits != target.bits or source.is_complex or source.is_pred or target.is_pred:
        raise CannotFollowError("only integers and floats of one width are supported", inst)
    return array_of([_cast(terms, inst, t) for t in operands[0].reshape(-1)], inst.array.dims)


def _cast(terms: Terms, inst: Instruction, term: Any) -> Any:
    target = inst.array.dtype
    while term.op == "bitcast-convert":  # bits there and back are the same bits
        term = term.args[0]
    if term.detail == "nan":
        raise CannotFollowError("the bits of a NaN are not followed", inst)
    return term if term.dtype is target else terms.apply("bitcast-convert", target, (term,))


PLACES: dict[str, Special] = {
    "gather": gather,
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "bitcast-convert": bitcast_convert,
}
