"""The verifier: invariants of a module between passes.

`verify` checks in stages: calls between computations, the graph of each computation, each
instruction, constraints across instructions, the header. A stage runs only if the previous one
found no fault. Rules: XLA's `hlo_verifier.cc`; shapes by the rows' `infer`. Time is linear in the
size of the module.
"""

from __future__ import annotations

from hloc.errors import Diagnostic, HloError
from hloc.ir.module import Module
from hloc.ir.verifier.graph import check_call_graph, check_graph
from hloc.ir.verifier.header import check_header
from hloc.ir.verifier.instruction import InstructionChecks
from hloc.ir.verifier.structure import check_structure

_MOST_DIAGNOSTICS = 100


def verify(module: Module) -> None:
    """Raise `HloError` with every fault found in `module`."""
    found = check(module)
    if found:
        raise HloError(found[:_MOST_DIAGNOSTICS])


def check(module: Module) -> list[Diagnostic]:
    """Return a diagnostic for every fault of `module`, in text order."""
    found = list(check_call_graph(module))
    if found:
        return found
    instructions = InstructionChecks()
    for computation in module.computations:
        broken = check_graph(computation)
        found += broken
        if broken:
            continue
        faults = instructions.check(computation.instructions)
        found += faults or check_structure(computation)
    return found or list(check_header(module))
