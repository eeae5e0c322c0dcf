"""Functions of the host process that generated code calls for a `custom-call`.

`hloc/ops/custom_calls/custom_call_targets.py` lists the targets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.custom_calls import blas
from hloc.ops.custom_calls.custom_call_targets import flat_arrays, nested_value, target_of
from hloc.scipy_routines import routine_address
from hloc.shapes import data_leaves


@dataclass(frozen=True, slots=True, eq=False)
class HostFunction:
    """One instruction that the host runs, and the function it runs.

    Attributes:
        function: takes one array per operand leaf, returns one per result leaf.
        fills: the function takes the result arrays as well, and writes them.
        address: of a function of a library that the kernel of `inst` calls itself; else 0.
    """

    inst: Instruction
    function: Callable[..., Any]
    fills: bool = False
    address: int = 0


def library_function(inst: Instruction, name: str) -> HostFunction:
    """Return a LAPACK routine, which the kernel of `inst` calls without Python.

    Raises:
        UnsupportedError: SciPy is not installed.
    """
    return HostFunction(inst, _not_called, address=routine_address("lapack", name))


def _not_called(*_arrays: Any) -> None:
    raise AssertionError("the kernel calls the library itself")


def host_function(inst: Instruction) -> HostFunction | None:
    """Return the host function of a custom call, None if its target has none."""
    known = target_of(inst)
    if known is None:
        return None
    if blas.blas_gemm(inst) is not None:
        return HostFunction(inst, partial(blas.multiply_into, inst), fills=True)
    evaluate, fill = known.evaluate, known.fill
    if fill is not None:
        count = sum(len(data_leaves(operand.shape)) for operand in inst.operands)

        write = fill(inst)

        def filling(*arrays: Any) -> None:
            write(arrays[:count], arrays[count:])

        return HostFunction(inst, filling, fills=True)

    def function(*arrays: Any) -> list[Any]:
        rest = iter(arrays)
        operands = tuple(nested_value(operand.shape, rest) for operand in inst.operands)
        return list(flat_arrays(evaluate(inst, operands)))

    return HostFunction(inst, function)
