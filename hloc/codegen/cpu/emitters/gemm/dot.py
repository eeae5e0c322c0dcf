"""Gemms of any dimension numbers, layouts and element types.

The loops are those of `gemm_problem`, which also covers convolutions whose window is one element.
Rows are multiplied by panels of columns (`panel_gemm`), packed if there are many rows; few rows
with contiguous k are inner products in registers.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache, partial
from math import prod
from typing import TypeAlias

from hloc.codegen.cpu.cpu_plan import CpuPlan
from hloc.codegen.cpu.emitters.gemm.complex_gemm import (
    ComplexGemm,
    emit_complex,
    packed_complex_gemm,
    small_complex_gemm,
)
from hloc.codegen.cpu.emitters.gemm.complex_inner_gemm import (
    ComplexInnerGemm,
    complex_inner_gemm,
    emit_complex_inner,
)
from hloc.codegen.cpu.emitters.gemm.packed.gemm_schedule import schedules
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import emit_packed
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_choice import packed_gemm, small_packed_gemm
from hloc.codegen.cpu.emitters.gemm.unpacked.byte_inner_gemm import byte_inner_gemm, emit_byte_inner
from hloc.codegen.cpu.emitters.gemm.unpacked.gemv_streaming import (
    GemvStreaming,
    emit_gemv_streaming,
    gemv_streaming,
)
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm import InnerGemm, emit_inner, inner_gemm
from hloc.codegen.cpu.emitters.gemm.unpacked.lane_gemm import LaneGemm, emit_tiny, lane_gemm
from hloc.codegen.cpu.emitters.gemm.unpacked.matrix_rows_gemm import emit_rows, reads_rows
from hloc.codegen.cpu.emitters.gemm.unpacked.row_groups import (
    emit_groups,
    grouped_gemm,
    groups_in_cache,
)
from hloc.codegen.cpu.emitters.gemm.unpacked.sized_gemm import SizedGemm
from hloc.codegen.cpu.emitters.gemm.unpacked.small_gemm import SmallGemm, emit_small, small_gemm
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.gemm_problem import (
    Axis,
    GemmProblem,
    column_axis,
    gemm_problem_of,
    is_gemm,
    is_inner,
    oriented,
)
from hloc.codegen.kernels.operands import operand_arrays, operand_bytes, stored_types
from hloc.codegen.kernels.panel_gemm import (
    MIN_ROWS_TO_PACK,
    accumulator_dtype,
    panel_bytes,
    strip_width,
)
from hloc.codegen.llvm.target import Target
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction

MAX_PANEL_BYTES = 1 << 26
"""Larger panels are not packed."""

MOST_GROUPED_BYTES = 1 << 16
"""Most bytes of a right-hand side that groups of rows read in place, even if it may lie in panels.

Time in panels relative to that, AVX2, in a loop: 1.24 for 20x64x64, 1.05 for 16x128x128; 1.0 for
16x128x512, 0.88 for 12x256x1024, 0.91 for 32x256x256, 0.82 for 64x128x512.
"""

_MOST_TINY_WORK = 2048
"""Most multiplications of inner products that run once by the routine: 10x333 would take 1.03 of
the time of a call."""

_FEWEST_TINY_COLUMNS, _MOST_TINY_STEPS = 4, 128
"""Fewer columns have too few sums to hide the latency of longer ones: 400 steps would take 1.03."""

RoutineGemm: TypeAlias = PackedGemm | GemvStreaming | InnerGemm
"""A gemm that a routine computes."""


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a gemm: by a routine, else by loops whose outermost one threads share.

    Every thread computes operands with fused producers into scratch memory.
    """
    if not is_gemm(root_of(inst)):
        return None
    p, computed = gemm_problem_of(inst), operand_bytes(inst)
    if any(axis.size == 0 for axis in p.contracted):
        return KernelPlan(_emit_zeros)
    tiny = lane_gemm(p, *_types(root_of(inst)))
    if tiny is not None:
        scratch = computed + tiny.scratch_bytes
        return KernelPlan(partial(_emit_tiny, p, tiny, computed), tiny.pieces, scratch, computed)
    tiled, widens = _routine_gemm(inst, p), False
    if narrow := _narrow_gemm(inst, p):
        tiled, widens, computed = narrow, True, operand_bytes(inst, widens=True)
    if tiled is not None:
        return CpuPlan(
            partial(_emit_routine, tiled, computed, widens),
            extent=tiled.pieces,
            scratch_bytes=computed + tiled.scratch_bytes,
            repeated_bytes=computed + tiled.repeated_bytes,
            choices=partial(_schedules, tiled),
        )
    of_parts = packed_complex_gemm(p, *_types(root_of(inst)))
    if of_parts is not None and isinstance(gemm := of_parts.gemm, PackedGemm):
        return CpuPlan(
            partial(_emit_complex, of_parts, computed),
            extent=gemm.pieces,
            scratch_bytes=computed + of_parts.blocks_bytes + gemm.scratch_bytes,
            repeated_bytes=computed + of_parts.shared_blocks_bytes + gemm.repeated_bytes,
            choices=partial(_schedules, gemm),
        )
    of_vectors = complex_inner_gemm(p, *_types(root_of(inst)))
    if of_vectors is not None:
        return KernelPlan(
            partial(_emit_complex_inner, of_vectors, computed),
            extent=of_vectors.gemm.pieces,
            scratch_bytes=computed + of_vectors.rows_bytes,
            repeated_bytes=computed + of_vectors.repeated_bytes,
        )
    if is_inner(p):
        extent = _outermost(*p.batch, *p.rows, *p.columns)
        once = None if p.batch or computed else _tiny_inner_gemm(p, *_types(root_of(inst)))
        rows = once.rows_bytes if isinstance(once, ComplexInnerGemm) else 0
        return KernelPlan(partial(_emit_inner, p, once), extent, computed + rows, computed)
    p, exchanged = oriented(p)
    types = _types(root_of(inst))
    small = small_gemm(p, *types) or small_complex_gemm(p, *types)
    panel = _packed_panel_bytes(p, accumulator_dtype(root_of(inst).array.dtype))
    loops = p.batch if panel else (*p.batch, *p.rows[:-1])  # all rows use a packed panel
    emit = partial(_emit_panels, p, exchanged, small, bool(loops), computed, bool(panel))
    blocks = small.blocks_bytes if isinstance(small, ComplexGemm) else 0
    repeated = small.shared_blocks_bytes if isinstance(small, ComplexGemm) else 0
    scratch = computed + max(panel, blocks)
    return KernelPlan(emit, _outermost(*loops), scratch, computed + repeated)


