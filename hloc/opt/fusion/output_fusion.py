"""Output fusion: fuse the elementwise epilogue of a dot or convolution into its kernel.

The kernel applies the epilogue to rows of the product as soon as they are final, while they are in
the cache; the product itself takes no memory.
"""

from __future__ import annotations

from math import prod

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.epilogue import follows, results_of
from hloc.analysis.in_place import may_overwrite
from hloc.analysis.pools import pool_of, scaled_pool
from hloc.analysis.small_groups import small_groups
from hloc.dtypes import BF16, F16, F32, F64, S8, S32, U8, DType
from hloc.ir.clone import add_parameter, copy_instructions
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.fusible import Role, role_of
from hloc.opt.fusion.outline_fusion import add_fusion
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape, leaves

MIN_BYTES = 1 << 18
"""A smaller product is read again from the first-level cache, or nearly so.

Time of the fusion over that without, relu(x @ w + b) with sizes rows x depth x columns: f32 0.99
for 256x256x256 and 512x512x512, 0.95 for 2048x64x512, 0.90 for 2048x256x2048, 0.74 for
4096x64x4096; bf16 0.59 for 2048x256x2048. Time over that with products of at least 2 MB fused: 0.94
for MobileNetV3, 0.97 for BERT-base, 1.0 for ResNet-50, ViT-B/16 and GPT-2's prefill, batch 1; they
compile in the same time.
"""

_VECTOR_BITS = 128
"""Of a vector on every machine."""

_MIN_SIDE, _MIN_DEPTH = 17, 8
"""Below these sizes other kernels than the tiled one compute the product."""

_NARROW = (F32, BF16, F16)
_SOURCES: dict[DType, tuple[DType, ...]] = {
    F64: (F64,),
    F32: _NARROW,
    BF16: _NARROW,
    F16: _NARROW,
    S32: (S8, U8, S32),
}
"""Element type of the result -> that of the operands, for gemms computed in tiles of rows."""


