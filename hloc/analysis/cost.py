"""The cost of instructions: floating-point operations, transcendental functions, bytes.

Costs do not depend on a machine: a dot is 2*M*N*K operations whatever its algorithm. A
loop body counts once, since trip counts are not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log2, prod

from hloc.analysis.cumulative import plain_scan
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, Shape, TupleShape


@dataclass(frozen=True, slots=True)
class Cost:
    """Counts that can be added; bytes are those of operands and results in memory."""

    flops: int = 0
    transcendentals: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )

    def times(self, count: int) -> Cost:
        """Return the cost of `count` runs."""
        return Cost(
            self.flops * count,
            self.transcendentals * count,
            self.bytes_read * count,
            self.bytes_written * count,
        )

    def without_bytes(self) -> Cost:
        """Return the arithmetic alone."""
        return Cost(self.flops, self.transcendentals)


_NO_COST = Cost()

CostOf = Callable[[Computation], Cost]


def module_cost(module: Module) -> Cost:
    """Return the cost of one run of the entry computation, loop bodies counted once."""
    return costs_of(live_computations(module))[module.entry]


def costs_of(computations: Iterable[Computation]) -> dict[Computation, Cost]:
    """Return the cost of each of `computations`, which are given callees first."""
    done: dict[Computation, Cost] = {}
    for computation in computations:
        done[computation] = computation_cost(computation, done.__getitem__)
    return done


def computation_cost(computation: Computation, called: CostOf) -> Cost:
    """Return the sum over the instructions; `called` gives the cost of called computations."""
    costs = [instruction_cost(inst, called) for inst in computation.instructions]
    return Cost(
        sum([cost.flops for cost in costs]),
        sum([cost.transcendentals for cost in costs]),
        sum([cost.bytes_read for cost in costs]),
        sum([cost.bytes_written for cost in costs]),
    )


def instruction_cost(inst: Instruction, called: CostOf) -> Cost:
    """Return the cost of one instruction, including what it calls."""
    name = inst.opcode.name
    if inst.opcode.nop or inst.opcode.forwards or name == "bitcast":
        return _NO_COST
    bodies = [called(computation) for computation in inst.called]
    if name == "conditional":
        return max(bodies, key=lambda cost: cost.flops + cost.bytes, default=Cost())
    if inst.opcode.control_flow:
        return sum(bodies, Cost())
    arithmetic = _arithmetic(inst, bodies)
    read = sum(operand.shape.size_bytes for operand in dict.fromkeys(inst.operands))
    written = inst.shape.size_bytes
    if inst.opcode.data_movement:
        read = min(read, written + sum(o.shape.size_bytes for o in inst.operands[1:]))
    elif name == "dynamic-update-slice":
        read = written = inst.operands[1].shape.size_bytes
    return Cost(arithmetic.flops, arithmetic.transcendentals, read, written)


def _arithmetic(inst: Instruction, bodies: list[Cost]) -> Cost:
    """Return the operations of `inst`, without bytes; `bodies` are the costs of what it calls.

    A called computation counts once per element that it is applied to: a reduction of n elements
    to one is n of its reducer, the combination with the initial value included.
    """
    name, elements = inst.opcode.name, elements_of(inst.shape)
    body = bodies[0].without_bytes() if bodies else Cost()
    if inst.opcode.transcendental:
        return Cost(0, elements)
    if inst.opcode.elementwise:
        return Cost(inst.opcode.flops * elements)
    if name == "fusion":
        return body
    if name == "dot":
        dims = inst.operands[0].array.dims
        contracted = prod(dims[dim] for dim in inst.attributes.lhs_contracting_dims)
        return Cost(2 * elements * contracted)
    if name == "convolution":
        return Cost(2 * elements * _convolution_depth(inst))
    if name == "map":
        return body.times(elements)
    if name in ("reduce", "scan"):
        return body.times(elements_of(inst.operands[0].shape))
    if name == "reduce-window":
        if plain_scan(inst) is not None:
            return body.times(elements_of(inst.operands[0].shape))
        dims = () if inst.attributes.window is None else inst.attributes.window.dimensions
        window = prod(dim.size for dim in dims)
        return body.times(elements_of(inst.shape) * window)
    if name == "scatter":
        return body.times(elements_of(inst.operands[-1].shape))
    if name == "sort":
        return body.times(_comparisons(inst))
    if name == "fft":
        return Cost(_butterflies(inst))
    return Cost(inst.opcode.flops * elements)


def elements_of(shape: Shape) -> int:
    """Return the number of elements of an array, or of the first array of a tuple."""
    if isinstance(shape, ArrayShape):
        return shape.elements
    while isinstance(shape, TupleShape):
        if not shape.elements:
            return 0
        shape = shape.elements[0]
    return shape.elements if isinstance(shape, ArrayShape) else shape.array.elements


def _convolution_depth(inst: Instruction) -> int:
    """Return how many products are summed per element of a convolution, padding included."""
    kernel, labels = inst.operands[1].array, inst.attributes.dim_labels
    if labels is None or not kernel.elements:
        return 0
    return int(kernel.elements // kernel.dims[labels.kernel_output_feature])


def _butterflies(inst: Instruction) -> int:
    """Return 5 n log2 n for each transform of n complex elements, of real ones half of that.

    That is the radix-2 algorithm of Cooley and Tukey, the usual measure.
    """
    arrays = inst.array, inst.operands[0].array
    elements = min(array.elements for array in arrays if array.dtype.is_complex)
    return round(5 * elements * log2(max(prod(inst.attributes.fft_length), 1)))


def _comparisons(inst: Instruction) -> int:
    shape = inst.operands[0].array
    (dim,) = inst.attributes.dimensions
    return int(shape.elements * log2(max(shape.dims[dim], 2)))
