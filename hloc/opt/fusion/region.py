"""Kernels, and regions of several that could be one kernel with several results.

There are three forms. A loop computes arrays of one size elementwise. Rows are
loops over an array whose rows are also reduced (`rows`). Columns are reductions of dimensions other
than the last, over arrays of one size, with elementwise epilogues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from enum import Enum

from hloc.analysis.cost import elements_of
from hloc.analysis.rows import FULL, OTHER, Access, Rows, accesses, passed_on, rows_of
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.columns import shared_reduces
from hloc.opt.fusion.fusible import EXPENSIVE, Role, role_of, weight_of
from hloc.shapes import ArrayShape

OWN_LOOPS = frozenset({"concatenate", "dynamic-update-slice", "pad", "reduce-window", "scatter"})
"""As roots these have kernels that loop over their operands."""


class Form(Enum):
    """How the kernel of a region runs."""

    LOOP = "loop"
    ROWS = "rows"
    COLUMNS = "columns"


@dataclass(eq=False, slots=True)
class Kernel:
    """An instruction that is currently a separate kernel.

    What is asked of it for every region that it might join is found once.

    Attributes:
        order: its instructions, operands first: itself, or the members of the
            fusion.
        outputs: those that are results.
        values: the instructions that others read: itself, or the elements of its tuple.
        reads: operand -> its parameters in the fusion.
        rows: rows that it reduces, if any.
        shape: shape of the loop, or of the array reduced by columns.
    """

    inst: Instruction
    form: Form
    order: tuple[Instruction, ...]
    outputs: tuple[Instruction, ...]
    values: tuple[Instruction, ...]
    reads: dict[Instruction, list[Instruction]]
    shape: ArrayShape
    rows: Rows | None
    reduces: int
    _accesses: dict[tuple[int, int], dict[Instruction, Access] | None] = field(default_factory=dict)
    _divided: dict[tuple[int, int], list[Instruction]] = field(default_factory=dict)
    _dear_sizes: frozenset[int] | None = None

    @property
    def members(self) -> int:
        """Instructions, parameters not counted."""
        return len(self.order) - len(self.inst.operands)

    @property
    def dear_sizes(self) -> frozenset[int]:
        """The numbers of elements for which it computes functions that are faster vectorised."""
        if self._dear_sizes is None:
            dear = [inst for inst in self.order if weight_of(inst) >= EXPENSIVE]
            self._dear_sizes = frozenset([elements_of(inst.shape) for inst in dear])
        return self._dear_sizes

    def access(self, rows: Rows) -> dict[Instruction, Access] | None:
        """Return how the members are read if the kernel runs by `rows`; None if it cannot."""
        key = rows.count, rows.size
        if key not in self._accesses:
            self._accesses[key] = accesses(self.order, self.outputs, rows)
        return self._accesses[key]

    def reads_at(self, value: Instruction, rows: Rows) -> Access:
        """Return how operand `value` is read, 0 if it is not."""
        access = self.access(rows) or {}
        found = 0
        for name in self.reads.get(value, ()):
            found |= access.get(name, 0)
        return found

    def divided(self, rows: Rows) -> list[Instruction]:
        """Return the members that need their index along several dimensions of a row."""
        key = rows.count, rows.size
        if key not in self._divided:
            access = self.access(rows) or {}
            full = [inst for inst in self.order if access.get(inst, 0) & FULL]
            self._divided[key] = [
                inst
                for inst in full
                if _inner_size(inst.array) < rows.size and _needs_index(inst, rows)
            ]
        return self._divided[key]


def _needs_index(inst: Instruction, rows: Rows) -> bool:
    """True if an element of `inst` is more than a function of elements at the same position."""
    reads = (
        passed_on(inst, place, FULL, rows)
        for place, operand in enumerate(inst.operands)
        if not isinstance(operand.shape, ArrayShape) or not operand.shape.is_scalar
    )
    return inst.is_a("iota") or OTHER in reads


def _inner_size(shape: ArrayShape) -> int:
    """Return the size of the last dimension of more than one element."""
    for size in reversed(shape.dims):
        if size != 1:
            return size
    return 1


def kernel_of(inst: Instruction, *, unfused: bool = False) -> Kernel | None:
    """Return the kernel of `inst`, None if it cannot be part of a region.

    Args:
        inst: an instruction or a fusion.
        unfused: ignore fusions, and treat reshapes that move no bytes as kernels too.
    """
    if inst.opcode.name == "fusion":
        return None if unfused else _fusion_kernel(inst)
    roles = (Role.LOOP, Role.REDUCE, Role.VIEW) if unfused else (Role.LOOP, Role.REDUCE)
    name = inst.opcode.name
    if name in OWN_LOOPS or name == "constant" or role_of(inst) not in roles:
        return None
    reads = {operand: [operand] for operand in inst.operands}
    return _kernel(inst, (inst,), (inst,), reads)


def _fusion_kernel(inst: Instruction) -> Kernel | None:
    """Return the kernel of a fusion, None if a member has a kernel of a kind that is not joined."""
    if inst.control_predecessors:
        return None
    (body,) = inst.called
    root = body.root
    if root.opcode.name in OWN_LOOPS:
        return None
    outputs = root.operands if root.opcode.name == "tuple" else (root,)
    values = _values(inst)
    used = outputs
    if len(outputs) > 1:
        used = tuple(outputs[value.attributes.index] for value in values)
    order = tuple(post_order_from(used))
    for member in order:
        if not member.opcode.nop and role_of(member) is Role.NONE:
            return None
    live = set(order)
    reads: dict[Instruction, list[Instruction]] = {}
    for parameter, operand in zip(body.parameters, inst.operands, strict=True):
        if parameter in live:
            if not isinstance(parameter.shape, ArrayShape):
                return None  # rows are known of arrays, not of parts of tuples
            reads.setdefault(operand, []).append(parameter)
    return _kernel(inst, order, outputs, reads)


def _kernel(
    inst: Instruction,
    order: tuple[Instruction, ...],
    outputs: tuple[Instruction, ...],
    reads: dict[Instruction, list[Instruction]],
) -> Kernel | None:
    """Return the kernel of `order` in its form, None if it has no form or a result has a layout.

    The form follows from the first reduction: none is a loop, of the last dimensions is rows, of
    others is columns.
    """
    values = _values(inst)
    if not values or any(value.array.layout is not None for value in values):
        return None
    reduces = [member for member in order if member.opcode.name == "reduce"]
    if not reduces:
        shape = values[0].array
        if any(value.array.dims != shape.dims for value in values):
            return None
        return Kernel(inst, Form.LOOP, order, outputs, values, reads, shape, None, 0)
    shape, rows = reduces[0].operands[0].array, rows_of(reduces[0])
    count = len(reduces)
    if rows is not None:
        kernel = Kernel(inst, Form.ROWS, order, outputs, values, reads, shape, rows, count)
        return kernel if kernel.access(rows) is not None else None
    plain = all(isinstance(output.shape, ArrayShape) for output in outputs)
    if not plain or not shared_reduces(order, outputs):
        return None
    return Kernel(inst, Form.COLUMNS, order, outputs, values, reads, shape, None, count)


def _values(inst: Instruction) -> tuple[Instruction, ...]:
    """Return the values of `inst` that users read; nothing if a user takes the whole tuple."""
    if isinstance(inst.shape, ArrayShape):
        return (inst,)
    elements = tuple(inst.users)
    if inst.is_root or not all(user.opcode.name == "get-tuple-element" for user in elements):
        return ()
    if all(isinstance(element.shape, ArrayShape) for element in elements):
        return elements
    return ()


@dataclass(eq=False, slots=True)
class Region:
    """Kernels that will be merged.

    Attributes:
        start: position of the first one in the order.
        instructions: the kernels as instructions of the computation.
        values: the values they compute.
        reads: the values they read from outside, or from each other.
        members: instructions in all kernels, parameters not counted.
        reduces: reductions in all kernels.
    """

    kernels: list[Kernel]
    form: Form
    shape: ArrayShape
    rows: Rows | None
    start: int
    instructions: list[Instruction] = field(default_factory=list)
    values: dict[Instruction, Kernel] = field(default_factory=dict)
    reads: dict[Instruction, list[Kernel]] = field(default_factory=dict)
    members: int = 0
    reduces: int = 0

    @staticmethod
    def of(kernel: Kernel, start: int) -> Region:
        """Return the region of one kernel."""
        region = Region([], kernel.form, kernel.shape, kernel.rows, start)
        region.add(kernel)
        return region

    def add(self, kernel: Kernel) -> None:
        """Add a compatible kernel; rows take precedence over a loop."""
        self.kernels.append(kernel)
        self.instructions.append(kernel.inst)
        self.members += kernel.members
        self.reduces += kernel.reduces
        self.values.update(dict.fromkeys(kernel.values, kernel))
        for value in kernel.reads:
            self.reads.setdefault(value, []).append(kernel)
        if self.form is Form.LOOP:
            self.form, self.shape, self.rows = kernel.form, kernel.shape, kernel.rows

    def absorb(self, other: Region) -> None:
        """Add all kernels of another region."""
        for kernel in other.kernels:
            self.add(kernel)
        self.start = min(self.start, other.start)

    @property
    def operands(self) -> list[Instruction]:
        """The values read from outside."""
        return [value for value in self.reads if value not in self.values]


def outputs_of(*regions: Region) -> Iterator[Instruction]:
    """Yield the values of regions that will be results of the merged kernel.

    They include a value read only by an unused parameter of a fusion, so that it can be removed
    later.
    """
    inside = {inst for region in regions for inst in region.instructions}
    for region in regions:
        for value in region.values:
            is_read = any([value in reader.reads for reader in regions])
            if not is_read or value.is_root or not inside.issuperset(value.users):
                yield value


def common_rows(first: Region, second: Region) -> Rows | None:
    """Return the rows by which two regions can run as one kernel, None if they cannot.

    Loops of one shape run by rows of one element.
    """
    if Form.COLUMNS in (first.form, second.form):
        return None
    if first.rows and second.rows:
        return first.rows if first.rows == second.rows else None
    rows = first.rows or second.rows
    if rows is None:
        same = first.shape.dims == second.shape.dims
        return Rows(first.shape.elements, 1) if same else None
    loop = second if first.rows else first
    return rows if loop.shape.elements in (rows.elements, rows.count) else None


def fits(first: Region, second: Region, rows: Rows) -> bool:
    """True if each region reads values of the other only at the same index."""
    for reader, maker in ((first, second), (second, first)):
        for kernel in reader.kernels:
            if kernel.access(rows) is None:
                return False
            for value in kernel.reads:
                if value in maker.values and kernel.reads_at(value, rows) & OTHER:
                    return False
    return True


def reads_alike(first: Region, second: Region, value: Instruction, rows: Rows) -> bool:
    """True if both regions read `value` at the index of their own elements."""
    return all(
        kernel.reads_at(value, rows) == FULL
        for region in (first, second)
        for kernel in region.reads[value]
    )
