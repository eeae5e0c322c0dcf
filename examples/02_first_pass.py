"""A pass of your own: x + (-y) becomes x - y. Written, run in a pipeline, checked, explained.

python examples/02_first_pass.py
hloc FILE --plugin examples/02_first_pass.py --passes=subtraction-finder,dce
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

import hloc
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.opt.dce import DeadCodeElimination
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.opt.registry import register_pass

MODULE = Path(__file__).with_name("modules") / "difference.hlo"


@register_pass
@dataclass(frozen=True)
class SubtractionFinder:
    """Write `add(x, negate(y))` as `subtract(x, y)`.

    Exact for floats too: IEEE 754 defines x - y as x + (-y).
    """

    name: ClassVar[str] = "subtraction-finder"

    def run(self, module: Module, context: PassContext) -> bool:
        """Replace every such add; True if there was one."""
        before = context.rewrites
        for inst in list(all_instructions(module)):
            y = negated_summand(inst)
            if y is None or context.spent:
                continue
            with context.rewriting(module, self.name):
                computation = inst.computation
                new = make(computation, "subtract", inst.shape, inst.operands[0], y)
                computation.replace(inst, new)
        return context.rewrites > before


def negated_summand(inst: Instruction) -> Instruction | None:
    """Return y if `inst` is `add(x, negate(y))`, else None."""
    if inst.opcode.name != "add" or inst.operands[1].opcode.name != "negate":
        return None
    return inst.operands[1].operands[0]


def main() -> None:
    """Run the pass, show what it did, and check the answer."""
    module = hloc.load(str(MODULE))
    before = hloc.load(str(MODULE))

    # The pipeline checks that `run` told the truth about having changed something.
    pipeline = Pipeline((SubtractionFinder(), DeadCodeElimination()), check_changed=True)
    for run in pipeline.steps(module):
        print(f"{run.what.name}: {run.rewrites} rewrites, {run.before} -> {run.after} instructions")
    print(module)

    # Every change is in the log, with the pass that made it.
    for event in module.log.events:
        print(f"{event.by:20s} {event}"[:100])

    x, y = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    (got,), (want,) = hloc.evaluate(module, x, y), hloc.evaluate(before, x, y)
    assert np.array_equal(got, want)
    print("same answer:", got)


if __name__ == "__main__":
    main()
