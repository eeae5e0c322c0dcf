"""The kernel of a matrix product as GPU passes see it: sides, epilogue, modelled time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hloc.analysis.cost import elements_of
from hloc.analysis.epilogue import PRODUCTS, follows
from hloc.analysis.gpu_devices import spec_of_chip
from hloc.analysis.gpu_gemm import (
    GemmSide,
    GemmWork,
    gemm_seconds,
    gemm_sizes,
    widens_factor,
)
from hloc.analysis.gpu_performance import ArrayRead, Pattern, operations_per_element
from hloc.dtypes import F32
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order, post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.draft import Draft, Setting
from hloc.opt.fusion.lanes import UNIFORM, Lane, lane_of_operand
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """A dot or a convolution, alone or in a fusion.

    Attributes:
        inst: the kernel.
        product: `inst`, or the dot or convolution inside.
    """

    inst: Instruction
    product: Instruction

    @staticmethod
    def of(inst: Instruction) -> ProductKernel | None:
        """Return the kernel of `inst`, None unless it is one product with its epilogue."""
        if inst.is_a(*PRODUCTS):
            return ProductKernel(inst, inst) if _is_static(inst) else None
        if not inst.is_a("fusion"):
            return None
        (body,) = inst.called
        products = [member for member in body.instructions if member.is_a(*PRODUCTS)]
        if len(products) != 1 or not _is_static(products[0]):
            return None
        (product,) = products
        is_root = body.root is product
        if not is_root and not follows(product, (body.root,), in_place=False):
            return None
        return ProductKernel(inst, product)

    def outside(self, side: int) -> Instruction | None:
        """Return the array outside that side 0 or 1 is, None if producers inside compute it."""
        factor = self.product.operands[side]
        if self.inst is self.product:
            return factor
        return self.inst.operands[factor.attributes.number] if factor.is_a("parameter") else None

    def reads_only_as_factor(self, outside: Instruction) -> bool:
        """True if the kernel reads `outside` as a side of the product and nowhere else."""
        if self.inst is self.product:
            return True
        parameters = self.inst.called[0].parameters
        for parameter, operand in zip(parameters, self.inst.operands, strict=True):
            if operand is outside and any(user is not self.product for user in parameter.users):
                return False
        return True

    def seconds(self, chip: str, computed: Mapping[int, GemmSide] | None = None) -> float:
        """Return the modelled time of the kernel.

        Args:
            chip: LLVM's name.
            computed: what producers that join would make of the sides.
        """
        known = computed or {}
        left, right = (known.get(side) or self._side(side, chip) for side in range(2))
        batch, rows, columns, depth = gemm_sizes(self.product)
        dtype = self.product.array.dtype
        narrow = dtype.is_float and dtype.bits < F32.bits
        is_dot = self.product.is_a("dot")
        work = GemmWork(
            batch,
            rows,
            columns,
            depth,
            left,
            right,
            F32 if narrow else dtype,
            self.product.attributes.algorithm if is_dot else "",
            self.inst.shape.size_bytes,
        )
        if self.inst is not self.product:
            work = self._with_epilogue(work, chip)
        return gemm_seconds(work, chip)

    def _side(self, number: int, chip: str) -> GemmSide:
        factor = self.product.operands[number]
        if self.outside(number) is not None:
            shape = factor.array
            size = shape.dtype.storage_bytes
            read = ArrayRead(shape.size_bytes, size, shape.elements, Pattern.NEIGHBOURS)
            return GemmSide(shape.dtype, shape.elements, (read,))
        return side_of(_draft_inside(factor, chip))

    def _with_epilogue(self, work: GemmWork, chip: str) -> GemmWork:
        """Return the work with that of the instructions behind the product."""
        device, results = spec_of_chip(chip), elements_of(self.inst.shape)
        below = {*post_order_from([self.product])}
        members = [m for m in post_order(self.inst.called[0]) if m not in below]
        reads = []
        for member in members:
            if member.is_a("parameter"):
                shape = member.shape
                size = shape.size_bytes / max(elements_of(shape), 1)
                asked = min(elements_of(shape), results)
                reads.append(ArrayRead(asked * size, int(size), asked, Pattern.NEIGHBOURS))
        operations = sum(operations_per_element(m, device) * results for m in members)
        return replace(work, reads=tuple(reads), operations=operations)


def producer_draft(inst: Instruction, chip: str) -> Draft:
    """Return the model of an elementwise kernel, an instruction or a fusion with one result."""
    if inst.is_a("fusion"):
        return _draft_inside(inst.called[0].root, chip)
    return Draft.of(inst, _setting([*inst.operands, inst], chip), lambda _: False)


def side_of(draft: Draft, views: Sequence[Instruction] = ()) -> GemmSide:
    """Return the side of a product that is computed by producers.

    Args:
        draft: of the producers.
        views: reshapes between the product and their result, users first.
    """
    root, device = draft.root, draft.setting.device
    operations = draft.operations
    operations += sum(operations_per_element(v, device) * v.array.elements for v in views)
    # A gemm reads computed elements in row-major order.
    lane = _last_dimension((*views, root)[0].array)
    for view in views:
        lane = lane_of_operand(view, 0, lane)
    patterns = draft.patterns(lane)
    reads = (
        ArrayRead(
            operand.shape.size_bytes,
            operand.array.dtype.storage_bytes,
            sum(maps.values()),
            patterns[operand],
        )
        for operand, maps in draft.operands.items()
    )
    factor = root
    while not views and widens_factor(factor):
        (factor,) = factor.operands
    is_computed = factor in draft.members
    return GemmSide(factor.array.dtype, root.array.elements, tuple(reads), operations, is_computed)


def _draft_inside(root: Instruction, chip: str) -> Draft:
    """Return the model of the producers of `root` in a fusion, whose parameters are in memory."""
    setting = _setting(post_order_from([root]), chip)
    return Draft.of(root, setting, lambda inst: not inst.is_a("parameter"))


def _setting(order: Sequence[Instruction], chip: str) -> Setting:
    return Setting(spec_of_chip(chip), {inst: place for place, inst in enumerate(order)})


def _last_dimension(shape: ArrayShape) -> Lane:
    return next((dim for dim in reversed(range(shape.rank)) if shape.dims[dim] != 1), UNIFORM)


def _is_static(product: Instruction) -> bool:
    arrays = (product.shape, *(operand.shape for operand in product.operands))
    return all(isinstance(a, ArrayShape) and not a.dynamic for a in arrays)
