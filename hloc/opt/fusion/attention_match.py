"""Match attention: a dot, a softmax over one of its dimensions, a second dot.

    scores = dot(queries, keys)
    logits = scores scaled, masked, converted ...
    weights = exponential(logits - max(logits))
    result = dot(weights / sum(weights), values)

with any dimension numbers, with data movement and converts in between. Used by the fusion pass and
by the kernel that runs such a fusion.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from hloc.dtypes import BF16, F16, F32
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.attention_axes import Axes, Dims, dims_of, dims_of_dot, flat
from hloc.opt.fusion.fusible import EXPENSIVE, Role, role_of, weight_of
from hloc.shapes import ArrayShape

_FLOATS = (F32, BF16, F16)
_MOVES = ("reshape", "transpose", "copy")
_SAME_ELEMENTS = ("convert", *_MOVES)
_OF_ROWS = ("broadcast", *_SAME_ELEMENTS)
_SIDE_OPCODES = frozenset({"broadcast", "constant", "iota", *_MOVES})

_MOST_MEMBERS = 64
"""Limit on the instructions of one attention."""


@dataclass(frozen=True, eq=False, slots=True)
class Attention:
    """The parts of an attention.

    Attributes:
        result: the second dot.
        place: operand number of the probabilities in `result`.
        scores: the first dot; its dimensions larger than 1 are the axes.
        key_place: operand number of the keys in `scores`.
        logits: the input of softmax, kept per block of queries.
        maximum, total: the reductions of softmax.
        weights: exponentials of `logits` minus `maximum`.
        numerator: the weights as the second dot reads them, before the division.
        divisor: their divisor, the same for all keys.
        dims: axes of all values computed from `scores`, except `result`.
        batch, queries, key: the axes; both dots have those of `batch`.
        members: all instructions inside, operands first.
    """

    result: Instruction
    place: int
    scores: Instruction
    key_place: int
    logits: Instruction
    maximum: Instruction
    weights: Instruction
    total: Instruction
    numerator: Instruction
    divisor: Instruction
    dims: dict[Instruction, Dims]
    batch: Axes
    queries: Axes
    key: int
    members: tuple[Instruction, ...]

    @property
    def query_operand(self) -> Instruction:
        """The array of the queries."""
        return self.scores.operands[1 - self.key_place]

    @property
    def key_operand(self) -> Instruction:
        """The array of the keys."""
        return self.scores.operands[self.key_place]

    @property
    def probabilities(self) -> Instruction:
        """The weights after the division, as the second dot reads them."""
        return self.result.operands[self.place]

    @property
    def values(self) -> Instruction:
        """The array of the values."""
        return self.result.operands[1 - self.place]

    @property
    def difference(self) -> Instruction:
        """The logits minus the largest one of their row."""
        return _through(self.weights.operands[0], _SAME_ELEMENTS)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of all axes."""
        return self.scores.array.dims

    @property
    def rows(self) -> int:
        """Queries of one batch element."""
        return prod(self.sizes[axis] for axis in self.queries)

    @property
    def keys(self) -> int:
        """Keys of one batch element."""
        return self.sizes[self.key]

    @property
    def value_dim(self) -> int:
        """The free dimension of the values."""
        a, values = self.result.attributes, self.result.operands[1 - self.place]
        batch, contracted = _sides(a, 1 - self.place)
        (dim,) = _large(values, (*batch, *contracted))
        return dim

    @property
    def depth(self) -> int:
        """Addends of one score."""
        dims = self.scores.operands[0].array.dims
        return prod(dims[d] for d in self.scores.attributes.lhs_contracting_dims)


def attention_of(result: Instruction) -> Attention | None:
    """Return the attention whose second dot is `result`, None if there is none."""
    if result.opcode.name != "dot":
        return None
    found = (_Matcher(result, place).match() for place in (0, 1))
    return next((attention for attention in found if attention), None)


def is_attention_fusion(inst: Instruction) -> bool:
    """True for a fusion whose result is that of an attention."""
    return inst.opcode.name == "fusion" and attention_of(inst.called[0].root) is not None


