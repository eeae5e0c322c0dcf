"""Python functions that write their results in place: `jax.experimental.buffer_callback`.

They get an execution context and a `Buffer` for each operand and result, as from jaxlib's own
implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from hloc.dtypes import Array
from hloc.ir.instruction import Instruction
from hloc.ops.custom_calls.custom_call_targets import CustomCallTarget, Fill, add_target
from hloc.pjrt.callbacks import called, function_of, has_index, with_new_results
from hloc.pjrt.in_place import operands_in_results

TARGET = "xla_buffer_python_cpu_callback"


def add_buffer_callbacks() -> None:
    """Let hloc compile and run the custom call."""
    reads = "a Python function of JAX that writes its results in place"
    add_target(TARGET, CustomCallTarget(reads, has_index, with_new_results(_fill), fill=_fill))


def _fill(inst: Instruction) -> Fill:
    return partial(_call, inst)


def _call(inst: Instruction, operands: Sequence[Array], results: Sequence[Array]) -> None:
    """Call the function; JAX checks that it returns nothing.

    Raises:
        PjrtError: it raised, with its traceback.
        HloError: JAX passed no function with this run.
    """
    function = function_of(inst)
    operands = operands_in_results(inst, operands, results)
    buffers = [Buffer(array, writeable=False) for array in operands]
    buffers += [Buffer(array, writeable=True) for array in results]
    called(function, ExecutionContext(), *buffers)


class ExecutionContext:
    """The context of a call in a run."""

    @cached_property
    def stage(self) -> Any:
        """The stage: always execution."""
        from jax._src.lib import ffi

        return ffi.ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """Raise an error: only GPUs have streams."""
        import jax

        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available")


class Buffer:
    """The memory of an operand or result during the call, for `np.asarray` and DLPack."""

    def __init__(self, array: Array, *, writeable: bool) -> None:
        """Wrap `array`; only a result may be written."""
        view = array.view()
        view.flags.writeable = writeable
        self._array = view

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self._array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return tuple(self._array.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    @property
    def writeable(self) -> bool:
        """True for results."""
        return self._array.flags.writeable

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if dtype is not None and dtype != self.dtype:
            if copy is False:
                raise ValueError(f"an array of {dtype} needs a copy")
            return np.array(self._array, dtype)
        return np.array(self._array) if copy else self._array

    def __dlpack__(self, **wishes: Any) -> Any:
        return self._array.__dlpack__(**wishes)

    def __dlpack_device__(self) -> tuple[Any, Any]:
        return self._array.__dlpack_device__()
