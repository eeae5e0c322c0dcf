"""The evaluator: runs a module with NumPy, one instruction after another, as HLO defines it.

It shares nothing with code generation and runs unoptimised modules, so it is the oracle for passes
and kernels. The semantics of every opcode are in its row (`hloc/ops/`).
"""

from hloc.evaluator.devices import evaluate_devices
from hloc.evaluator.run import (
    MAX_NESTING,
    evaluate_computation,
    evaluate_module,
)

__all__ = [
    "MAX_NESTING",
    "evaluate_computation",
    "evaluate_devices",
    "evaluate_module",
]
