"""The semantics of collectives: from the operands of all participants, the result of each.

Participants are in the order of their rank, their position in the list of the group
(`hloc/ir/device_groups.py`). Sums run in the order of the ranks.
Source: XLA operation semantics, the sections of the opcodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloc.dtypes import Array, dtype_of_numpy
from hloc.errors import HloError, UnsupportedError
from hloc.ir.device_groups import PERMUTES, device_pairs
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import CallFunction, HostValue, Operands, Rendezvous
from hloc.ops.array_values import zeros_of
from hloc.ops.folding import map_scalars, result_types
from hloc.ops.rows.convert import converted
from hloc.shapes import ArrayShape, Shape, TupleShape


def all_reduce(inst: Instruction, rendezvous: Rendezvous) -> list[HostValue]:
    """Reduce over the participants, element by element, each operand separately."""
    return [_one_or_tuple(_sums(inst, rendezvous))] * len(rendezvous.parts)


def reduce_scatter(inst: Instruction, rendezvous: Rendezvous) -> list[HostValue]:
    """Reduce; participant k keeps piece k along `dimensions`."""
    pieces = [_pieces(inst, total, len(rendezvous.parts)) for total in _sums(inst, rendezvous)]
    return [_one_or_tuple(kept) for kept in zip(*pieces, strict=True)]


def all_gather(inst: Instruction, rendezvous: Rendezvous) -> list[HostValue]:
    """Concatenate the arrays of the participants along `dimensions`."""
    (dim,) = inst.attributes.dimensions
    whole = [np.concatenate(arrays, axis=dim) for arrays in zip(*rendezvous.parts, strict=True)]
    return [_one_or_tuple(whole)] * len(rendezvous.parts)


def all_to_all(inst: Instruction, rendezvous: Rendezvous) -> list[HostValue]:
    """Send participant k piece k along `dimensions`, or operand k if there are none."""
    if inst.attributes.dimensions is None:
        return list(zip(*rendezvous.parts, strict=True))
    (dim,) = inst.attributes.dimensions
    pieces = [_pieces(inst, array, len(rendezvous.parts)) for (array,) in rendezvous.parts]
    return [np.concatenate(received, axis=dim) for received in zip(*pieces, strict=True)]


def collective_broadcast(inst: Instruction, rendezvous: Rendezvous) -> list[HostValue]:
    """Send the operands of rank 0 to all, or each operand of the rank that the last operand names.

    A rank beyond the group is clamped, as by dynamic-slice.
    """
    if not inst.attributes.has_dynamic_root:
        return [_one_or_tuple(rendezvous.parts[0])] * len(rendezvous.parts)
    results = []
    for part in rendezvous.parts:
        roots = np.clip(part[-1], 0, len(rendezvous.parts) - 1)
        results.append(_one_or_tuple([rendezvous.parts[root][i] for i, root in enumerate(roots)]))
    return results


def refuse_slices(inst: Instruction) -> None:
    """Raise UnsupportedError for a collective-permute of slices of its operands."""
    if inst.attributes.slice_sizes:
        raise UnsupportedError(f"{inst.name}: slices of a permute are not supported", inst.span)


def collective_permute(inst: Instruction, rendezvous: Rendezvous) -> list[HostValue]:
    """Send along `source_target_pairs`; a device that is no target gets zeros."""
    refuse_slices(inst)
    rank_of = {device: rank for rank, device in enumerate(rendezvous.members)}
    source_of = {target: rank_of.get(source) for source, target in device_pairs(inst)}
    ranks = [source_of.get(device) for device in rendezvous.members]
    zeros = tuple(zeros_of(operand.shape) for operand in inst.operands)
    return [_one_or_tuple(zeros if rank is None else rendezvous.parts[rank]) for rank in ranks]


def ragged_all_to_all(inst: Instruction, rendezvous: Rendezvous) -> list[HostValue]:
    """Write rows of each participant's operand 0 into operand 1 of the others.

    Operands 2 to 4 hold, for each receiver, one or several starts, counts, and starts in the
    receiver's array; operand 5, the counts it will receive, is redundant.
    """
    results = [np.array(part[1]) for part in rendezvous.parts]
    for part in rendezvous.parts:
        starts, counts, targets = (
            array.astype(np.int64).reshape(len(rendezvous.parts), -1) for array in part[2:5]
        )
        for rank, result in enumerate(results):
            for start, count, target in zip(starts[rank], counts[rank], targets[rank], strict=True):
                if (
                    min(start, count, target) < 0
                    or start + count > len(part[0])
                    or target + count > len(result)
                ):
                    raise HloError(
                        f"{inst.name}: {count} rows from row {start} do not fit at row {target}",
                        inst.span,
                    )
                result[target : target + count] = part[0][start : start + count]
    return list(results)


def exchanged(inst: Instruction, rendezvous: Rendezvous) -> list[HostValue]:
    """Return the result of a collective for each participant.

    Args:
        inst: the collective, or its start.
        rendezvous: the participants and their operands.
    """
    assert inst.opcode.exchange is not None
    results = inst.opcode.exchange(inst, rendezvous)
    shape = inst.shape
    variadic_sum = inst.is_a("all-reduce-start") and len(inst.operands) > 1
    if inst.opcode.ended_by and isinstance(shape, TupleShape) and not variadic_sum:
        contexts = tuple(map(zeros_of, shape.elements[2:]))
        results = [
            (_one_or_tuple(part), result, *contexts)
            for part, result in zip(rendezvous.parts, results, strict=True)
        ]
    return [_typed(result, shape) for result in results]


def evaluate_alone(inst: Instruction, operands: Operands, call: CallFunction) -> HostValue:
    """Return the result of a collective of one participant."""
    return exchanged(inst, Rendezvous((operands,), (0,), call))[0]


def result_apart(inst: Instruction, device: int) -> HostValue:
    """Return the result of a device that is in no group: zeros, if the opcode allows that."""
    if inst.is_a(*PERMUTES, "collective-broadcast"):
        return zeros_of(inst.shape)
    raise HloError(
        f"{inst.opcode.name} '{inst.name}' has no group for device {device}, which runs it",
        inst.span,
    )


def evaluate_done(inst: Instruction, operands: Operands, _call: CallFunction) -> HostValue:
    """Return the result of a collective that has been started."""
    (value,) = operands
    if not inst.is_a("all-reduce-done"):
        return value[1]
    is_pair = isinstance(inst.operands[0].shape, TupleShape) and isinstance(inst.shape, ArrayShape)
    return value[1] if is_pair else value


def _sums(inst: Instruction, rendezvous: Rendezvous) -> list[Array]:
    """Reduce each operand over the participants, in the element type of the reducer."""
    reducer = inst.called[0]
    (dtype,) = result_types(reducer.root.shape)
    totals = []
    for operand, arrays in zip(inst.operands, zip(*rendezvous.parts, strict=True), strict=True):
        own, total = operand.array.dtype, arrays[0]
        if len(arrays) > 1:
            total, *others = (converted(array, own, dtype) for array in arrays)
            for array in others:
                (total,) = map_scalars(rendezvous.call, reducer, (total, array), total.shape)
            total = converted(total, dtype, own)
        totals.append(total)
    return totals


def _pieces(inst: Instruction, array: Array, count: int) -> list[Array]:
    (dim,) = inst.attributes.dimensions
    if array.shape[dim] % count:
        raise HloError(
            f"{inst.name}: dimension {dim} of {array.shape[dim]} elements does not divide into "
            f"{count} equal pieces",
            inst.span,
        )
    return np.split(array, count, axis=dim)


def _one_or_tuple(values: Sequence[HostValue]) -> HostValue:
    return values[0] if len(values) == 1 else tuple(values)


def _typed(value: HostValue, shape: Shape) -> HostValue:
    """Return arrays in the element types of `shape`: bf16 may be summed as f32."""
    if isinstance(shape, TupleShape):
        return tuple(_typed(v, element) for v, element in zip(value, shape.elements, strict=True))
    if not isinstance(shape, ArrayShape) or shape.dtype.is_special:
        return value
    source = dtype_of_numpy(value.dtype)
    return value if source is None else converted(value, source, shape.dtype)
