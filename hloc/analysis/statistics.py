"""Statistics of a module: counts and costs, in several groupings.

Costs are those of `cost`, times how often calls and reductions run the computation of
an instruction as far as that is known; a loop counts as one iteration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import field

from hloc.analysis.cost import Cost, costs_of, instruction_cost
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.origin import origin_of
from hloc.ir.traversal import reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, BufferShape, leaves

LARGEST = 10
"""Number of arrays listed by size."""

NO_SCOPE = "(none)"

_SCOPE_LEVELS = 3
"""Levels of an op_name that name a scope."""


@dataclass(slots=True)
class Group:
    """Instructions of one opcode, type, scope or source line: their number and cost."""

    instructions: int = 0
    cost: Cost = field(default_factory=Cost)

    def add(self, cost: Cost) -> None:
        """Count one instruction more."""
        self.instructions += 1
        self.cost += cost


@dataclass(frozen=True, slots=True)
class ComputationStatistics:
    """A computation: its size, the cost of one run, and who calls it.

    Attributes:
        callers: instructions that call it.
        in_loop: True if a loop runs it, so that its costs are those of one iteration.
    """

    name: str
    instructions: int
    cost: Cost
    callers: int
    is_entry: bool
    in_loop: bool


@dataclass(frozen=True, slots=True)
class ArrayStatistics:
    """An array and the instruction that defines it."""

    name: str
    opcode: str
    shape: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ModuleStatistics:
    """What `hloc stats` prints.

    Attributes:
        cost: of one run of the entry, every loop counted as one iteration.
        loops: number of `while` instructions that run.
        constants: number of constants; `constant_bytes` is their total size.
        elided: number of constants whose values the text omits.
        opcodes, dtypes, scopes, sources: by name, most frequent first; a source is a line of the
            program that the module was compiled from.
        largest: the largest arrays, one per instruction.
    """

    name: str
    instructions: int
    cost: Cost
    loops: int
    parameters: int
    parameter_bytes: int
    result_bytes: int
    constants: int
    constant_bytes: int
    elided: int
    opcodes: dict[str, Group]
    dtypes: dict[str, Group]
    scopes: dict[str, Group]
    sources: dict[str, Group]
    computations: tuple[ComputationStatistics, ...]
    largest: tuple[ArrayStatistics, ...]

    @property
    def intensity(self) -> float:
        """Operations per byte read or written, 0 if nothing moves."""
        return self.cost.flops / self.cost.bytes if self.cost.bytes else 0.0


def module_statistics(module: Module) -> ModuleStatistics:
    """Return the statistics of all of `module`, dead computations included."""
    order = reachable_computations(*module.computations)
    costs = costs_of(order)
    everything = [inst for computation in order for inst in computation.instructions]
    constants = [inst for inst in everything if inst.opcode.name == "constant"]
    own = _own_costs(module, order, costs)
    entry = module.entry
    return ModuleStatistics(
        module.name,
        len(everything),
        costs[entry],
        sum(inst.opcode.name == "while" for inst in everything),
        len(entry.parameters),
        sum(p.shape.size_bytes for p in entry.parameters),
        entry.root.shape.size_bytes,
        len(constants),
        sum(inst.shape.size_bytes for inst in constants),
        sum(inst.attributes.literal.is_elided for inst in constants),
        _grouped(everything, own, lambda inst: (inst.opcode.name,)),
        _grouped(everything, own, _dtypes_of),
        _grouped(everything, own, lambda inst: (_scope_of(inst),)),
        _grouped(everything, own, lambda inst: (origin_of(inst) or NO_SCOPE,)),
        tuple(_computations(module, order, costs)),
        tuple(_largest(everything)),
    )


def _scope_of(inst: Instruction) -> str:
    """Return the first levels of the op_name: `jit(f)/loss/dot_general` of `.../transpose`."""
    return "/".join(inst.op_name.split("/")[:_SCOPE_LEVELS]) or NO_SCOPE


def _own_costs(
    module: Module, order: list[Computation], costs: dict[Computation, Cost]
) -> dict[Instruction, Cost]:
    """Return the cost of each instruction in one run of the entry; no cost is counted twice.

    A loop, call or branch costs nothing itself: its instructions do. A fusion, a
    reduction and the like have the whole cost, and their instructions none.
    """
    runs = _runs(module, order)
    own: dict[Instruction, Cost] = {}
    for computation in order:
        for inst in computation.instructions:
            times = runs.get(computation, 0)
            inside = inst.opcode.control_flow
            cost = Cost() if inside or not times else instruction_cost(inst, costs.__getitem__)
            own[inst] = cost.times(times)
    return own


def _runs(module: Module, order: list[Computation]) -> dict[Computation, int]:
    """Return how often each computation runs as control flow; a branch counts as taken."""
    runs: dict[Computation, int] = defaultdict(int)
    runs[module.entry] = 1
    for computation in reversed(order):
        for inst in computation.instructions if runs[computation] else ():
            if inst.opcode.control_flow:
                for called in inst.called:
                    runs[called] += runs[computation]
    return runs


def _grouped(
    instructions: list[Instruction],
    own: dict[Instruction, Cost],
    keys: Callable[[Instruction], tuple[str, ...]],
) -> dict[str, Group]:
    groups: dict[str, Group] = defaultdict(Group)
    for inst in instructions:
        for key in keys(inst):
            groups[key].add(own[inst])
    order = sorted(groups.items(), key=lambda entry: (-entry[1].instructions, entry[0]))
    return dict(order)


def _dtypes_of(inst: Instruction) -> tuple[str, ...]:
    """Return the element types of the result, each once."""
    return tuple(dict.fromkeys(str(shape.dtype) for shape in _arrays(inst)))


def _arrays(inst: Instruction) -> Iterator[ArrayShape]:
    for _, leaf in leaves(inst.shape):
        yield leaf.array if isinstance(leaf, BufferShape) else leaf


def _computations(
    module: Module, order: list[Computation], costs: dict[Computation, Cost]
) -> Iterator[ComputationStatistics]:
    """Yield the entry first, callers before what they call; with whether a loop runs it."""
    looped = {
        called
        for computation in order
        for inst in computation.instructions
        if inst.opcode.name == "while"
        for called in reachable_computations(*inst.called)
    }
    for computation in reversed(order):
        yield ComputationStatistics(
            computation.name,
            len(computation),
            costs[computation],
            len(computation.callers),
            computation is module.entry,
            computation in looped,
        )


def _makes_arrays(inst: Instruction) -> bool:
    """False if `inst` only forwards arrays."""
    is_source = inst.is_a("parameter", "constant")
    return is_source or (inst.opcode.has_kernel and not inst.is_a("bitcast"))


def _largest(instructions: list[Instruction]) -> Iterator[ArrayStatistics]:
    """Yield the largest arrays that an instruction defines; views and tuples define none."""
    found = [
        (max((a.size_bytes for a in _arrays(inst)), default=0), inst)
        for inst in instructions
        if _makes_arrays(inst) and not inst.computation.is_fusion
    ]
    found.sort(key=lambda pair: -pair[0])
    for size_bytes, inst in found[:LARGEST]:
        shape = max(_arrays(inst), key=lambda a: a.size_bytes, default=None)
        text = shape.text_without_layout if shape else inst.shape.text_without_layout
        yield ArrayStatistics(inst.name, inst.opcode.name, text, size_bytes)
