"""Trip counts of loops, where they can be computed at compile time.

First the pattern `i = init; i < limit; i += step`, in every direction and integer
type, wrap-around considered; else the evaluator runs the scalars that the condition depends on,
iteration by iteration. Cost: O(body) for the pattern, and up to `STEPS` times a short slice of the
body.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hloc.analysis.dataflow import Position
from hloc.analysis.leaf_source import leaf_source
from hloc.dtypes import DType
from hloc.evaluator import evaluate_computation
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, ShapeIndex

STEPS = 128
"""Maximum number of iterations that are evaluated."""
_MAX_SLICE = 64
"""Maximum number of instructions per evaluated iteration."""

_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}


@dataclass(frozen=True, slots=True)
class TripCount:
    """What is known of a loop.

    Attributes:
        count: the trip count.
        variable: leaf of the state that starts at `start` and grows by `step` each time, without
            wrapping around before the last iteration; None if the count was found by evaluation.
    """

    count: int
    variable: ShapeIndex | None = None
    start: int = 0
    step: int = 0

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value of the variable inside the body; `count` is not 0."""
        last = self.start + (self.count - 1) * self.step
        return min(self.start, last), max(self.start, last)

    def final(self, dtype: DType) -> int:
        """Value of the variable, of type `dtype`, after the loop."""
        low, _ = _range_of(dtype)
        return (self.start + self.count * self.step - low) % (1 << dtype.bits) + low


def trip_count(loop: Instruction) -> TripCount | None:
    """Return the trip count of while `loop`, None if it is not known."""
    return _by_pattern(loop) or _by_following(loop)


# ---------------------------------------------------------------- pattern


def _by_pattern(loop: Instruction) -> TripCount | None:
    condition = loop.called[0]
    compare, _ = _source(condition.root)
    if not compare.is_a("compare") or not all(_is_integer(o) for o in compare.operands):
        return None
    left, right = compare.operands
    direction = compare.attributes.direction
    for variable, limit, way in ((left, right, direction), (right, left, _MIRRORED[direction])):
        found = _counted(loop, variable, limit, way)
        if found is not None:
            return found
    return None


def _counted(
    loop: Instruction, variable: Instruction, limit: Instruction, direction: str
) -> TripCount | None:
    """Return the trip count if the loop runs while `variable direction limit`, None if unknown.

    The step is tried in both signs, since adding 2^bits - 1 is subtracting 1 by wrap-around.
    """
    condition, body = loop.called
    parameter, index = _source(variable)
    if not parameter.is_a("parameter") or parameter.computation is not condition:
        return None
    start = _known_init(loop, index)
    last = _known_scalar(loop, limit)
    step = _step(loop, body, index)
    if start is None or last is None or step is None:
        return None
    dtype = variable.array.dtype
    for signed_step in (step, step - (1 << dtype.bits) if step > 0 else step + (1 << dtype.bits)):
        count = steps_until(start, last, signed_step, direction, dtype)
        if count is not None:
            return TripCount(count, index, start, signed_step)
    return None


