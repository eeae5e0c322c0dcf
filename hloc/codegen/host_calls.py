"""Functions of the host process that generated code calls for a `custom-call`.

Which target does what stands in `hloc/ops/custom_call_targets.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hloc.ir.instruction import Instruction
from hloc.ops.custom_call_targets import flat_arrays, nested_value, target_of


@dataclass(frozen=True, slots=True, eq=False)
class HostFunction:
    """One instruction that the host runs, and the function it runs.

    Attributes:
        function: takes one array per operand leaf, returns one per result leaf.
    """

    inst: Instruction
    function: Callable[..., list[Any]]


def host_function(inst: Instruction) -> HostFunction | None:
    """Return what the host runs for a custom call, None if nothing is registered or known."""
    known = target_of(inst)
    if known is None:
        return None
    evaluate = known.evaluate

    def function(*arrays: Any) -> list[Any]:
        rest = iter(arrays)
        operands = tuple(nested_value(operand.shape, rest) for operand in inst.operands)
        return list(flat_arrays(evaluate(inst, operands)))

    return HostFunction(inst, function)
