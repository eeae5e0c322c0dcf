"""One C function per kernel, written by hloc's emitters and one of our own for `dot`."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters import table
from hloc.codegen.cpu.emitters.convolution import direct_convolution
from hloc.codegen.kernels import row_region
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan, PlannedKernel, first_plan
from hloc.codegen.kernels.operands import operand_arrays, operand_bytes
from hloc.codegen.kernels.panel_gemm import accumulator_dtype
from hloc.codegen.llvm.target import host_target
from hloc.codegen.lower.fusible import is_beyond
from hloc.codegen.plan.kernel_request import KernelRequest, needs_kernel
from hloc.dtypes import U8
from hloc.ir.instruction import Instruction
from hloc.shapes import array_leaves

from .builder import CBuilder
from .writer import CBody, CWriter


def _emit_dot(k: KernelContext) -> None:
    """Write a loop per dimension of the result, and inside one per contracted dimension."""
    lhs, rhs = operand_arrays(k)
    a, dtype, result = k.root.attributes, accumulator_dtype(k.output.dtype), k.output.dims
    rows = _free(len(lhs.dims), a.lhs_batch_dims, a.lhs_contracting_dims)
    columns = _free(len(rhs.dims), a.rhs_batch_dims, a.rhs_contracting_dims)
    depth = [lhs.dims[d] for d in a.lhs_contracting_dims]
    total = k.b.allocate(dtype)
    with k.body.nest(result, range(len(result))) as at:
        batch, rest = at[: len(a.lhs_batch_dims)], at[len(a.lhs_batch_dims) :]
        k.b.store(total, 0, k.b.const(dtype, 0))
        with k.body.nest(depth, range(len(depth))) as step:
            i = [*batch, *rest[: len(rows)], *step]
            j = [*batch, *rest[len(rows) :], *step]
            x = lhs.load(k.math, _index(i, a.lhs_batch_dims, rows, a.lhs_contracting_dims))
            y = rhs.load(k.math, _index(j, a.rhs_batch_dims, columns, a.rhs_contracting_dims))
            before = k.b.load(total, dtype, 0)
            after = k.b.multiply_add(k.b.convert(x, dtype), k.b.convert(y, dtype), before)
            k.b.store(total, 0, after)
        k.output.store(k.math, tuple(at), k.b.convert(k.b.load(total, dtype, 0), k.output.dtype))


def _free(rank: int, batch: tuple[int, ...], contracting: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d for d in range(rank) if d not in batch + contracting)


def _index(positions: list[IndexValue], *dims: tuple[int, ...]) -> Index:
    """Return `positions`, which belong to `dims` one after another, in the array's own order."""
    found = dict(zip([d for group in dims for d in group], positions, strict=True))
    return tuple(found[d] for d in range(len(found)))


def _plan_dot(inst: Instruction) -> KernelPlan[KernelContext] | None:
    if not root_of(inst).is_a("dot"):
        return None
    return KernelPlan(_emit_dot, scratch_bytes=operand_bytes(inst))


DOT = Emitter("dot", _plan_dot)
PORTABLE = (
    "row-region", "reduce", "select-and-scatter", "sort", "topk", "triangular-solve", "cholesky",
    "rng-bit-generator", "scatter", "dynamic-update-slice", "concatenate", "loop",
)  # fmt: skip
"""hloc's emitters that write all they write through `k.body` and `k.b`; others write LLVM IR."""

EMITTERS = (
    DOT,
    direct_convolution.EMITTER,
    *(emitter for emitter in table.EMITTERS if emitter.name in PORTABLE),
)
"""In the order they are asked; the last is a loop nest over any opcode that has an element rule."""


def plan_kernel(inst: Instruction) -> PlannedKernel[KernelContext] | None:
    """Return how the kernel of `inst` is written, None if this target has none."""
    return first_plan(EMITTERS, inst) if needs_kernel(inst) else None


def needs_defusion(fusion: Instruction) -> bool:
    return is_beyond(fusion, row_region.plan_of(fusion) is not None)


class CContext(KernelContext):
    """What emitters are given, over C; a kernel runs over its whole extent."""

    def _function(self, name: str, pointers: Sequence[str], size: str) -> CWriter:
        return CWriter(name, [f"void *arg{number}" for number in range(len(pointers))])

    def _body(self) -> CBody:
        return CBody(self.fn, CBuilder(self.fn))

    def _argument(self, number: int) -> Value:
        return Value(U8, f"arg{number}")


def kernel_text(request: KernelRequest, name: str) -> str:
    """Return the C function `name` that computes `request`; its arguments are pointers."""
    inst, planned = request.inst, request.planned
    assert isinstance(planned, PlannedKernel)
    plan = planned.plan
    k = CContext(inst, request.aliased, name, host_target(), plan.scratch_bytes > 0)
    k.begin, k.end = 0, plan.extent
    if any(leaf.elements for leaf in array_leaves(inst.shape)):
        plan.emit(k)
    return k.fn.finish()
