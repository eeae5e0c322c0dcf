"""Multi-output fusion: merge kernels that loop over the same arrays.

Runs after `fusion`, on kernels. It merges a producer with its users, where the value is needed in
memory or too expensive to recompute; siblings that read the same large array; and rows: a reduction
of the last dimensions with its prologue and epilogue per row, as in softmax and norms, so that a
row stays in the cache.
"""

from __future__ import annotations

from hloc.analysis.call_graph import control_flow_computations, live_instructions
from hloc.analysis.gpu_devices import spec_of_chip
from hloc.analysis.rows import FULL, MAX_REDUCES, Rows
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.fusible import is_one_step
from hloc.opt.fusion.gpu_rows import why_not_rows_on_gpu
from hloc.opt.fusion.merge import merge
from hloc.opt.fusion.reach import Reach
from hloc.opt.fusion.region import (
    Form,
    Kernel,
    Region,
    common_rows,
    fits,
    kernel_of,
    outputs_of,
    reads_alike,
)
from hloc.opt.fusion.row_plan import MAX_TEMPORARY_BYTES
from hloc.opt.pass_base import PassContext, RewritingPass

_WINDOW = 256
"""Kernels further apart in the order are not merged: live ranges would get too long."""

_MAX_SIBLINGS = 2
"""The latest readers of an array that are considered as siblings."""

_KERNEL_BYTES = 1 << 12
"""Merging two small kernels is worth reading this many extra bytes."""

_MIN_ROW = 5
_LONG_ROW = 16
_SMALL = 1 << 12
"""Rows shorter than `_MIN_ROW` are slow, and so are those shorter than `_LONG_ROW` whose sums go
through functions, one by one. Neither matters below `_SMALL` elements."""

_FEW_ROWS = 8
_LARGE_BYTES = 1 << 20
"""Fewer rows limit parallelism, which matters for arrays above `_LARGE_BYTES`."""


