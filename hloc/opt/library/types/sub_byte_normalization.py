"""Element width of sub-byte types in layouts."""

from __future__ import annotations

from dataclasses import replace

from hloc.ir.attributes import EntryLayout
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape, BufferShape, Shape, TupleShape, row_major


@dataclass(frozen=True)
class SubByteNormalization(RewritingPass):
    """Write the width of elements below a byte into their layouts, or take it out.

    `s4[8]{0:E(4)}` is packed, two elements to a byte; `s4[8]{0}` takes a byte each. The default
    takes E(n) out of every layout; `packed` writes it into those of 2 and 4 bits. Values are the
    same; hloc keeps such elements in a byte each either way. Cost: O(instructions). Not in -O2: it
    only changes the printed layouts. Source: XLA's pass of this name.
    """

    packed: bool = False

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Normalise every shape and the entry layout."""
        if context.spent:
            return
        for computation in live_computations(module):
            for inst in computation.instructions:
                shape = self._normalised(inst.shape)
                if shape != inst.shape:
                    context.at = inst
                    with context.rewriting(module, self.name):
                        computation.set_shape(inst, shape)
        layout = module.config.entry_layout
        if layout is not None:
            parameters = tuple(self._normalised(shape) for shape in layout.parameters)
            new = EntryLayout(parameters, self._normalised(layout.result))
            if new != layout:
                with context.rewriting(module, self.name):
                    module.set_config(replace(module.config, entry_layout=new))

    def _normalised(self, shape: Shape) -> Shape:
        if isinstance(shape, TupleShape):
            return TupleShape(tuple(self._normalised(element) for element in shape.elements))
        if isinstance(shape, BufferShape):
            found = self._normalised(shape.array)
            assert isinstance(found, ArrayShape)
            return BufferShape(found)
        bits = shape.dtype.bits if self.packed and shape.dtype.bits in (2, 4) else 0
        layout = shape.layout or row_major(shape.rank)
        return shape.with_layout(replace(layout, element_bits=bits))
