"""Python functions that programs call: `jax.pure_callback`, `io_callback`, `debug.print`.

JAX lowers each to a custom call with the index of a function; jaxlib passes the functions with
every run, as user data of the FFI extension. Programs with such calls run in the caller's thread.
Source: jaxlib's `py_client_cpu.cc`.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import HostValue
from hloc.ops.custom_calls.custom_call_targets import (
    CustomCallTarget,
    FillFunction,
    TargetFunction,
    add_target,
    flat_arrays,
    nested_value,
)
from hloc.pjrt.abi import structure
from hloc.pjrt.native import PjrtError, words_at
from hloc.shapes import ArrayShape, Shape, TupleShape, array_leaves

TARGETS = ("xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback")

_INDEX = re.compile(r"\bindex\s*=\s*(\d{1,9})\b", re.ASCII)
_type_ids = itertools.count(1)
_thread = threading.local()


def add_targets() -> None:
    """Register the targets of these custom calls."""
    for name in TARGETS:
        add_target(name, CustomCallTarget("a Python function of JAX", has_index, _call))


@contextmanager
def functions_of(options: int) -> Iterator[None]:
    """A region in which programs of this thread call the functions of a `PJRT_ExecuteOptions`.

    A function may itself run such a program, so the previous functions are restored at the end.
    """
    before = getattr(_thread, "functions", []), getattr(_thread, "user_data", {})
    context = structure("PJRT_ExecuteOptions").from_address(options).context
    given = structure("PJRT_ExecuteContext").from_address(context) if context else None
    data = given.data if given else None
    _thread.functions = words_at(*words_at(data, 2)) if data else []
    _thread.user_data = {given.type_id: data} if given and data else {}
    try:
        yield
    finally:
        _thread.functions, _thread.user_data = before


def user_data() -> dict[int, int]:
    """Return the user data of the current run, by type id."""
    found: dict[int, int] = getattr(_thread, "user_data", {})
    return found


def has_index(inst: Instruction) -> bool:
    """True if a custom call has the index of its function."""
    return _INDEX.search(str(inst.common.backend_config)) is not None


def _call(inst: Instruction, operands: tuple[HostValue, ...]) -> HostValue:
    """Call the function on arrays, None for tokens; its results are checked by JAX.

    Raises:
        PjrtError: the function raised, with its traceback.
        HloError: JAX passed no function with this run.
    """
    arrays = [None if operand is None else _copy(operand) for operand in operands]
    results = called(function_of(inst), *arrays)
    if not isinstance(inst.shape, TupleShape):
        return _value(inst.shape, results[0])
    return tuple(_value(*pair) for pair in zip(inst.shape.elements, results, strict=False))


def function_of(inst: Instruction) -> Callable[..., Any]:
    """Return the function that a custom call of the current run calls.

    Raises:
        HloError: JAX passed none with this run.
    """
    index = _INDEX.search(str(inst.common.backend_config))
    functions = getattr(_thread, "functions", [])
    if index is None or int(index[1]) >= len(functions):
        raise HloError(f"{inst.name}: the Python function it calls is known to JAX only", inst.span)
    function: Callable[..., Any] = ctypes.cast(functions[int(index[1])], ctypes.py_object).value
    return function


def called(function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """Return the results of a function.

    Raises:
        PjrtError: it raised, with its traceback.
    """
    try:
        return tuple(function(*arguments))
    except Exception as fault:
        lines = "".join(traceback.format_exception(fault)).rstrip()
        raise PjrtError(
            "INTERNAL",
            f"CpuCallback error calling callback: {type(fault).__name__}: {fault}\n\nAt:\n{lines}",
        ) from fault


def _copy(operand: HostValue) -> HostValue:
    """Return a read-only copy, which the function may keep."""
    array = np.array(operand)
    array.flags.writeable = False
    return array


def with_new_results(fill: FillFunction) -> TargetFunction:
    """Return a target's function, given a function that writes its results in place."""

    def evaluate(inst: Instruction, operands: tuple[HostValue, ...]) -> HostValue:
        arrays = [array for operand in operands for array in flat_arrays(operand)]
        results = [np.zeros(s.dims, s.dtype.numpy) for s in array_leaves(inst.shape)]
        fill(inst)(arrays, results)
        return nested_value(inst.shape, iter(results))

    return evaluate


def _value(shape: Shape, result: Any) -> HostValue:
    """Return one result as an array, or None for a token."""
    if result is None or not isinstance(shape, ArrayShape):
        return None
    return np.asarray(result, shape.dtype.numpy)


# ---------------------------------------------------------------- functions of the FFI extension


def PJRT_FFI_Type_Register(args: Any) -> None:
    """Assign an id to a type of user data, unless it has one."""
    if not args.type_id:
        args.type_id = next(_type_ids)