@dataclass(frozen=True)
class OutputFusion(RewritingPass):
    """Fuse a large dot or convolution with the elementwise kernel that reads it.

    Also windowed sums with the division that makes them means, of any size. The product must have
    no other users. Expects the fusions that `fusion` makes of elementwise instructions; leaves
    `fusion` instructions of kind kOutput. Cost: O(instructions).

    Attributes:
        min_bytes: size of the smallest product that is fused.
        on_gpu: for GPU kernels, which compute products of all sizes and types and keep the sums in
            registers: one result, of any type.
    """

    min_bytes: int = MIN_BYTES
    on_gpu: bool = False
    acts_on = frozenset({"convolution", "dot", "reduce-window"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Fuse in the entry and in the bodies of loops, branches and calls."""
        for computation in control_flow_computations(module):
            pinned = computation.awaited
            for inst in [i for i in post_order(computation) if i.opcode.name in self.acts_on]:
                if inst in pinned or not self._takes(inst):
                    continue
                reader = _reader(inst, one_result=self.on_gpu)
                if reader is None or reader in pinned:
                    continue
                if inst.is_a("reduce-window") and not _is_scaled(reader):
                    continue
                if _overwrites_state(module, reader):
                    context.remark("missed", self.name, inst, f"{reader.name} overwrites a state")
                    continue
                if context.spent:
                    return
                context.at = inst
                saved = 2 * inst.array.size_bytes
                context.remark(
                    "passed", self.name, inst, f"{reader.name} joins it, saves {saved} bytes"
                )
                with context.rewriting(module, self.name):
                    _fuse(computation, inst, reader)

    def _takes(self, inst: Instruction) -> bool:
        if inst.is_a("reduce-window"):
            is_free = not inst.is_root and not inst.control_predecessors
            return is_free and not self.on_gpu and pool_of(inst) is not None
        if inst.is_root or inst.control_predecessors:
            return False
        arrays = (inst.shape, *(operand.shape for operand in inst.operands))
        if any(not isinstance(a, ArrayShape) or a.dynamic for a in arrays):
            return False
        if inst.array.size_bytes < self.min_bytes:
            return False
        return self.on_gpu or _is_made_in_tiles_of_rows(inst) or _has_small_groups(inst)


def _has_small_groups(inst: Instruction) -> bool:
    """True for a convolution, a depthwise one for instance, that is computed line by line."""
    if not inst.is_a("convolution"):
        return False
    lhs, rhs = (operand.array for operand in inst.operands)
    return small_groups(inst, lhs, rhs, _VECTOR_BITS) is not None


def _is_made_in_tiles_of_rows(inst: Instruction) -> bool:
    sources = _SOURCES.get(inst.array.dtype, ())
    return all(operand.array.dtype in sources for operand in inst.operands) and _fills_tiles(inst)


def _fills_tiles(product: Instruction) -> bool:
    """True if rows, columns and k are large enough for a gemm in tiles of rows."""
    a = product.attributes
    left, right = (operand.array for operand in product.operands)
    depth: int
    sides: tuple[int, int]
    if product.is_a("dot"):
        batch = prod(left.dims[d] for d in a.lhs_batch_dims)
        depth = prod(left.dims[d] for d in a.lhs_contracting_dims)
        sides = left.elements // max(batch * depth, 1), right.elements // max(batch * depth, 1)
    else:
        if a.window is not None and any(d.base_dilation > 1 for d in a.window.dimensions):
            return False  # each phase of the dilation is a separate gemm
        features = product.array.dims[a.dim_labels.output_feature]
        depth = right.elements // features
        groups = a.feature_group_count * a.batch_group_count
        sides = product.array.elements // features, features // groups
    return min(sides) >= _MIN_SIDE and depth >= _MIN_DEPTH


def _reader(product: Instruction, *, one_result: bool) -> Instruction | None:
    """Return the single user of `product`, if its results are elementwise in it.

    Args:
        product: a dot, a convolution or windows.
        one_result: accept readers with one result only, but of any type.
    """
    if len(product.users) != 1:
        return None
    (user,) = product.users
    if user.control_predecessors:
        return None
    if not user.is_a("fusion"):
        is_loop = role_of(user) is Role.LOOP
        return user if is_loop and follows(product, (user,), in_place=not one_result) else None
    (body,) = user.called
    if user.attributes.kind != "kLoop" or user.operands.count(product) != 1:
        return None
    parameter = body.parameters[user.operands.index(product)]
    results = results_of(body)
    if one_result and body.root.is_a("tuple"):
        return None
    return user if follows(parameter, results, in_place=not one_result) else None


def _is_scaled(reader: Instruction) -> bool:
    """True if the kernel only multiplies or divides by a constant."""
    root = reader.called[0].root if reader.is_a("fusion") else reader
    source, factor = scaled_pool(root)
    return factor is not None and source.is_a("parameter")


def _overwrites_state(module: Module, reader: Instruction) -> bool:
    """True if `reader` alone may be computed in place of loop state or of an argument.

    A gemm keeps partial sums in the result, so the result needs separate memory, and
    the state would have to be copied.
    """
    gives_away = bool(module.config.aliases or module.config.buffer_donors)
    if reader.computation is module.entry and not gives_away:
        return False
    return any(
        _is_state(operand) and may_overwrite(reader, number, index)
        for number, operand in enumerate(reader.operands)
        for index, _ in leaves(reader.shape)
    )


def _is_state(inst: Instruction) -> bool:
    while inst.is_a("get-tuple-element", "bitcast"):
        inst = inst.operands[0]
    return inst.is_a("parameter")


def _fuse(computation: Computation, product: Instruction, reader: Instruction) -> None:
    """Replace `product` and `reader` by one fusion."""
    body = computation.module.add_computation("fused_computation")
    outside = [o for o in (*product.operands, *reader.operands) if o is not product]
    operands = tuple(dict.fromkeys(outside))
    inner = {o: add_parameter(body, o.shape, n) for n, o in enumerate(operands)}
    inner[product] = body.add_copy(product, [inner[o] for o in product.operands])
    if reader.is_a("fusion"):
        (old,) = reader.called
        known = {p: inner[o] for p, o in zip(old.parameters, reader.operands, strict=True)}
        body.set_root(copy_instructions(old, body, known)[old.root])
    else:
        body.set_root(body.add_copy(reader, [inner[o] for o in reader.operands]))
    source = product.opcode.name.replace("-", "_")
    name = f"{source}_{reader.name.removesuffix('_fusion')}_fusion"
    fusion = add_fusion(computation, body, operands, "kOutput", name, reader)
    computation.replace(reader, fusion)
    computation.remove(reader)
    computation.remove(product)
