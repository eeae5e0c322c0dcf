"""Find the equal layers of a model, as parts of a computation that repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterator, Sequence
from itertools import count

from hloc.analysis.call_graph import effectful_computations, has_side_effect
from hloc.analysis.epilogue import PRODUCTS
from hloc.analysis.repeats import Run
from hloc.analysis.structures import Structures
from hloc.ir.attributes import CommonAttributes
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import live_order, post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.fusible import EXPENSIVE, Role, role_of, weight_of
from hloc.shapes import ArrayShape

LAYER = CommonAttributes(frontend_attributes=(("layer", '"true"'),))
"""Attributes of a call of a layer."""

_MOST_STEPS, _MOST_CONSTANT_STEPS = 8, 16
"""Instructions that compute a value again, at most; a causal mask takes about ten."""

_MOST_ELEMENTS = 16
"""Elements of a constant that layers may have each for themselves."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of a computation that reads its operands only.

    Attributes:
        borrowed: outside instructions that it computes again, operands first: constants, and
            cheap functions of its operands.
        members: its instructions, operands first.
        operands: what else it reads, in the order of `borrowed` and `members`.
        form: equal for layers that compute the same functions of their operands.
    """

    borrowed: tuple[Instruction, ...]
    members: tuple[Instruction, ...]
    operands: tuple[Instruction, ...]
    form: tuple[Hashable, ...]

    @staticmethod
    def of(part: Sequence[Instruction], structures: Structures, cheap: Cheap) -> Layer:
        """Return the layer of the instructions `part`, without parameters among them."""
        members = [inst for inst in part if inst.opcode.name != "parameter"]
        outside = dict.fromkeys(o for member in members for o in member.operands)
        for member in members:
            outside.pop(member, None)
        read = [inst for inst in outside if not cheap.is_function_of(outside, inst)]
        borrowed = post_order_from([inst for inst in outside if inst not in read], without=read)
        numbers: dict[Instruction, int] = {}
        operands: dict[Instruction, int] = {}
        form: list[Hashable] = [structures.kind(inst) for inst in borrowed]
        for inst in (*borrowed, *members):
            for operand in inst.operands:
                number = numbers.get(operand)
                if number is None:
                    number = operands.setdefault(operand, ~len(operands))
                form.append(number)
            numbers[inst] = len(numbers)
        form += [operand.shape for operand in operands]
        return Layer(tuple(borrowed), tuple(members), tuple(operands), tuple(form))

    def read_outside(self) -> Iterator[int]:
        """Yield the numbers of the members that others read."""
        inside = set(self.members)
        for number, member in enumerate(self.members):
            if not inside.issuperset(member.users):
                yield number


class Cheap:
    """Which instructions of a computation are cheap to compute again."""

    def __init__(self, order: Sequence[Instruction]) -> None:
        """Look for those that need only constants; `order` has operands before users."""
        self._constants: dict[Instruction, int] = {}
        for inst in order:
            if self._constants.keys() >= set(inst.operands) and _is_cheap(inst):
                steps = 1 + sum(self._constants[operand] for operand in inst.operands)
                if steps <= _MOST_CONSTANT_STEPS:
                    self._constants[inst] = steps

    def is_function_of(self, known: Container[Instruction], inst: Instruction) -> bool:
        """True if a few cheap instructions compute `inst` from constants and the values `known`."""
        needed = [inst]
        for part in needed:
            if len(needed) > _MOST_STEPS or not _is_cheap(part):
                return False
            needed += [o for o in part.operands if o not in known and o not in self._constants]
        return True


def _is_cheap(inst: Instruction) -> bool:
    if inst.is_a("constant"):
        return isinstance(inst.shape, ArrayShape) and inst.shape.elements <= _MOST_ELEMENTS
    if inst.is_a("parameter") or weight_of(inst) >= EXPENSIVE:
        return False
    return role_of(inst) in (Role.LOOP, Role.VIEW)


def equal_layers(
    order: Sequence[Instruction],
    runs: Sequence[Run],
    structures: Structures,
    cheap: Cheap,
    least: int,
) -> Iterator[list[Layer]]:
    """Yield groups of equal layers, those that read others' results first.

    The layers of a group may be replaced before the next one is asked for.

    Args:
        order: instructions of a computation, operands before users.
        runs: what repeats in `order`.
        structures: of its module.
        cheap: of `order`.
        least: smallest number of layers in a group.
    """
    for run in reversed(runs):
        start = run.start + _best_cut(order, run)
        starts = range(start, run.end - run.period + 1, run.period)
        layers = [Layer.of(order[i : i + run.period], structures, cheap) for i in starts]
        for form, number in Counter(layer.form for layer in layers).most_common(1):
            if number >= least:
                yield [layer for layer in layers if layer.form == form]


def shallow_results_first(computation: Computation) -> list[Instruction]:
    """Return the live instructions, operands before users, each near its first user.

    Results are in the order of their depth: the gradients of the last layer come first, so
    what belongs to one layer stands together.
    """
    depth: dict[Instruction, int] = {}
    for inst in live_order(computation):
        depth[inst] = 1 + max([depth[operand] for operand in inst.operands], default=0)
    root = computation.root
    return post_order_from([*sorted(dict.fromkeys(root.operands), key=depth.__getitem__), root])


def part_numbers(order: Sequence[Instruction], structures: Structures) -> list[int]:
    """Return a number for each instruction, equal where two may be the same part of a layer."""
    effectful = effectful_computations(order[0].computation.module)
    pinned = order[0].computation.awaited
    known: dict[Hashable, int] = {}
    unique = count(-1, -1)
    numbers: list[int] = []
    for inst in order:
        if inst.opcode.name == "parameter":
            numbers.append(known.setdefault(inst.shape, len(known)))
        elif inst in pinned or has_side_effect(inst, effectful) or not _may_move(inst):
            numbers.append(next(unique))
        else:
            numbers.append(known.setdefault(structures.kind(inst), len(known)))
    return numbers


def _may_move(inst: Instruction) -> bool:
    """True if `inst` may be an instruction of another computation."""
    row, common = inst.opcode, inst.common
    tied = row.ended_by or row.name == "after-all"
    marked = common.sharding is not None or common.frontend_attributes
    return not (tied or marked or inst.is_root or inst.control_predecessors)


def _best_cut(order: Sequence[Instruction], run: Run) -> int:
    """Return how far after the start of `run` a layer begins.

    Fusion joins no kernels of two layers, so a layer begins where the fewest values cross from one
    to the next. Results of products do not count: they are stored anyway.
    """
    period = run.period
    begin = run.start + ((run.end - run.start) // period - 2) // 2 * period
    places = {inst: place for place, inst in enumerate(order[begin : begin + 2 * period])}
    changes = [0] * (2 * period + 1)
    for inst in order[begin : begin + period]:
        place = places[inst]
        last = max([places.get(user, place) for user in inst.users], default=place)
        if last - place < period and not inst.is_a(*PRODUCTS, "parameter"):
            changes[place + 1] += 1
            changes[last + 1] -= 1
    crossing, cost = 0, [0] * period
    for place, change in enumerate(changes):
        crossing += change
        cost[place % period] += crossing
    return min(range(period), key=cost.__getitem__)
