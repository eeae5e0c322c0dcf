"""The behaviour of custom calls by target: those hloc knows, and those registered in this process.

An unknown target is legal text; running it is refused with the target's name. Only the targets in
these tables run: a name in a module's text cannot reach anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import S32, Array
from hloc.errors import HloError, printable
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import HostValue, Operands
from hloc.ir.registered_targets import HostCallable, registered_function
from hloc.lazy_dataclass import dataclass
from hloc.ops.custom_calls import blas, lapack, sparse
from hloc.ops.ordering import topk
from hloc.shapes import ArrayShape, BufferShape, Shape, TupleShape, array_leaves, compatible

TargetFunction: TypeAlias = Callable[[Instruction, tuple[HostValue, ...]], HostValue]
Fill: TypeAlias = Callable[[Sequence[Array], Sequence[Array]], None]
FillFunction: TypeAlias = Callable[[Instruction], Fill]


def _identity(inst: Instruction, operands: Operands) -> HostValue:
    return operands[0] if len(operands) == 1 else tuple(operands)


def _no_value(inst: Instruction, operands: Operands) -> HostValue:
    return ()


def _topk(inst: Instruction, operands: Operands) -> HostValue:
    assert isinstance(inst.shape, TupleShape)
    values, indices = inst.shape.elements
    assert isinstance(values, ArrayShape)
    assert isinstance(indices, ArrayShape)
    found, order = topk(operands[0], values.dims[-1], largest=True)
    return found, order.astype(indices.dtype.numpy)


def _fits_topk(inst: Instruction) -> bool:
    shape = inst.shape
    operand = inst.operands[0].shape if inst.operands else None
    if not isinstance(shape, TupleShape) or len(shape.elements) != 2:
        return False
    values, indices = shape.elements
    if not isinstance(values, ArrayShape) or not isinstance(operand, ArrayShape):
        return False
    return (
        operand.rank >= 1
        and values.rank == operand.rank
        and values.dtype is operand.dtype
        and values.dims[:-1] == operand.dims[:-1]
        and values.dims[-1] <= operand.dims[-1]
        and compatible(indices, ArrayShape(S32, values.dims))
    )


def _fits_identity(inst: Instruction) -> bool:
    shapes = tuple(operand.shape for operand in inst.operands)
    expected = shapes[0] if len(shapes) == 1 else TupleShape(shapes)
    return bool(shapes) and compatible(inst.shape, expected)


def _fits_nothing(inst: Instruction) -> bool:
    return inst.shape == TupleShape()


# ---------------------------------------------------------------- dynamic sizes


def _fits_pad_to_static(inst: Instruction) -> bool:
    """Check for the operand at its bound, then one size per dimension."""
    operand = inst.operands[0].shape if len(inst.operands) == 1 else None
    if not isinstance(operand, ArrayShape):
        return False
    sizes = (ArrayShape(S32),) * operand.rank
    return compatible(inst.shape, TupleShape((operand, *sizes)))


def _pad_to_static(inst: Instruction, operands: Operands) -> HostValue:
    (array,) = operands
    assert isinstance(inst.shape, TupleShape)
    bound = inst.shape.elements[0]
    assert isinstance(bound, ArrayShape)
    room = [(0, n - size) for n, size in zip(bound.dims, array.shape, strict=True)]
    return (np.pad(array, room), *(np.int32(size) for size in array.shape))


def _fits_slice_to_dynamic(inst: Instruction) -> bool:
    """Check for an array and one size per dimension."""
    if not inst.operands or not isinstance(inst.shape, ArrayShape):
        return False
    array, *sizes = (operand.shape for operand in inst.operands)
    return (
        compatible(inst.shape, array)
        and len(sizes) == inst.shape.rank
        and all(compatible(size, ArrayShape(S32)) for size in sizes)
    )


def _slice_to_dynamic(inst: Instruction, operands: Operands) -> HostValue:
    array, *sizes = operands
    return array[tuple(slice(max(0, int(size))) for size in sizes)]


# ---------------------------------------------------------------- nothing to compute


def _zeros(inst: Instruction, _operands: Operands) -> HostValue:
    arrays = (np.zeros(shape.dims, shape.dtype.numpy) for shape in array_leaves(inst.shape))
    return nested_value(inst.shape, iter(list(arrays)))


def _has_no_operands(inst: Instruction) -> bool:
    return not inst.operands


def _makes_no_elements(inst: Instruction) -> bool:
    """True if the result has no elements and the call has no side effect."""
    a = inst.attributes
    return not a.custom_call_has_side_effect and not any(
        shape.elements for shape in array_leaves(inst.shape)
    )


# ---------------------------------------------------------------- the table


@dataclass(frozen=True, slots=True)
class CustomCallTarget:
    """A target hloc can run.

    Attributes:
        reads: the law in one line.
        fits: whether this implementation handles the shapes of the operands and the result.
        evaluate: NumPy semantics.
        is_identity: returns its operand (or all operands), so that code generation may forward it.
        fill: prepares an instruction at compile time; the function that it returns takes the
            arrays of the operands, one per leaf without tokens, which it only reads, and those of
            the results, which it writes.
    """

    reads: str
    fits: Callable[[Instruction], bool]
    evaluate: TargetFunction
    is_identity: bool = False
    fill: FillFunction | None = None


_IDENTITY = CustomCallTarget(
    "the operand; a hint for partitioning", _fits_identity, _identity, True
)
_PLACEMENT = CustomCallTarget("the operand; a hint for memory", _fits_identity, _identity, True)

TARGETS: dict[str, CustomCallTarget] = {
    "Sharding": _IDENTITY,
    "SPMDFullToShardShape": _IDENTITY,
    "SPMDShardToFullShape": _IDENTITY,
    "ShardBarrierFrom": _IDENTITY,
    "ShardBarrierTo": _IDENTITY,
    "xla.sdy.FuncResultSharding": _IDENTITY,
    "xla.sdy.GlobalToLocalShape": _IDENTITY,
    "xla.sdy.LocalToGlobalShape": _IDENTITY,
    "xla.sdy.PropagationBarrier": _IDENTITY,
    "xla.sdy.ShardingConstraint": _IDENTITY,
    "xla.sdy.ShardingGroup": CustomCallTarget("nothing", _fits_nothing, _no_value),
    "control_dep": CustomCallTarget("nothing; orders its operands", _fits_nothing, _no_value),
    "dce_sink": CustomCallTarget("nothing; keeps its operand alive", _fits_nothing, _no_value),
    "LayoutConstraint": _PLACEMENT,
    "annotate_device_placement": _PLACEMENT,
    "MoveToHost": _PLACEMENT,
    "MoveToDevice": _PLACEMENT,
    "PinToDevice": _PLACEMENT,
    "PinToDeviceSram": _PLACEMENT,
    "PinToHost": _PLACEMENT,
    "Pin": _PLACEMENT,
    "Unpin": _PLACEMENT,
    "PadToStatic": CustomCallTarget(
        "the operand at its bound, and its sizes", _fits_pad_to_static, _pad_to_static
    ),
    "SliceToDynamic": CustomCallTarget(
        "the operand cut to sizes", _fits_slice_to_dynamic, _slice_to_dynamic
    ),
    "__custom_kernel_fusion$workspace": CustomCallTarget(
        "memory for a kernel, here zeros", _has_no_operands, _zeros
    ),
    **dict.fromkeys(
        blas.TARGETS,
        CustomCallTarget("a product of matrices", blas.fits_blas, blas.evaluate_blas),
    ),
    sparse.CSR_TIMES_DENSE: CustomCallTarget(
        "a CSR matrix times a vector or matrix",
        sparse.fits_csr_times_dense,
        sparse.evaluate_csr_times_dense,
    ),
    "AllocateBuffer": CustomCallTarget("memory, here zeros", _has_no_operands, _zeros),
    "TopK": CustomCallTarget("the k largest values of each row and where", _fits_topk, _topk),
}
"""Custom-call targets by name; those of LAPACK are in `lapack.py`."""

_EMPTY = CustomCallTarget("no elements", _makes_no_elements, _zeros)
_LAPACK = CustomCallTarget("a LAPACK routine", lapack.fits_lapack, lapack.evaluate_lapack)


_OTHERS: dict[str, CustomCallTarget] = {}
"""Targets that run calls whose shapes hloc's own does not support."""


