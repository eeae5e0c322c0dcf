"""One custom call of a program: its call frames, and the calls of its handlers.

As on XLA:CPU, `instantiate` runs once when the program is compiled and `execute` in each run;
`prepare` and `initialize` are stages of GPUs.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.ir.instruction import Instruction
from hloc.pjrt.callbacks import user_data
from hloc.pjrt.ffi.abi import STAGE, data_type, data_type_of, new
from hloc.pjrt.ffi.api import CONTEXTS, Context, api_address, taken_error, wait_for_future
from hloc.pjrt.ffi.attributes import Attributes, attributes_of
from hloc.pjrt.ffi.registered import deleters
from hloc.pjrt.in_place import is_token, operands_in_results, result_shapes
from hloc.pjrt.native import words
from hloc.shapes import ArrayShape, Shape

_HANDLER = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_BUFFER = 1
"""The only kind of argument and result of the FFI."""

_runs = itertools.count(1)


class Frame:
    """An `XLA_FFI_CallFrame` and all memory that it refers to; one call at a time uses it."""

    def __init__(
        self, stage: str, attributes: Attributes, states: dict[int, tuple[int, int]],
        operands: Sequence[Shape] = (), results: Sequence[Shape] = (),
    ) -> None:  # fmt: skip
        """Create the frame of a call with operands and results of these shapes."""
        self.context = Context(states)
        CONTEXTS[self.context.address] = self.context
        self._kept: list[Any] = [attributes]
        self.native = new(
            "XLA_FFI_CallFrame",
            api=api_address(),
            ctx=self.context.address,
            stage=STAGE[stage],
            attrs=attributes.native,
        )
        self.native.struct_size = type(self.native).future.offset  # the header counts no further
        self.native.args, taken = self._arguments(operands)
        self.native.rets, returned = self._arguments(results)
        self.buffers = [buffer for buffer in taken + returned if buffer is not None]

    def _arguments(self, shapes: Sequence[Shape]) -> tuple[Any, list[Any]]:
        """Return an `XLA_FFI_Args` and its buffers, None for tokens."""
        buffers = [_buffer(shape, self._kept) for shape in shapes]
        kinds = (ctypes.c_int32 * max(len(buffers), 1))(*[_BUFFER] * len(buffers))
        values = words(ctypes.addressof(buffer) for buffer in buffers)
        self._kept += [buffers, kinds, values]
        native = new(
            "XLA_FFI_Args",
            size=len(buffers),
            types=ctypes.addressof(kinds),
            values=ctypes.addressof(values),
        )
        pairs = zip(shapes, buffers, strict=True)
        return native, [None if is_token(shape) else buffer for shape, buffer in pairs]

    def call(self, handler: int) -> None:
        """Run a handler, and wait for it if its result is asynchronous.

        Raises:
            PjrtError: the error that it returned.
        """
        self.native.future = None
        error = _HANDLER(handler)(ctypes.addressof(self.native))
        if error:
            raise taken_error(error)
        if self.native.future:
            wait_for_future(self.native.future)

    def __del__(self) -> None:
        CONTEXTS.pop(self.context.address, None)


def _buffer(shape: Shape, kept: list[Any]) -> Any:
    if is_token(shape):
        return new("XLA_FFI_Buffer", dtype=data_type("token"))
    assert isinstance(shape, ArrayShape)
    dims = words(shape.dims)
    kept.append(dims)
    return new(
        "XLA_FFI_Buffer",
        dtype=data_type_of(shape.dtype),
        rank=shape.rank,
        dims=ctypes.addressof(dims),
    )


class HandlerCall:
    """A custom call of one compiled program and the handlers of its target."""

    def __init__(self, handlers: Mapping[str, int], inst: Instruction) -> None:
        """Read the attributes and run the stage `instantiate`.

        Raises:
            PjrtError: the attributes are not supported by the FFI, or the handler's own error.
        """
        self._inst, self._execute = inst, handlers["execute"]
        self._states: dict[int, tuple[int, int]] = {}
        self._attributes = attributes_of(inst.common.backend_config or "")
        self._orders = _orders(inst)
        self._idle: list[Frame] = []
        if "instantiate" in handlers:
            Frame("INSTANTIATE", self._attributes, self._states).call(handlers["instantiate"])

    def __call__(self, operands: Sequence[Array], results: Sequence[Array]) -> None:
        """Run the stage `execute` on arrays in logical order, without tokens.

        Raises:
            PjrtError: the error that the handler returned.
        """
        operands = operands_in_results(self._inst, operands, results)
        given = [_in_memory(a, order) for a, order in zip(operands, self._orders[0], strict=True)]
        written = [_in_memory(a, order) for a, order in zip(results, self._orders[1], strict=True)]
        try:
            frame = self._idle.pop()
        except IndexError:
            shapes = [operand.shape for operand in self._inst.operands]
            outputs = result_shapes(self._inst)
            frame = Frame("EXECUTE", self._attributes, self._states, shapes, outputs)
        frame.context.user_data, frame.context.run = user_data(), next(_runs)
        for buffer, array in zip(frame.buffers, given + written, strict=True):
            buffer.data = array.ctypes.data
        frame.call(self._execute)
        self._idle.append(frame)
        for result, array, order in zip(results, written, self._orders[1], strict=True):
            if array.ctypes.data != result.ctypes.data:
                np.copyto(result, array.transpose(np.argsort(order)) if order else array)

    def __del__(self) -> None:
        known = deleters() if self._states else {}
        for type_id, state in self._states.values():
            if type_id in known:
                _DELETER(known[type_id])(state)


def _orders(inst: Instruction) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the dimensions of each operand and result from major to minor, without tokens."""
    operands = inst.attributes.operand_layout_constraints
    if operands is None:
        operands = tuple(operand.shape for operand in inst.operands)
    sides = (operands, result_shapes(inst))
    taken, returned = (
        [tuple(reversed(s.minor_to_major)) for s in side
         if isinstance(s, ArrayShape) and not is_token(s)]
        for side in sides
    )  # fmt: skip
    return taken, returned


def _in_memory(array: Array, order: tuple[int, ...]) -> Array:
    """Return the array in the memory order `order`: a view if it already has that order."""
    return np.ascontiguousarray(array.transpose(order)) if order else np.ascontiguousarray(array)