@dataclass(frozen=True)
class MultiOutputFusion(RewritingPass):
    """Merge kernels that read the same arrays, or each other's results, elementwise.

    Expects a module without dead code. Leaves fusions of kind kLoop with several results of one
    size, and of kind kInput with reductions and what belongs to them. Cost: O(instructions) but
    for the search for cycles, which is bounded by the window for every two kernels that meet.

    Attributes:
        chip: GPU chip by LLVM's name; "" for a CPU.
    """

    max_operands: int = 32
    max_outputs: int = 8
    max_instructions: int = 192
    chip: str = ""

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Merge in the entry and in the bodies of loops, branches and calls."""
        for computation in control_flow_computations(module):
            if is_one_step(computation):
                continue
            for region in _Merger(computation, self, context).regions():
                if context.spent:
                    return
                context.at = region.kernels[-1].inst
                with context.rewriting(module, self.name):
                    merge(computation, region)


def row_regions(
    computation: Computation, limits: MultiOutputFusion, context: PassContext
) -> list[Region]:
    """Return the regions with rows of a computation whose instructions are not fused yet.

    Reshapes that move no bytes may be among their kernels.
    """
    return _Merger(computation, limits, context, rows_only=True).regions()


class _Merger:
    """Finds the regions of one computation, visiting kernels with operands before users."""

    def __init__(
        self,
        computation: Computation,
        limits: MultiOutputFusion,
        context: PassContext,
        *,
        rows_only: bool = False,
    ) -> None:
        self.order = live_instructions(computation)
        self.limits, self.context, self.rows_only = limits, context, rows_only
        self.device = spec_of_chip(limits.chip) if limits.chip else None
        self.reach = Reach()
        self.maker: dict[Instruction, Region] = {}
        self.readers: dict[Instruction, list[Region]] = {}
        self.small: dict[tuple[int, ...], Region] = {}
        self.replaced: dict[Region, Region] = {}
        self.pinned = computation.awaited

    def regions(self) -> list[Region]:
        """Return the regions of two or more kernels."""
        for at, inst in enumerate(self.order):
            self.reach.visit(inst)
            kernel = None if inst in self.pinned else kernel_of(inst, unfused=self.rows_only)
            if kernel is not None:
                region = self._place(kernel, at)
                for value in kernel.values:
                    self.maker[value] = region
                for value in kernel.reads:
                    self._note_reader(value, region)
                if region.form is Form.LOOP and _bytes_touched(region) <= _KERNEL_BYTES:
                    self.small[region.shape.dims] = region
        unique = dict.fromkeys(map(self._present, self.maker.values()))
        return [region for region in unique if len(region.kernels) > 1]

    def _note_reader(self, value: Instruction, region: Region) -> None:
        readers = self.readers.setdefault(value, [])
        if region not in readers:
            readers.append(region)
            del readers[:-_MAX_SIBLINGS]

    def _place(self, kernel: Kernel, at: int) -> Region:
        """Put `kernel` into a region that gains from it, else into a new one."""
        own = Region.of(kernel, at)
        host: Region | None = None
        for saved, region in self._candidates(own, at):
            if host is region:
                continue
            reason = self._why_not(own, region, saved)
            if not reason and self.reach.comes_back(region.instructions, kernel.inst):
                reason = "there is a way between them through other instructions"
            if not reason and host is not None:
                reason = self._why_not_both(host, region, own)
            self._remark(kernel.inst, region, reason, saved)
            if reason:
                continue
            host = region if host is None else self._united(host, region)
        if host is None:
            return own
        host.add(kernel)
        self.reach.unite(host.instructions)
        return host

    def _united(self, host: Region, other: Region) -> Region:
        host.absorb(other)
        self.reach.unite(host.instructions)
        self.replaced[other] = host
        return host

    def _present(self, region: Region) -> Region:
        """Return the current region that contains `region`."""
        while region in self.replaced:
            region = self.replaced[region]
        return region

    def _candidates(self, own: Region, at: int) -> list[tuple[int, Region]]:
        """Return the regions that write or read what `own` reads, largest saving first."""
        found: dict[Region, None] = {}
        for value in own.reads:
            if value in self.maker:
                found[self.maker[value]] = None
        for value in own.reads:
            if value.shape.size_bytes > 0:
                found.update(dict.fromkeys(self.readers.get(value, ())))
        if own.form is Form.LOOP and own.shape.dims in self.small:
            found[self.small[own.shape.dims]] = None
        present = dict.fromkeys(map(self._present, found))
        near = [region for region in present if at - region.start <= _WINDOW]
        weighed = [(_bytes_saved(own, region), region) for region in near]
        return sorted(weighed, key=lambda pair: (-pair[0], pair[1].start))

    def _why_not(self, own: Region, region: Region, saved: int) -> str:
        """Return why the two may not merge, "" if they may."""
        if self.rows_only and not (own.rows or region.rows):
            return "neither works by rows"
        if own.form is Form.COLUMNS or region.form is Form.COLUMNS:
            return _why_not_columns(own, region) or self._too_much(own, region)
        rows = common_rows(own, region)
        if rows is None:
            return "they do not work on arrays of the same size"
        if not fits(own, region, rows):
            return "one reads what the other makes at another place"
        chained = not region.values.keys().isdisjoint(own.reads)
        if not chained and not _is_worth_it(own, region, rows):
            return f"they share too little, {saved} bytes"
        if own.rows or region.rows:
            reason = (
                _why_not_rows(own, region, rows, chained)
                if self.device is None
                else why_not_rows_on_gpu(rows, self.device)
            )
            if reason:
                return reason
        return self._too_much(own, region)

    def _why_not_both(self, host: Region, region: Region, own: Region) -> str:
        rows = common_rows(host, region)
        if rows is None or not fits(host, region, rows):
            return "what reads both of two kernels cannot join them"
        if not self.reach.independent(host.instructions, region.instructions):
            return "one of two kernels needs the other"
        return self._too_much(host, region, own)

    def _too_much(self, *regions: Region) -> str:
        """Return which limit `regions` exceed as one kernel, "" if none."""
        limits = self.limits
        members = sum([region.members for region in regions])
        if members > limits.max_instructions:
            return f"together they have {members} instructions"
        values = [value for region in regions for value in region.values]
        # The kernels share some of what they read, and not all of their values are results.
        if sum([len(region.reads) for region in regions]) > limits.max_operands:
            operands = {value for region in regions for value in region.operands}.difference(values)
            if len(operands) > limits.max_operands:
                return f"together they read {len(operands)} arrays"
        if len(values) > limits.max_outputs:
            outputs = len(list(outputs_of(*regions)))
            if outputs > limits.max_outputs:
                return f"together they have {outputs} results"
        reduces = sum([region.reduces for region in regions])
        if reduces > MAX_REDUCES:
            return f"together they have {reduces} reductions"
        return ""

    def _remark(self, inst: Instruction, region: Region, reason: str, saved: int) -> None:
        if self.context.remarks is None:
            return
        other = region.kernels[-1].inst.name
        text = f"not with {other}: {reason}" if reason else f"with {other}, saves {saved} bytes"
        self.context.remark("missed" if reason else "passed", self.limits.name, inst, text)


def _bytes_saved(own: Region, region: Region) -> int:
    """Return the bytes of memory traffic that merging the two saves."""
    saved = 0
    inside = {*own.instructions, *region.instructions}
    for value in own.reads:
        if value in region.values:
            needed = value.is_root or not inside.issuperset(value.users)
            saved += value.shape.size_bytes * (1 if needed else 2)
        elif value in region.reads:
            saved += value.shape.size_bytes
    return saved


def _is_worth_it(own: Region, region: Region, rows: Rows) -> bool:
    """True if siblings share a large part of their reads, at the same indices."""
    shared = sum(
        value.shape.size_bytes
        for value in own.reads
        if value in region.reads and reads_alike(own, region, value, rows)
    )
    least = min(_bytes_touched(own), _bytes_touched(region))
    slack = _KERNEL_BYTES if own.form is region.form is Form.LOOP else 0
    return 4 * shared + slack >= least


def _bytes_touched(region: Region) -> int:
    return sum([value.shape.size_bytes for value in (*region.operands, *region.values)])


def _why_not_rows(own: Region, region: Region, rows: Rows, chained: bool) -> str:
    is_dear = _is_dear(own, region, rows.elements)
    if rows.size < _MIN_ROW and (rows.elements > _SMALL or is_dear):
        return f"rows of {rows.size} elements are too short"
    if rows.size < _LONG_ROW and rows.elements > _SMALL and _is_dear(own, region, rows.count):
        return f"rows of {rows.size} elements are too short for functions of their sums"
    if _divides(own, rows, is_dear) or _divides(region, rows, is_dear):
        return f"the places of elements in a row of {rows.size} would have to be divided"
    if not chained:
        return ""
    size = max(value.shape.size_bytes for value in (*own.values, *own.reads))
    if rows.count < _FEW_ROWS and size > _LARGE_BYTES:
        return f"{rows.count} rows are too few to share {size} bytes between threads"
    if rows.size * 4 > MAX_TEMPORARY_BYTES:
        return f"a row of {rows.size} elements does not stay in the cache"
    return ""


def _divides(region: Region, rows: Rows, is_dear: bool) -> bool:
    """True if elements of a row depend on their index along several dimensions of the row.

    A kernel by rows has one loop over a row, which then computes elements one by one; a kernel of
    its own has a loop for each dimension. What only reads repeated arrays is still faster by rows,
    unless it `is_dear`.
    """
    for kernel in region.kernels:
        for inst in kernel.divided(rows):
            if is_dear or inst.opcode.name != "broadcast":
                return True
    return False


def _is_dear(own: Region, region: Region, elements: int) -> bool:
    """True if the kernels compute functions that are much faster vectorised."""
    return any([elements in kernel.dear_sizes for kernel in (*own.kernels, *region.kernels)])


def _why_not_columns(own: Region, region: Region) -> str:
    """Return why two regions are not to be merged into one of column reductions, "" if they are."""
    if own.form is Form.LOOP:
        return _why_not_map(own, region)
    if region.form is not Form.COLUMNS:
        return "one reduces columns"
    first, second = (r.kernels[0].order for r in (own, region))
    left, right = (
        next(inst for inst in order if inst.opcode.name == "reduce") for order in (first, second)
    )
    same_dims = own.shape.dims == region.shape.dims
    if left.attributes.dimensions != right.attributes.dimensions or not same_dims:
        return "they reduce different dimensions"
    if any(value in region.values for value in own.reads):
        return "one reduces what the other makes"
    shared = sum(v.shape.size_bytes for v in own.reads if v in region.reads)
    if 4 * shared + _KERNEL_BYTES < min(_bytes_touched(own), _bytes_touched(region)):
        return f"they share too little, {shared} bytes"
    return ""


def _why_not_map(own: Region, region: Region) -> str:
    """Return why a loop cannot be an epilogue of column reductions."""
    chained = [value for value in own.reads if value in region.values]
    rows = Rows(own.shape.elements, 1)
    kernel = own.kernels[0]
    if not chained or own.shape.dims != chained[0].array.dims:
        return "one reduces columns"
    if any(kernel.reads_at(value, rows) != FULL for value in chained):
        return "it reads the results of columns at other places"
    return ""
