"""Sort the dimensions of broadcasts."""

from __future__ import annotations

from hloc.ir.module import Module
from hloc.opt.make import make
from hloc.opt.movement.walk import candidates
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape


class BroadcastCanonicalizer(RewritingPass):
    """Transpose the operand of a broadcast whose dimensions are not sorted.

    The operand is the smaller array, and the transpose may cancel with others. Not
    part of -O2: the kernels of broadcasts take dimensions in any order. Cost: O(instructions).
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Rewrite every broadcast that permutes."""
        for inst in candidates(module, context, "broadcast"):
            dims = inst.attributes.dimensions
            order = sorted(range(len(dims)), key=lambda i: dims[i])
            if order == list(range(len(dims))):
                continue
            computation, (source,) = inst.computation, inst.operands
            with context.rewriting(module, self.name):
                sizes = tuple(source.array.dims[i] for i in order)
                shape = ArrayShape(source.array.dtype, sizes)
                turned = make(computation, "transpose", shape, source, dimensions=tuple(order))
                new = make(
                    computation, "broadcast", inst.shape, turned, dimensions=tuple(sorted(dims))
                )
                computation.replace(inst, new)