def steps_until(start: int, limit: int, step: int, direction: str, dtype: DType) -> int | None:
    """Return how often `i direction limit` holds for `i = start, start + step, ...`.

    None if it always holds, or if it is unknown because `i` wraps around past the limit.
    """
    if direction == "EQ":
        return 0 if start != limit else 1 if step % (1 << dtype.bits) else None
    if direction == "NE":
        if start == limit:
            return 0
        count, rest = divmod(limit - start, step) if step else (-1, 0)
        return count if count > 0 and not rest else None
    down = direction in ("GT", "GE")
    distance = (start - limit if down else limit - start) + (direction in ("LE", "GE"))
    toward = -step if down else step
    if distance <= 0:
        return 0
    if toward == 0:
        return None
    if toward < 0:
        return _steps_to_wrap(start, limit, step, direction, dtype)
    count = -(-distance // toward)
    return count if _fits(start + count * step, dtype) else None


def _steps_to_wrap(start: int, limit: int, step: int, direction: str, dtype: DType) -> int | None:
    """Return after how many steps away from the limit the comparison fails by wrapping around."""
    low, high = _range_of(dtype)
    room = high - start if step > 0 else start - low
    count = room // abs(step) + 1
    wrapped = start + count * step + (-(1 << dtype.bits) if step > 0 else 1 << dtype.bits)
    holds = {"LT": wrapped < limit, "LE": wrapped <= limit, "GT": wrapped > limit}
    return None if holds.get(direction, wrapped >= limit) else count


def _fits(value: int, dtype: DType) -> bool:
    low, high = _range_of(dtype)
    return low <= value <= high


def _range_of(dtype: DType) -> tuple[int, int]:
    half = 1 << (dtype.bits - 1)
    return (-half, half - 1) if dtype.is_signed else (0, 2 * half - 1)


def _is_integer(inst: Instruction) -> bool:
    shape = inst.shape
    return isinstance(shape, ArrayShape) and shape.is_scalar and shape.dtype.is_integer


def _step(loop: Instruction, body: Computation, index: ShapeIndex) -> int | None:
    """Return the constant that the body adds to leaf `index` of the state, None if it does not."""
    inst, rest = _source(body.root, index)
    if rest or not inst.is_a("add", "subtract") or not all(_is_integer(o) for o in inst.operands):
        return None
    left, right = inst.operands
    (parameter,) = body.parameters
    if _source(left) == (parameter, index):
        amount = _known_scalar(loop, right)
        return -amount if amount is not None and inst.is_a("subtract") else amount
    if inst.is_a("add") and _source(right) == (parameter, index):
        return _known_scalar(loop, left)
    return None


def _known_scalar(loop: Instruction, inst: Instruction) -> int | None:
    """Return the integer that `inst`, in condition or body, is in every iteration."""
    source, index = _source(inst)
    if source.is_a("parameter"):
        body = loop.called[1]
        (parameter,) = body.parameters
        invariant = _source(body.root, index) == (parameter, index)
        return _known_init(loop, index) if invariant else None
    return _constant_integer(source) if not index else None


def _known_init(loop: Instruction, index: ShapeIndex) -> int | None:
    source, rest = _source(loop.operands[0], index)
    return _constant_integer(source) if not rest else None


def _source(inst: Instruction, index: ShapeIndex = ()) -> Position:
    """Return the position that defines part `index`, looking through tuples and into fusions."""
    while True:
        inst, index = leaf_source(inst, index)
        if inst.is_a("fusion"):
            inst = inst.called[0].root
            continue
        callers = list(inst.computation.callers)
        if not inst.is_a("parameter") or len(callers) != 1 or not callers[0].is_a("fusion"):
            return inst, index
        inst = callers[0].operands[inst.attributes.number]


def _constant_integer(inst: Instruction) -> int | None:
    if not inst.is_a("constant") or not _is_integer(inst) or inst.attributes.literal.is_elided:
        return None
    return int(inst.attributes.literal.array)


# ---------------------------------------------------------------- evaluation


def _by_following(loop: Instruction) -> TripCount | None:
    """Evaluate what the condition depends on, for at most `STEPS` iterations."""
    condition, body = loop.called
    (parameter,) = body.parameters
    test = _slice(condition.root)
    if test is None:
        return None
    needed = list(dict.fromkeys(_leaves_read(test)))
    steps: dict[ShapeIndex, tuple[Instruction, list[Instruction]]] = {}
    for index in needed:  # grows on the way
        root, rest = leaf_source(body.root, index)
        computed = _slice(root) if not rest or root is parameter else None
        if root is parameter:
            computed = []
            needed += [rest] if rest not in needed else []
        if computed is None or len(computed) > _MAX_SLICE or len(needed) > _MAX_SLICE:
            return None
        steps[index] = (root, computed)
        needed += [i for i in dict.fromkeys(_leaves_read(computed)) if i not in needed]
    state: dict[ShapeIndex, Any] = {}
    for index in needed:
        source, rest = leaf_source(loop.operands[0], index)
        if rest or not source.is_a("constant") or source.attributes.literal.is_elided:
            return None
        if not _is_followed(source):
            return None
        state[index] = source.attributes.literal.array
    return _follow(condition.root, test, body, steps, state)


def _follow(
    condition: Instruction,
    test: list[Instruction],
    body: Computation,
    steps: dict[ShapeIndex, tuple[Instruction, list[Instruction]]],
    state: dict[ShapeIndex, Any],
) -> TripCount | None:
    """Run the scalars that the condition reads, for at most `STEPS` iterations.

    `steps` has the value of each leaf after an iteration, and the instructions to compute it from
    `state`.
    """
    for count in range(STEPS + 1):
        if not bool(_evaluated(condition, test, state)):
            return TripCount(count)
        after = {}
        for index, (root, computed) in steps.items():
            if root.is_a("parameter"):
                after[index] = state[leaf_source(body.root, index)[1]]
            else:
                after[index] = _evaluated(root, computed, state)
        if all(after[index].tobytes() == state[index].tobytes() for index in state):
            return None  # the state has stopped changing: the loop never ends
        state = after
    return None


def _slice(root: Instruction) -> list[Instruction] | None:
    """Return the scalar instructions that `root` needs, operands first, None if others do."""
    source, rest = leaf_source(root)
    if rest and not source.is_a("parameter"):
        return None
    found: dict[Instruction, bool] = {}
    stack = [root]
    while stack:
        inst = stack.pop()
        if inst in found:
            continue
        if not _is_followed(inst) or len(found) > _MAX_SLICE:
            return None
        found[inst] = True
        source, rest = leaf_source(inst)
        if source is inst:
            stack.extend(inst.operands)
        elif not rest:
            stack.append(source)
        elif not source.is_a("parameter"):
            return None
    return [inst for inst in post_order_from([root]) if inst in found]


def _is_followed(inst: Instruction) -> bool:
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or not shape.is_scalar or inst.control_predecessors:
        return False
    if inst.is_a("constant"):
        return not inst.attributes.literal.is_elided
    if inst.is_a("get-tuple-element", "parameter"):
        return True
    if not inst.opcode.elementwise or inst.opcode.evaluate is None:
        return False
    kinds = [shape.dtype, *(o.array.dtype for o in inst.operands)]
    if any(not (d.is_integer or d.is_pred or (d.is_float and d.bits >= 32)) for d in kinds):
        return False
    if not any(d.is_float for d in kinds):
        return True
    return not inst.opcode.transcendental or inst.is_a("sqrt")  # the same result everywhere


def _leaves_read(insts: list[Instruction]) -> Iterator[ShapeIndex]:
    for inst in insts:
        source, index = leaf_source(inst)
        if source.is_a("parameter"):
            yield index


def _evaluated(
    root: Instruction, insts: list[Instruction], state: dict[ShapeIndex, Any]
) -> np.ndarray[Any, Any]:
    """Return the value of `root` by the evaluator; `insts` are what it needs, operands first."""
    values: dict[Instruction, Any] = {}
    with np.errstate(all="ignore"):
        for inst in insts:
            source, index = leaf_source(inst)
            if source.is_a("parameter"):
                values[inst] = state[index]
            elif source is not inst:
                values[inst] = values[source]
            elif inst.is_a("constant"):
                values[inst] = inst.attributes.literal.array
            else:
                assert inst.opcode.evaluate is not None
                operands = tuple(values[o] for o in inst.operands)
                values[inst] = inst.opcode.evaluate(inst, operands, evaluate_computation)
    return np.asarray(values[root])
