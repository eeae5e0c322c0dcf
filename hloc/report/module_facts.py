"""Facts of a module for the report of a run; a second run finds them in the cache."""

from __future__ import annotations

from hloc import driver
from hloc.ir.module import Module
from hloc.quantities import count_text
from hloc.report.index_ranges import index_limits
from hloc.report.input_specs import parameters_of
from hloc.report.inputs import parameter_leaves, result_leaves
from hloc.report.run_facts import RunFacts, shape_texts
from hloc.report.text import plural


def facts_of(module: Module) -> RunFacts:
    """Return the facts of `module` for the report of a run."""
    flops = driver.flops_of(module)
    return RunFacts(
        headline(module, flops),
        flops,
        shape_texts(parameter_leaves(module)),
        shape_texts(result_leaves(module)),
        tuple(parameter.names[0] for parameter in parameters_of(module)),
        index_limits(module),
    )


def headline(module: Module, flops: int) -> str:
    """Return `module jit_f  38 instructions / 4 computations   71.7 kFLOP`."""
    return (
        f"module {module.name}"
        f"  {plural(module.instruction_count, 'instruction')}"
        f" / {plural(len(module.computations), 'computation')}"
        + (f"   {count_text(flops, 'FLOP')}" if flops else "")
    )
