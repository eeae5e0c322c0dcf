"""Pooling of an array in memory: the call of a routine, and the division for means.

The outermost loop of the kernel runs over rows of the result, of all batches.
"""

from __future__ import annotations

from functools import partial
from math import prod

from hloc.analysis.pools import Pool, pool_of, scaled_pool
from hloc.codegen.builder.index import physical_order
from hloc.codegen.builder.values import REPRESENTATIONS
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import number_table
from hloc.codegen.cpu.emitters.reduction.fold_routine import (
    has_masks,
    lanes_of_fold,
    of_one_type,
)
from hloc.codegen.cpu.emitters.reduction.pool_routine import (
    DIVIDED,
    MULTIPLIED,
    UNSCALED,
    pool_routine,
    table_of,
)
from hloc.codegen.elements.reductions import plain_reducer
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.folding import LONG_SUM


@dataclass(frozen=True, slots=True)
class _ScaledPool:
    """A pooling, and the factor or divisor of its results.

    Attributes:
        window: the reduce-window.
        factor: a scalar, None if results are not scaled.
    """

    pool: Pool
    window: Instruction
    factor: Instruction | None

    @property
    def rows(self) -> int:
        """Rows of the result, of all batches."""
        return self.pool.batch * self.pool.y.count


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a pooling of an operand that the routine supports, with an optional scale."""
    scaled = _scaled_pool(inst)
    return None if scaled is None else KernelPlan(partial(_emit, scaled), scaled.rows)


def _emit(scaled: _ScaledPool, k: KernelContext) -> None:
    """Call the routine, or emit loops if the machine has no vectors for it."""
    pool, window = scaled.pool, scaled.window
    source = k.plain_array(window.operands[0])
    assert source is not None
    fold = of_one_type(plain_reducer(window.called[0]), window.array.dtype)
    lanes = lanes_of_fold(fold, k.target)
    is_wide = pool.channels >= lanes or has_masks(source.dtype, k.target)
    if not k.lanes or not is_wide or any(number is not None for number in k.aliased):
        _loops(k, scaled.rows)
        return
    routine = pool_routine(fold, k.target)
    k.use(routine)
    b = k.b
    init = b.convert(k.read(window.operands[1], ()), fold.total)
    finish, scale = _scale(k, scaled.factor, fold.total)
    table = f"ptr {number_table(k, table_of(pool, finish))}"
    factors = [f"{REPRESENTATIONS[fold.total].register} {x}" for x in (init.text, scale)]
    arrays = (source.pointer, k.output.pointer)
    b.call_routine(routine.name, arrays, *factors, table, k.begin, k.end)
    k.level = 0  # all work is in the routine


def _scaled_pool(inst: Instruction) -> _ScaledPool | None:
    """Return the pooling of `inst`, None if it does more."""
    window, factor = scaled_pool(root_of(inst))
    if not window.is_a("reduce-window"):
        return None
    if inst.is_a("fusion") and not window.operands[0].is_a("parameter"):
        return None
    if not inst.is_a("fusion") and factor is not None:
        return None
    pool = pool_of(window)
    if pool is None or (plain_reducer(window.called[0]) == "add" and _elements(pool) > LONG_SUM):
        return None  # the routine sums a window in one register
    return _ScaledPool(pool, window, factor)


def _elements(pool: Pool) -> int:
    """Return the elements of a window."""
    return pool.y.window.size * pool.x.window.size


def _scale(k: KernelContext, factor: Instruction | None, total: DType) -> tuple[int, str]:
    """Return the operation on results, and its factor as an argument."""
    if factor is None:
        return UNSCALED, k.b.const(total, 1).text
    finish = MULTIPLIED if k.root.is_a("multiply") else DIVIDED
    return finish, k.b.convert(k.read(factor, ()), total).text


def _loops(k: KernelContext, rows: int) -> None:
    """Emit loops over single elements."""
    shape = k.root.array
    order = physical_order(shape)
    sizes = [shape.dims[d] for d in order]
    k.is_final = False
    count, outer = 1, 0
    while count < rows or (outer < len(sizes) and sizes[outer] == 1):
        count *= sizes[outer]
        outer += 1
    assert prod(sizes[:outer]) == rows
    with k.body.loop(k.begin, k.end) as row:
        place = k.math.delinear(row, sizes[:outer])
        with k.body.nest(shape.dims, order[outer:]) as at:
            for dim, position in zip(order, place, strict=False):
                at[dim] = position
            index = tuple(at)
            k.output.store(k.math, index, k.read(k.root, index))


EMITTER = Emitter("pool", plan)