def _outermost(*loops: Axis) -> int:
    return loops[0].size if loops else 1


def micro_gemm(inst: Instruction) -> RoutineGemm | None:
    """Return the gemm by which routines compute the root of `inst`, None if they do not."""
    return _routine_gemm(inst, gemm_problem_of(inst))


def packable_gemm(inst: Instruction) -> PackedGemm | None:
    """Return the packed gemm that computes the root of `inst`, or would if columns lay in panels.

    Groups of rows read columns in place where packing them takes longer, but not reading panels.
    """
    p, types = gemm_problem_of(inst), _types(root_of(inst))
    found = _first_routine(p, *types)
    if isinstance(found, GemvStreaming) and grouped_gemm(p, *types):
        size = found.column.size * found.depth.size * found.sources[1].storage_bytes
        return packed_gemm(p, *types) if size > MOST_GROUPED_BYTES else None
    return found if isinstance(found, PackedGemm) else None


def _routine_gemm(inst: Instruction, p: GemmProblem) -> RoutineGemm | None:
    return _first_routine(p, *_types(root_of(inst)))


def _narrow_gemm(inst: Instruction, p: GemmProblem) -> GemvStreaming | InnerGemm | None:
    """Return a gemm of few rows that widens operands as it reads them, None if there is none."""
    if not inst.is_a("fusion"):
        return None
    left, right = stored_types(inst)
    if (left, right) == _types(root_of(inst))[0]:
        return None
    result = root_of(inst).array.dtype
    return inner_gemm(p, (left, right), result) or gemv_streaming(p, (left, right), result)


def _types(root: Instruction) -> tuple[tuple[DType, DType], DType]:
    """Return the element types of both sides and of the result."""
    left, right = root.operands[:2]
    return (left.array.dtype, right.array.dtype), root.array.dtype


@lru_cache(maxsize=256)
def _first_routine(
    p: GemmProblem, sources: tuple[DType, DType], result: DType
) -> RoutineGemm | None:
    return (
        inner_gemm(p, sources, result)
        or grouped_gemm(p, sources, result)
        or packed_gemm(p, sources, result)
        or gemv_streaming(p, sources, result)
        or small_packed_gemm(p, sources, result)
    )


def _schedules(tiled: RoutineGemm, target: Target) -> tuple[Hashable, ...]:
    """Return the ways to run a gemm that give the same bits."""
    if not isinstance(tiled, PackedGemm) or reads_rows(tiled, target):
        return (None,)
    if byte_inner_gemm(tiled, target) or groups_in_cache(tiled, target):
        return (None,)
    return schedules(tiled, target)


def _packed_panel_bytes(p: GemmProblem, dtype: DType) -> int:
    """Return the size of a packed panel of columns; 0 if panels are not packed."""
    if prod(axis.size for axis in p.rows) < MIN_ROWS_TO_PACK:
        return 0
    depth = prod(axis.size for axis in p.contracted)
    strip = strip_width(column_axis(p).size, depth, dtype)
    size = panel_bytes(strip, depth, dtype)
    return size if size <= MAX_PANEL_BYTES else 0


