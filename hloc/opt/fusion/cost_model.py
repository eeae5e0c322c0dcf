"""Cost and benefit of fusing a producer into the groups that read it.

The unit of work is an add of one element; a byte to or from memory is a quarter
of that, and a separate kernel 500. Rough numbers, meaningful only relative to each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from hloc.analysis.cost import elements_of
from hloc.analysis.in_place import reads_updated_part
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.fusible import EXPENSIVE, Role, producer_of, role_of, weight_of
from hloc.opt.fusion.group import ROOT_INDEX, SCALAR, Group, Maps
from hloc.opt.values import is_splat

_KERNEL = 500
_BYTES_PER_ADD = 4
_MAX_MAPS = 12
"""Limit on index maps: each has separate code in the kernel."""

_MAX_CONCATENATED = 4
_MAX_COPIES = 16
_MAX_OUTPUTS = 8
_MAX_TRACED = 64
"""Instructions searched for reads of an array that is updated in place."""

_WORTH_A_COPY = 16
"""An array of fewer times the bytes of its reader is copied, so that the reader is not stored.

A loop of Jacobi rotations over f32[12,12] takes 0.85 of the time, and one that moves single points
of f32[40,3] 2.3.
"""

_UPDATES = ("dynamic-update-slice", "scatter")
_READ_NOTHING = ("broadcast", "iota", "constant")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one fusion: kernel arguments and instructions."""

    max_operands: int
    max_instructions: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a producer is not fused into its users; `numbers` fill the `{}` of `text`."""

    text: str
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.text.format(*self.numbers)


def why_not_join(inst: Instruction, reads: Mapping[Group, Maps], limits: Limits) -> Refusal | None:
    """Return why `inst` should not be fused into all groups of `reads`.

    Args:
        inst: the producer.
        reads: for each group, the index maps at which it reads `inst`, and the number of elements.
        limits: bounds of a group.
    """
    places, updates = 0, []
    for group, maps in reads.items():
        if not _has_room(inst, group, limits):
            return Refusal(
                "a fusion would pass {} operands or {} instructions",
                (limits.max_operands, limits.max_instructions),
            )
        if len(maps) > places:
            places = len(maps)
        if group.root.opcode.name in _UPDATES:
            updates.append(group)
    if places > _MAX_MAPS:
        return Refusal("it is read at {} places of one array", (places,))
    name = inst.opcode.name
    if name == "constant":
        return None
    for group in updates:
        if _changes_what_it_reads(inst, group, reads[group]):
            return Refusal("a user changes its operand in place")
    for group in updates:
        if _reads_array_it_updates(inst, group.root):
            return Refusal(
                "it reads parts of an array of which a user changes another part in place"
            )
    if name in ("concatenate", "pad") and not _may_branch(inst, reads):
        return Refusal("a branch for every element would slow its users down")
    return _why_not_worth_it(inst, reads)


def may_be_output(inst: Instruction, group: Group, maps: Maps) -> bool:
    """True if the loop over the root of `group`, which reads `inst`, can store `inst` as well."""
    root = group.root
    return (
        len(group.outputs) < _MAX_OUTPUTS
        and inst.opcode.elementwise
        and root.opcode.elementwise
        and list(maps) == [ROOT_INDEX]
        and inst.array.dims == root.array.dims
        and inst.array.layout == root.array.layout
    )


def _has_room(inst: Instruction, group: Group, limits: Limits) -> bool:
    if len(group.maps) >= limits.max_instructions:
        return False
    room = limits.max_operands + 1 - len(group.operands)
    if len(inst.operands) <= room:
        return True
    return sum(1 for operand in inst.operands if operand not in group.operands) <= room


def _changes_what_it_reads(inst: Instruction, group: Group, maps: Maps) -> bool:
    """True if an in-place update would read its buffer elsewhere or compute it in the fusion.

    It may read the part that it changes, each element before that is written: `maps` are those at
    which `inst` is read. Where updates follow one another, that buffer is the array before the
    first: to read that after another update needs a copy, which a small array is worth.
    """
    root = group.root
    if inst is root.operands[0]:
        return True
    if reads_updated_part(inst, root):
        return maps.keys() != group.reads(root, root.operands[1]).keys()
    reads = {producer_of(operand) for operand in inst.operands}
    update = root
    for _ in range(_MAX_TRACED):
        array = producer_of(update.operands[0])
        if array in reads:
            small = array.shape.size_bytes < _WORTH_A_COPY * inst.shape.size_bytes
            return update is root or not small
        if array.opcode.name not in _UPDATES:
            return False
        update = array
    return False


def _reads_array_it_updates(inst: Instruction, root: Instruction) -> bool:
    """True if `inst` is the update of an array, computed from several other parts of the array.

    None of these reads could join the fusion, so each would be stored, as in a stencil with a
    fixed border. On its own `inst` is one array to store. Reads of a splat do join.
    """
    array = producer_of(root.operands[0])
    if inst not in root.operands or is_splat(array):
        return False
    members, reads = [inst], 0
    for member in members:
        for source in dict.fromkeys(map(producer_of, member.operands)):
            if source is array:
                reads += not reads_updated_part(member, root)
            elif source not in members and role_of(source) is Role.LOOP:
                members.append(source)
        if len(members) > _MAX_TRACED:
            return False
    return reads > 1


def _may_branch(inst: Instruction, reads: Mapping[Group, Maps]) -> bool:
    """False if a branch per element would slow down expensive functions of the group."""
    if len(inst.operands) > _MAX_CONCATENATED:
        return False
    return not any(weight_of(member) >= EXPENSIVE for group in reads for member in group.maps)


def _why_not_worth_it(inst: Instruction, reads: Mapping[Group, Maps]) -> Refusal | None:
    """Return why recomputing `inst` in the kernels that read it costs more than it saves, or None.

    Saved are a write, a read per use, and a kernel. The costs are elements computed more than
    once, and reading the operands again in every further kernel.
    """
    elements, weight = elements_of(inst.shape), weight_of(inst)
    asked = computed = times_made = 0
    for maps in reads.values():
        for read in maps.values():
            asked += read.asked
            computed += read.computed
            times_made += 1
    if weight and len(reads) > _MAX_COPIES:
        return Refusal("{} kernels read it", (len(reads),))
    if weight >= EXPENSIVE and (asked > elements or times_made > 1 or _in_a_loop(reads)):
        return Refusal(
            "it is expensive (users: {}), and {} elements would be computed instead of {}",
            (len(inst.users), max(asked, times_made * elements), elements),
        )
    extra = (computed - elements) * weight if computed > elements else 0
    if len(reads) == 1 and _is_mask(inst):
        extra //= _BYTES_PER_ADD
    elif times_made > 1:
        extra += (times_made - 1) * _bytes_read(inst) // _BYTES_PER_ADD
    saved = inst.shape.size_bytes * (1 + times_made) // _BYTES_PER_ADD + _KERNEL
    if extra <= saved:
        return None
    return Refusal(
        "users: {}; recomputing costs {} bytes and saves {}",
        (len(inst.users), extra * _BYTES_PER_ADD, saved * _BYTES_PER_ADD),
    )


def _is_mask(inst: Instruction) -> bool:
    """True for a comparison of indices: a vector of them takes no longer to compute than to load.

    `jnp.tril(x) - jnp.triu(x, 1).T` of f32[400,400] takes 0.77 of the time in one kernel.
    """
    if not inst.is_a("compare"):
        return False
    sides = [producer_of(operand) for operand in inst.operands]
    indices = [x for side in sides for x in (side.operands if side.is_a("add") else (side,))]
    return all(x.is_a(*_READ_NOTHING) for x in indices)


def _in_a_loop(reads: Mapping[Group, Maps]) -> bool:
    """True if the producer is a single value that a loop would compute repeatedly."""
    return any(
        SCALAR in maps and elements_of(group.root.shape) > 1 for group, maps in reads.items()
    )


def _bytes_read(inst: Instruction) -> int:
    """Return the bytes that computing `inst` reads, broadcasts and constants excluded."""
    if inst.opcode.name in ("slice", "dynamic-slice", "gather", "pad", "concatenate"):
        return inst.shape.size_bytes
    sizes: dict[Instruction, int] = {}
    for operand in dict.fromkeys(inst.operands):
        if operand.is_a(*_READ_NOTHING):
            continue
        # Slices of one array that overlap, as in a stencil, read each byte once.
        source = operand.operands[0] if operand.is_a("slice") else operand
        sizes[source] = min(
            sizes.get(source, 0) + operand.shape.size_bytes, source.shape.size_bytes
        )
    return sum(sizes.values())
