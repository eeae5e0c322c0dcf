"""Results of batched factorisations become row-major where their elementwise users are.

The results of LAPACK's custom calls are column-major and JAX's users of them row-major, so users
would read with a stride. hloc's algorithms write either layout in the same time.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloc.codegen.kernels.linalg.calls import call_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.movement.walk import is_elementwise
from hloc.shapes import ArrayShape, Shape, TupleShape

_FEWEST = 4
"""Smallest batch whose matrices are processed in lanes, where both layouts cost the same."""

_MOST_ROWS = 32


def write_rows_for_readers(computation: Computation) -> None:
    """Make results row-major if all readers are; changes the readers' parameters as well."""
    for inst in computation.instructions:
        call = call_of(inst)
        if call is None or call.batch < _FEWEST:
            continue
        if max(size for _, size in call.sizes) > _MOST_ROWS:
            continue
        for array in _results(inst):
            if _is_free(array) and _has_readers_by_rows(array):
                _make_row_major(inst, array)


def _results(inst: Instruction) -> Iterator[Instruction]:
    """Yield the instructions that alone hold an array of a result."""
    if isinstance(inst.shape, ArrayShape):
        yield inst
        return
    if inst.is_root or not all(user.is_a("get-tuple-element") for user in inst.users):
        return
    numbers = [user.attributes.index for user in inst.users]
    yield from (user for user in inst.users if numbers.count(user.attributes.index) == 1)


def _is_free(array: Instruction) -> bool:
    """True for matrices of another layout that are not visible outside the computation."""
    return not array.is_root and array.array.rank > 2 and array.array.layout is not None


def _has_readers_by_rows(array: Instruction) -> bool:
    """True if some reader is row-major, and none needs the present layout."""
    users = array.users
    return all(_reads_any_order(user, array) for user in users) and any(map(_goes_by_rows, users))


def _reads_any_order(user: Instruction, array: Instruction) -> bool:
    if call_of(user) is not None:
        return True
    if not user.is_a("fusion"):
        return is_elementwise(user)
    if len(user.called[0].callers) > 1:
        return False
    return all(
        is_elementwise(reader)
        for parameter in _parameters(user, array)
        for reader in parameter.users
    )


def _goes_by_rows(user: Instruction) -> bool:
    """True for elementwise work whose result is row-major."""
    if call_of(user) is not None:
        return False
    return isinstance(user.shape, ArrayShape) and user.array.layout is None


def _parameters(user: Instruction, array: Instruction) -> list[Instruction]:
    """Return the parameters of a fused computation that hold `array`."""
    pairs = zip(user.called[0].parameters, user.operands, strict=True)
    return [parameter for parameter, operand in pairs if operand is array]


def _make_row_major(inst: Instruction, array: Instruction) -> None:
    plain = array.array.with_layout(None)
    if isinstance(inst.shape, TupleShape):
        elements: list[Shape] = list(inst.shape.elements)
        elements[array.attributes.index] = plain
        inst.computation.set_shape(inst, TupleShape(tuple(elements)))
    array.computation.set_shape(array, plain)
    for user in array.users:
        if user.is_a("fusion"):
            for parameter in _parameters(user, array):
                parameter.computation.set_shape(parameter, plain)
