"""Which operands an instruction may overwrite with its result: pure functions of the instruction.

Code generation relies on it: where a result shares the buffer of an operand, each element of the
operand is read before the element at its address is written.
"""

from __future__ import annotations

from hloc.analysis.rows import overwritable, row_work
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.folding import works_per_element
from hloc.shapes import ArrayShape, Shape, ShapeIndex, shape_at

Pair = tuple[int, ShapeIndex]
"""Number of an operand, and the leaf of the result that may reuse its buffer."""


def may_overwrite(inst: Instruction, number: int, index: ShapeIndex) -> bool:
    """Return whether leaf `index` of the result may lie in the buffer of operand `number`.

    Only the instruction is looked at; whether the operand is still needed is for the caller. A
    fused computation is read once until it changes.
    """
    opcode = inst.opcode.name
    if opcode == "fusion":
        return (number, index) in inst.called[0].derived(_fusion_pairs)
    if opcode == "dynamic-update-slice":
        return number == 0 and same_storage(inst.operands[0].shape, inst.shape)
    if opcode == "scatter":
        return _is_scatter_pair(inst, number, index)
    if opcode == "fft" and len(inst.attributes.fft_length) > 1:
        return False  # a later dimension reads what an earlier one has written
    return (inst.opcode.elementwise or opcode in ("copy", "fft")) and same_storage(
        inst.operands[number].shape, inst.shape
    )


def overwritten_operands(inst: Instruction) -> tuple[int, ...]:
    """Return the operands whose buffer the result should take, since else it costs a copy."""
    opcode = inst.opcode.name
    if opcode in ("dynamic-update-slice", "copy"):
        return (0,)
    if opcode == "scatter":
        return tuple(range(len(inst.operands) // 2))
    if opcode == "fusion" and inst.called[0].root.is_a("dynamic-update-slice", "scatter"):
        return tuple(sorted(number for number, _ in inst.called[0].derived(_fusion_pairs)))
    return ()


def _is_scatter_pair(inst: Instruction, number: int, index: ShapeIndex) -> bool:
    count = len(inst.operands) // 2
    fits = number < count and index == ((number,) if count > 1 else ())
    return fits and same_storage(inst.operands[number].shape, shape_at(inst.shape, index))


def same_storage(a: Shape, b: Shape) -> bool:
    """Return whether both are arrays with the same storage."""
    return (
        isinstance(a, ArrayShape) and isinstance(b, ArrayShape) and storage_of(a) == storage_of(b)
    )


def storage_of(shape: ArrayShape) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return sizes, order of dimensions and bytes per element."""
    return shape.dims, shape.minor_to_major, shape.dtype.storage_bytes


def _fusion_pairs(body: Computation) -> frozenset[Pair]:
    """Return all pairs of a fused computation."""
    root = body.root
    if root.is_a("dynamic-update-slice", "scatter"):
        return _update_pairs(root)
    work = row_work(body)
    if work is not None:
        is_tuple = root.is_a("tuple")
        return frozenset((n, (result,) if is_tuple else ()) for n, result in overwritable(work))
    others = [inst for inst in body.instructions if not _is_in_loop(inst)]
    if any(not inst.is_a("reduce") for inst in others):
        return frozenset()
    outputs = list(enumerate(root.operands)) if root.is_a("tuple") else [(-1, root)]
    same_index = [_reached_at_same_index(output) for _, output in outputs]
    found = set()
    for (number, output), reached in zip(outputs, same_index, strict=True):
        index: ShapeIndex = () if number < 0 else (number,)
        if any(reduce in reached for reduce in others):
            continue
        for inst in reached:
            if inst.is_a("parameter") and _same_places(inst.shape, output.shape):
                readers = [
                    (other, how[inst])
                    for (_, other), how in zip(outputs, same_index, strict=True)
                    if inst in how
                ]
                # Besides reduces, the results may be computed in one loop after the other.
                alone = not others or len(readers) == 1
                if alone and all(same and _in_one_loop(other, output) for other, same in readers):
                    found.add((inst.attributes.number, index))
    return frozenset(found)


def _is_in_loop(inst: Instruction) -> bool:
    """True if `inst` is computed element by element in a loop over the result."""
    if works_per_element(inst) or inst.opcode.data_movement:
        return True
    return inst.is_a("iota") or (inst.opcode.nop and not inst.is_a("get-tuple-element"))


def _same_places(a: Shape, b: Shape) -> bool:
    """True if element n, in logical order, has the same address offset in both."""
    return same_storage(a, b) or (
        isinstance(a, ArrayShape)
        and isinstance(b, ArrayShape)
        and a.layout is None
        and b.layout is None
        and a.elements == b.elements
        and a.dtype.storage_bytes == b.dtype.storage_bytes
    )


def _in_one_loop(a: Instruction, b: Instruction) -> bool:
    """True if one loop computes both outputs: it reads all their operands before it writes."""
    return a.array.dims == b.array.dims


def _update_pairs(root: Instruction) -> frozenset[Pair]:
    """Return the pairs of a fusion whose root changes part of an array."""
    count = len(root.operands) // 2 if root.is_a("scatter") else 1
    found = set()
    for number in range(count):
        inst = root.operands[number]
        index: ShapeIndex = (number,) if count > 1 else ()
        same = same_storage(inst.shape, shape_at(root.shape, index))
        while inst.is_a("bitcast") and len(inst.users) == 1:
            inst = inst.operands[0]
        once = sum(operand is inst for operand in root.operands) <= 1
        if inst.is_a("parameter") and same and once and _is_read_in_place(inst, root):
            found.add((inst.attributes.number, index))
    return frozenset(found)


def _is_read_in_place(array: Instruction, root: Instruction) -> bool:
    """True if each element of `array` that `root` changes is read before, and none elsewhere."""
    reads = [user for user in array.users if user is not root]
    if len(array.users) == 1 or not reads:
        return True
    if not all(reads_updated_part(read, root) for read in reads):
        return False
    reached = _reached_at_same_index(root.operands[1])
    return all(reached.get(read, False) for read in reads)


def reads_updated_part(read: Instruction, update: Instruction) -> bool:
    """True if slice `read` is the part of an array that dynamic-update-slice `update` changes."""
    if not update.is_a("dynamic-update-slice") or read.operands[:1] != update.operands[:1]:
        return False
    if read.array.dims != update.operands[1].array.dims:
        return False
    if read.is_a("dynamic-slice"):
        return read.operands[1:] == update.operands[2:]
    if not read.is_a("slice"):
        return False
    starts = [start.attributes for start in update.operands[2:] if start.is_a("constant")]
    return [(d.start, d.stride) for d in read.attributes.slice] == [
        (int(start.literal.array), 1) for start in starts
    ]


def _reached_at_same_index(output: Instruction) -> dict[Instruction, bool]:
    """Return what `output` depends on: True if only the element of the same index is read."""
    found = {output: True}
    stack = [output]
    while stack:
        inst = stack.pop()
        for operand in inst.operands:
            same = found[inst] and _keeps_place(inst, operand)
            before = found.get(operand)
            if before is None or (before and not same):
                found[operand] = same
                stack.append(operand)
    return found


def _keeps_place(inst: Instruction, operand: Instruction) -> bool:
    """True if element n of `inst` depends on element n of `operand` only."""
    if not isinstance(operand.shape, ArrayShape):
        return False
    if works_per_element(inst) and operand.shape.dims == inst.array.dims:
        return True
    return inst.is_a("reshape", "bitcast") and _same_places(inst.shape, operand.shape)