def add_target(name: str, target: CustomCallTarget) -> None:
    """Register a target for custom calls of `name` in this process.

    If hloc has a target of that name, this one runs calls with shapes that hloc's does not support.
    """
    (_OTHERS if is_target(name) else TARGETS)[name] = target


def is_target(name: str) -> bool:
    """True if hloc can run custom calls of `name`, by itself or through `add_target`."""
    return name in TARGETS or lapack.lapack_function(name) is not None


# ---------------------------------------------------------------- registered targets


def _registered(function: HostCallable) -> CustomCallTarget:
    def evaluate(inst: Instruction, operands: Operands) -> HostValue:
        arguments = [array for operand in operands for array in flat_arrays(operand)]
        return nested_value(inst.shape, iter(checked_results(inst, function(*arguments))))

    return CustomCallTarget("what was registered", lambda inst: True, evaluate)


def checked_results(inst: Instruction, found: Any) -> list[Array]:
    """Return what a host function returned as one array per result leaf.

    Raises:
        HloError: the number of arrays, a shape or a type is wrong.
    """
    results = array_leaves(inst.shape)
    if len(results) == 1 and not isinstance(found, (tuple, list)):
        found = [found]
    target = inst.attributes.custom_call_target
    if not isinstance(found, (tuple, list)) or len(found) != len(results):
        raise HloError(
            f'custom-call target "{printable(target)}" must return {len(results)} arrays'
        )
    arrays = [np.asarray(value) for value in found]
    for number, (array, shape) in enumerate(zip(arrays, results, strict=True)):
        if array.shape != shape.dims or array.dtype != shape.dtype.numpy:
            raise HloError(
                f'custom-call target "{printable(target)}": result {number} is '
                f"{array.dtype}{list(array.shape)}, expected {shape.text_without_layout}"
            )
    return arrays