def _emit_routine(tiled: RoutineGemm, offset: int, widens: bool, k: KernelContext) -> None:
    """Write the calls of the routine, which may widen operands.

    Scratch memory is free from `offset` on.
    """
    lhs, rhs = operand_arrays(k, widens=widens)
    if not offset:
        k.level = 0  # little runs outside the routines
    if isinstance(tiled, GemvStreaming):
        emit_gemv_streaming(k, tiled, lhs, rhs, offset)
    elif isinstance(tiled, InnerGemm):
        emit_inner(k, tiled, lhs, rhs, k.output, offset)
    elif reads_rows(tiled, k.target):
        emit_rows(k, tiled, lhs, rhs, offset)
    elif inner := byte_inner_gemm(tiled, k.target):
        emit_byte_inner(k, tiled, inner, lhs, rhs, offset)
    elif groups := groups_in_cache(tiled, k.target):
        emit_groups(k, tiled, groups, lhs, rhs)
    else:
        emit_packed(k, tiled, lhs, rhs, offset)


def _emit_tiny(p: GemmProblem, tiny: LaneGemm, offset: int, k: KernelContext) -> None:
    """Write the calls of the routine, or loops for the sizes in a kernel that runs many times.

    Scratch memory is free from `offset` on.
    """
    arrays = operand_arrays(k)
    if k.is_repeated and not tiny.is_for_loops:
        first, batches = tiny.part(k)
        k.begin, k.end = first, k.math.add(first, batches)
        if is_inner(p):
            SizedGemm(k, p, *arrays).inner_gemms()
            return
        p, exchanged = oriented(p)
        SizedGemm(k, p, *(reversed(arrays) if exchanged else arrays)).panels(None)
        return
    if not offset:
        k.level = 0  # little runs outside the routine
    emit_tiny(k, tiny, arrays, offset)


def _emit_complex(p: ComplexGemm, offset: int, k: KernelContext) -> None:
    """Write the calls of the routines; scratch memory is free from `offset` on."""
    lhs, rhs = operand_arrays(k)
    if not offset:
        k.level = 0  # little runs outside the routines
    emit_complex(k, p, lhs, rhs, offset)


def _emit_complex_inner(p: ComplexInnerGemm, offset: int, k: KernelContext) -> None:
    """Write the calls of the routines; scratch memory is free from `offset` on."""
    lhs, rhs = operand_arrays(k)
    if not offset:
        k.level = 0  # little runs outside the routines
    emit_complex_inner(k, p, lhs, rhs, offset)


def _tiny_inner_gemm(
    p: GemmProblem, sources: tuple[DType, DType], result: DType
) -> InnerGemm | ComplexInnerGemm | None:
    """Return a few short inner products, which the routine computes if they run once.

    It is as fast for them, and compiles in 0.4 of the time. Repeated ones are loops of their own.
    """
    found = inner_gemm(p, sources, result, 0)
    if found is None:
        return complex_inner_gemm(p, sources, result, 0)
    products, steps = found.row.size * found.column.size, found.depth.size
    is_tiny = products * steps <= _MOST_TINY_WORK
    fills = found.column.size >= _FEWEST_TINY_COLUMNS or steps <= _MOST_TINY_STEPS
    return found if is_tiny and fills and not found.copied else None


def _emit_inner(
    p: GemmProblem, once: InnerGemm | ComplexInnerGemm | None, k: KernelContext
) -> None:
    """Write the loops, or the call of the routine if the kernel runs once."""
    lhs, rhs = operand_arrays(k)
    if once is None or k.is_repeated:
        SizedGemm(k, p, lhs, rhs).inner_gemms()
        return
    k.level = 0  # little runs outside the routine
    if isinstance(once, ComplexInnerGemm):
        emit_complex_inner(k, once, lhs, rhs, 0, whole=True)
    else:
        emit_inner(k, once, lhs, rhs, k.output, 0, whole=True)


def _emit_panels(
    p: GemmProblem,
    exchanged: bool,
    small: SmallGemm | ComplexGemm | None,
    shared: bool,
    offset: int,
    packs: bool,
    k: KernelContext,
) -> None:
    """Write the loops over panels, or the call of the routine of small gemms.

    Threads share the outermost loop if `shared`; packed panels lie at `offset` in scratch memory.
    """
    arrays = operand_arrays(k)
    lhs, rhs = reversed(arrays) if exchanged else arrays
    if small is None or k.is_repeated:
        SizedGemm(k, p, lhs, rhs).panels(offset if packs else None)
        return
    if not offset:
        k.level = 0  # little runs outside the routine
    if isinstance(small, ComplexGemm):
        emit_complex(k, small, lhs, rhs, offset, shared=shared)
    else:
        emit_small(k, small, lhs, rhs, k.output, shared=shared)


def _emit_zeros(k: KernelContext) -> None:
    """Write zeros: sums of no products."""
    with k.body.loop(0, prod(k.output.dims)) as position:
        k.b.store(k.output.pointer, position, k.b.const(k.output.dtype, 0))


EMITTER = Emitter("gemm", plan, roots=("dot", "convolution"))
"""Dots, and convolutions whose window is one element."""
