"""Calls from generated code into Python, for `custom-call` targets registered by name."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hloc.dtypes import Array
from hloc.ir.registered_targets import HostCallable, register_target
from hloc.shapes import ArrayShape, array_leaves

if TYPE_CHECKING:
    from hloc.codegen.plan.host_calls import HostFunction


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))


def register_custom_call(target: str, function: HostCallable) -> None:
    """Register `function` for custom calls with `custom_call_target="target"` in this process.

    Args:
        target: the name in the text of modules.
        function: takes one read-only array per operand leaf, in logical order, and returns an
            array, or a sequence with one per result leaf; shapes and types are checked.

    Raises:
        HloError: the name is empty, or `function` is not callable.
    """
    register_target(target, function)


def callback_for(host: HostFunction, on_fault: Callable[[BaseException], None]) -> Any:
    """Return a C function that runs `host` on an array of pointers to operands and results.

    An exception must not propagate through generated code: it is passed to `on_fault`, and the
    results are zero. A function of a library is returned as it is, since its kernel calls it.
    """
    if host.address:
        return ctypes.c_void_p(host.address)
    inst = host.inst
    operands = inst.operand_arrays
    results = array_leaves(inst.shape)

    def run(pointers: Any) -> None:
        targets = [_view(pointers[len(operands) + i], shape) for i, shape in enumerate(results)]
        try:
            arguments = [_view(pointers[i], shape) for i, shape in enumerate(operands)]
            for argument in arguments:
                argument.flags.writeable = False
            if host.fills:
                host.function(*arguments, *targets)
                return
            result = host.function(*arguments)
            for target, value in zip(targets, result, strict=True):
                np.copyto(target, value)
        except BaseException as fault:
            for target in targets:
                target.fill(0)
            on_fault(fault)

    return CALLBACK(run)


def _view(address: int, shape: ArrayShape) -> Array:
    """Return the memory at `address` as an array in logical order."""
    if not shape.size_bytes:
        return np.zeros(shape.dims, shape.dtype.numpy)
    order = tuple(reversed(shape.minor_to_major))
    data = (ctypes.c_uint8 * shape.size_bytes).from_address(address)
    physical: Array = np.ctypeslib.as_array(data).view(shape.dtype.numpy)
    dims = tuple(shape.dims[dim] for dim in order)
    return physical.reshape(dims).transpose(tuple(int(d) for d in np.argsort(order)))