def flat_arrays(value: HostValue) -> Iterator[Array]:
    """Yield the arrays of a host value, depth first."""
    if isinstance(value, tuple):
        for element in value:
            yield from flat_arrays(element)
    elif value is not None:
        yield np.asarray(value)


def nested_value(shape: Shape, arrays: Iterator[Array]) -> HostValue:
    """Return the host value of `shape` made of `arrays`, in order."""
    if isinstance(shape, TupleShape):
        return tuple(nested_value(element, arrays) for element in shape.elements)
    array = shape.array if isinstance(shape, BufferShape) else shape
    return None if array.dtype.is_special else next(arrays)


# ---------------------------------------------------------------- looking up


def target_of(inst: Instruction) -> CustomCallTarget | None:
    """Return the target of a custom-call that hloc can run with these shapes, or None.

    A target registered in this process takes precedence.
    """
    name = inst.attributes.custom_call_target
    function = registered_function(name)
    if function is not None:
        return _registered(function)
    target = TARGETS.get(name)
    if target is None and lapack.lapack_function(name) is not None:
        target = _LAPACK
    for known in (target, _OTHERS.get(name)):
        if known is not None and known.fits(inst):
            return known
    return _EMPTY if _makes_no_elements(inst) else None


def is_call_of(inst: Instruction, target: str) -> bool:
    """True for a custom-call of hloc's own `target` with supported shapes."""
    return (
        inst.is_a("custom-call")
        and inst.attributes.custom_call_target == target
        and TARGETS[target].fits(inst)
    )


def refusal_of(inst: Instruction) -> str:
    """Return why this custom-call cannot run and what to do about it, "" if it can."""
    if target_of(inst) is not None:
        return ""
    name = inst.attributes.custom_call_target
    if is_target(name):
        return f'custom-call target "{printable(name)}" is not known with these shapes'
    if name.startswith(_OTHER_DEVICES):
        return f'custom-call target "{printable(name)}" is a library of another device'
    return (
        f'custom-call target "{printable(name)}" is not known; '
        f"hloc.register_custom_call({name!r}, function) makes it so, "
        "and for programs of JAX jax.ffi.register_ffi_target"
    )


_OTHER_DEVICES = ("__gpu$", "__cublas$", "__cudnn$", "__triton", "tpu_custom_call", "cu_")