def reads_no_array(
    attention: Attention, wanted: Iterable[Instruction], known: Iterable[Instruction]
) -> bool:
    """True if `wanted` depend only on `known` and scalars, so that any position is valid.

    Args:
        attention: the attention.
        wanted: members computed for every key.
        known: members computed before them.
    """
    stack, done = list(wanted), set(known)
    while stack:
        inst = stack.pop()
        if inst in done:
            continue
        done.add(inst)
        is_scalar = isinstance(inst.shape, ArrayShape) and not inst.array.dims
        if not (inst in attention.dims or is_scalar or inst.is_a("broadcast", "iota")):
            return False
        stack += inst.operands
    return True


def _sides(attributes: object, place: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the batch dimensions and the contracted ones of an operand of a dot."""
    side = ("lhs", "rhs")[place]
    return (
        getattr(attributes, f"{side}_batch_dims"),
        getattr(attributes, f"{side}_contracting_dims"),
    )


def _large(inst: Instruction, without: tuple[int, ...]) -> list[int]:
    dims = inst.array.dims
    return [d for d in range(len(dims)) if dims[d] != 1 and d not in without]


def _through(inst: Instruction, opcodes: tuple[str, ...]) -> Instruction:
    """Return the first instruction not in `opcodes`, from `inst` along first operands."""
    while inst.opcode.name in opcodes:
        inst = inst.operands[0]
    return inst


def _is_plain_reduce(inst: Instruction, opcode: str) -> bool:
    if inst.opcode.name != "reduce" or len(inst.operands) != 2:
        return False
    (body,) = inst.called
    parameters = set(body.parameters)
    return body.root.opcode.name == opcode and set(body.root.operands) == parameters


def _is_float(inst: Instruction) -> bool:
    shape = inst.shape
    if not isinstance(shape, ArrayShape) or shape.dynamic or not shape.elements:
        return False
    return shape.dtype in _FLOATS and not inst.control_predecessors


def _joins(inst: Instruction, scores: int) -> bool:
    """True if `inst` may be computed once per score: it is cheap, or has as many elements."""
    if role_of(inst) not in (Role.LOOP, Role.VIEW):
        return False
    if inst.opcode.name in _SIDE_OPCODES:
        return True
    is_cheap = weight_of(inst) < EXPENSIVE or inst.array.elements == scores
    return inst.opcode.elementwise and is_cheap


class _Matcher:
    """Matches one attention, starting at its result."""

    def __init__(self, result: Instruction, place: int) -> None:
        self.result, self.place = result, place

    def match(self) -> Attention | None:
        """Return the attention, None at the first mismatch."""
        probabilities = self.result.operands[self.place]
        values = self.result.operands[1 - self.place]
        division = _through(probabilities, _SAME_ELEMENTS)
        if division.opcode.name != "divide" or not all(map(_is_float, (values, self.result))):
            return None
        numerator, divisor = division.operands
        weights, total = _through(numerator, _SAME_ELEMENTS), _through(divisor, _OF_ROWS)
        if weights.opcode.name != "exponential" or not _is_plain_reduce(total, "add"):
            return None
        if _through(total.operands[0], _SAME_ELEMENTS) is not weights:
            return None
        difference = _through(weights.operands[0], _SAME_ELEMENTS)
        if difference.opcode.name != "subtract":
            return None
        logits, maximum = difference.operands
        logits, maximum = _through(logits, _SAME_ELEMENTS), _through(maximum, _OF_ROWS)
        if not _is_plain_reduce(maximum, "maximum") or not _is_float(logits):
            return None
        if _through(maximum.operands[0], _SAME_ELEMENTS) is not logits:
            return None
        members = _members(self.result, self.place, {weights, maximum, total}, logits)
        scores = _scores(members, self.result)
        if scores is None:
            return None
        dims = _all_dims(members, scores, (maximum, total, self.result))
        if dims is None:
            return None
        parts = Attention(
            self.result, self.place, scores, 0, logits, maximum, weights, total, numerator,
            divisor, dims, (), (), -1, members,
        )  # fmt: skip
        return _with_axes(parts)


def _members(
    result: Instruction, place: int, parts: set[Instruction], logits: Instruction
) -> tuple[Instruction, ...]:
    """Return the members, operands first; () if there are too many."""
    found: list[Instruction] = []
    done: set[Instruction] = set()
    stack = [(result, False)]
    while stack:
        inst, operands_done = stack.pop()
        if inst in done:
            continue
        if operands_done:
            done.add(inst)
            found.append(inst)
            continue
        if len(found) > _MOST_MEMBERS:
            return ()
        stack.append((inst, True))
        if inst is result:
            stack.append((inst.operands[place], False))
        elif inst.opcode.name != "dot":
            stack += [(o, False) for o in inst.operands if _is_inside(o, parts, logits)]
    return tuple(found)


def _is_inside(inst: Instruction, parts: set[Instruction], logits: Instruction) -> bool:
    if inst in parts:
        return role_of(inst) is not Role.NONE
    if inst.opcode.name == "dot":
        return inst.array.elements == logits.array.elements
    return _joins(inst, logits.array.elements)


def _scores(members: tuple[Instruction, ...], result: Instruction) -> Instruction | None:
    """Return the first dot, None if there is none or several."""
    dots = [m for m in members if m.opcode.name == "dot" and m is not result]
    if len(dots) != 1:
        return None
    (scores,) = dots
    return scores if all(map(_is_float, (scores, *scores.operands))) else None


def _all_dims(
    members: tuple[Instruction, ...], scores: Instruction, ends: tuple[Instruction, ...]
) -> dict[Instruction, Dims] | None:
    """Return the axes of all values computed from the scores; None if they are inconsistent.

    `ends` are both reductions and the result, the only members that are more than elements.
    """
    *reductions, result = ends
    dims = {scores: dims_of_dot(scores)}
    for inst in members:
        if inst is result or not any(operand in dims for operand in inst.operands):
            continue
        if inst.opcode.name in ("dot", "reduce") and inst not in reductions:
            return None
        found = dims_of(inst, dims, scores.array.dims)
        if found is None:
            return None
        dims[inst] = found
    return dims


def _with_axes(parts: Attention) -> Attention | None:
    """Return the attention with its axes classified, None if they are inconsistent."""
    scores, dims, result = parts.scores, parts.dims, parts.result
    key_of = {
        tuple(a for d in reduce.attributes.dimensions for a in dims[reduce.operands[0]][d] or ())
        for reduce in (parts.maximum, parts.total)
    }
    if len(key_of) != 1 or len(key := next(iter(key_of))) != 1:
        return None
    probabilities = result.operands[parts.place]
    batch_dims, contracted = _sides(result.attributes, parts.place)
    if any(axes is None for axes in (*dims[probabilities], *dims[parts.logits])):
        return None
    if flat(tuple(dims[probabilities][d] for d in contracted)) != key:
        return None
    if key[0] in flat(dims[parts.divisor]):
        return None
    count = len(scores.attributes.lhs_batch_dims)
    free = len(scores.operands[0].array.dims) - len(scores.attributes.lhs_contracting_dims)
    sides = (range(count, free), range(free, len(scores.array.dims)))
    key_place = 0 if key[0] in sides[0] else 1
    if any(scores.array.dims[d] != 1 for d in sides[key_place] if d != key[0]):
        return None
    batch = _larger_axes(scores, range(count))
    queries = _larger_axes(scores, sides[1 - key_place])
    shared = flat(tuple(dims[probabilities][d] for d in batch_dims))
    values = result.operands[1 - parts.place]
    value_batch, value_contracted = _sides(result.attributes, 1 - parts.place)
    if not set(shared) <= set(batch) or key[0] in (*batch, *queries):
        return None
    if len(_large(values, (*value_batch, *value_contracted))) != 1:
        return None
    return replace(parts, key_place=key_place, batch=batch, queries=queries, key=key[0])


def _larger_axes(scores: Instruction, dims: range) -> Axes:
    return tuple(d for d in dims if scores.array.dims[d] != 1)
