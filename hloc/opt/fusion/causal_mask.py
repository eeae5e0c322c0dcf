"""Causal masks: proof that no query sees keys beyond its own position plus a constant."""

from __future__ import annotations

from hloc.dtypes import F32
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.attention_match import Attention

_NEGATED = {"LT": "GE", "LE": "GT", "GT": "LE", "GE": "LT"}
_FLIPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}

_MOST_TERMS = 8


@dataclass(frozen=True, eq=False, slots=True)
class CausalMask:
    """Query `q` sees only keys up to `q + reach`; the logits of others are a constant.

    Attributes:
        query: the axis of the positions of queries.
        hidden: the scalar constant.
        compare: the comparison of positions; other terms of the mask may hide more keys.
        holds: its value for keys up to `q + reach`.
    """

    query: int
    reach: int
    hidden: Instruction
    compare: Instruction
    holds: bool


@dataclass(frozen=True, eq=False, slots=True)
class _Bound:
    """What a comparison says of the keys that a query sees, as in `CausalMask`."""

    query: int
    reach: int
    compare: Instruction
    holds: bool


def causal_mask(attention: Attention) -> CausalMask | None:
    """Return the mask that follows from the structure of the logits, or None."""
    logits = attention.logits
    if logits.opcode.name != "select" or logits.operands[0].array.dims != logits.array.dims:
        return None
    if not _keeps_distances(attention):
        return None
    pred, *values = logits.operands
    for place, value in enumerate(values):
        hidden = _scalar_constant(value)
        other = values[1 - place]
        if hidden is None or other not in attention.dims:
            continue
        bound = _bound(attention, pred, is_seen=place == 1)
        if bound is None:
            return None
        return CausalMask(bound.query, bound.reach, hidden, bound.compare, bound.holds)
    return None


def _keeps_distances(attention: Attention) -> bool:
    """False if softmax rounds logits to a narrower type, where distant ones may become equal."""
    dtype = attention.logits.array.dtype
    used = (attention.maximum.array.dtype, attention.difference.array.dtype)
    return all(x is dtype or x is F32 for x in used)


def _scalar_constant(inst: Instruction) -> Instruction | None:
    while inst.opcode.name == "broadcast":
        inst = inst.operands[0]
    is_scalar = inst.opcode.name == "constant" and inst.array.is_scalar
    return inst if is_scalar else None


def _bound(attention: Attention, pred: Instruction, is_seen: bool) -> _Bound | None:
    """Return the bound of a comparison that holds wherever a key is visible.

    `is_seen` says whether a key is visible where `pred` holds, or where it does not.
    """
    own = tuple(range(pred.array.rank))
    waiting: list[tuple[Instruction, tuple[int, ...], bool]] = [(pred, own, is_seen)]
    for _ in range(_MOST_TERMS):
        if not waiting:
            return None
        term, dims, holds = waiting.pop()
        name = term.opcode.name
        moved = _before_move(term, dims)
        if moved is not None:
            waiting.append((*moved, holds))
        elif name == "not":
            waiting.append((term.operands[0], dims, not holds))
        elif name == ("and" if holds else "or"):
            waiting += [(operand, dims, holds) for operand in term.operands]
        elif name == "compare":
            found = _compared(attention, term, dims, holds)
            if found is not None:
                return found
    return None


def _compared(
    attention: Attention, compare: Instruction, dims: tuple[int, ...], holds: bool
) -> _Bound | None:
    """Return the bound of a comparison of query and key positions, None if it is none.

    Brought into the form `query + a > key + b` or `>=` first: `holds` False negates the
    comparison, and its sides are swapped if the key is on the left.
    """
    direction = compare.attributes.direction
    lines = [_line(operand, dims) for operand in compare.operands]
    if direction not in _NEGATED or lines[0] is None or lines[1] is None:
        return None
    if not holds:
        direction = _NEGATED[direction]
    of_logits = attention.dims[attention.logits]
    (left, right), (more, less) = zip(*[line for line in lines if line], strict=True)
    if of_logits[left] == (attention.key,):
        direction, left, right, more, less = _FLIPPED[direction], right, left, less, more
    query = of_logits[left]
    if of_logits[right] != (attention.key,) or direction not in ("GT", "GE"):
        return None
    if query is None or len(query) != 1 or query[0] not in attention.queries:
        return None
    return _Bound(query[0], more - less - (direction == "GT"), compare, holds)


def _line(inst: Instruction, dims: tuple[int, ...]) -> tuple[int, int] | None:
    """Return dimension and offset if elements are a position plus a constant.

    `dims` are the dimensions of the logits that those of `inst` stand for.
    """
    offset = 0
    for _ in range(_MOST_TERMS):
        dtype = inst.array.dtype
        if not dtype.is_signed or not dtype.is_integer or dtype.bits < 32:
            return None
        moved = _before_move(inst, dims)
        if moved is not None:
            inst, dims = moved
        elif inst.opcode.name == "iota":
            return dims[inst.attributes.iota_dimension], offset
        elif inst.opcode.name in ("add", "subtract"):
            constants = [_scalar_constant(operand) for operand in inst.operands]
            place = 1 if constants[1] is not None else 0
            constant = constants[place]
            if constant is None or (inst.opcode.name == "subtract" and place == 0):
                return None
            value = int(constant.attributes.literal.array)
            if abs(value) >= 1 << 30:
                return None
            offset += value if inst.opcode.name == "add" else -value
            inst = inst.operands[1 - place]
        else:
            return None
    return None


def _before_move(
    inst: Instruction, dims: tuple[int, ...]
) -> tuple[Instruction, tuple[int, ...]] | None:
    """Return what is broadcast, transposed, or reshaped by sizes of 1, and its dimensions."""
    if inst.opcode.name == "broadcast":
        return inst.operands[0], tuple(dims[d] for d in inst.attributes.dimensions)
    if inst.opcode.name == "transpose":
        permutation = inst.attributes.dimensions
        return inst.operands[0], tuple(
            dims[permutation.index(d)] for d in range(len(permutation))
        )  # fmt: skip
    if inst.opcode.name == "copy":
        return inst.operands[0], dims
    if inst.opcode.name != "reshape":
        return None
    operand = inst.operands[0]
    large = [dims[d] for d, size in enumerate(inst.array.dims) if size != 1]
    sizes = [size for size in inst.array.dims if size != 1]
    if [size for size in operand.array.dims if size != 1] != sizes:
        return None
    places = iter(large)
    some = dims[0] if dims else 0
    return operand, tuple(next(places) if size != 1 else some for size in operand.array.dims)
