"""The emitter of dots and convolutions: which kernel makes a product.

Tensor cores make what their types allow on chips that have them, tiles the rest; few rows or
columns go by the memory they read, and what is small is made element by element.
"""

from __future__ import annotations

from enum import Enum, auto

from hloc.codegen.gpu.context import LaunchWriter
from hloc.codegen.gpu.emitters import few_rows
from hloc.codegen.gpu.emitters.convolution_problem import convolution_problem
from hloc.codegen.gpu.emitters.few_rows import MOST_ROWS
from hloc.codegen.gpu.emitters.matrix_epilogue import is_product, product_root
from hloc.codegen.gpu.emitters.matrix_problem import MatrixProblem, dot_problem
from hloc.codegen.gpu.emitters.product_elements import emit_elements
from hloc.codegen.gpu.emitters.tensor_core import emit_tensor_core
from hloc.codegen.gpu.emitters.tensor_core import scratch_for as tensor_core_scratch
from hloc.codegen.gpu.emitters.tensor_core_kinds import has_tensor_cores, kind_of
from hloc.codegen.gpu.emitters.tiled_dot import emit_tiles
from hloc.codegen.gpu.emitters.tiled_dot import scratch_for as tiles_scratch
from hloc.codegen.gpu.kernel import GpuEmitter
from hloc.ir.instruction import Instruction

SMALL_WORK = 1 << 12
"""Multiplications up to which a thread per element is best."""

_FEWEST_LINES = 8
"""Rows and columns below which most of the smallest tile would be empty."""


class Way(Enum):
    """A kernel for products."""

    ELEMENTS = auto()
    FEW_ROWS = auto()
    TILES = auto()


def problem_of(inst: Instruction) -> MatrixProblem:
    """Return the product that `inst` is, or that is inside it."""
    if product_root(inst).opcode.name == "convolution":
        return convolution_problem(inst)
    return dot_problem(inst)


def way_of(p: MatrixProblem) -> Way:
    """Return how `p` is made, the same on all chips; tiles may go to tensor cores."""
    fewest, depth = min(p.rows.count, p.columns.count), p.depth.count
    is_empty = any(side.operand.array.elements == 0 for side in (p.left, p.right))
    work = p.batch.count * p.rows.count * p.columns.count * depth
    if is_empty or work <= SMALL_WORK:
        return Way.ELEMENTS
    if fewest <= MOST_ROWS and kind_of(p) is None and few_rows.suits(p):
        return Way.FEW_ROWS
    return Way.ELEMENTS if fewest < _FEWEST_LINES else Way.TILES


def scratch_bytes(inst: Instruction) -> int:
    """Return room for the sums of parts, on the chip that needs most."""
    p = problem_of(inst)
    way = way_of(p)
    if way is Way.ELEMENTS:
        return 0
    if way is Way.FEW_ROWS:
        return few_rows.scratch_for(p)
    kind = kind_of(p)
    return max(tiles_scratch(p), tensor_core_scratch(p, kind) if kind else 0)


def emit(w: LaunchWriter) -> None:
    """Write the launches of a product."""
    p = problem_of(w.inst)
    way = way_of(p)
    if way is Way.ELEMENTS:
        emit_elements(w, p)
        return
    if way is Way.FEW_ROWS:
        few_rows.emit_few_rows(w, p)
        return
    kind = kind_of(p)
    if kind is not None and has_tensor_cores(w.target):
        emit_tensor_core(w, p, kind)
    else:
        emit_tiles(w, p)


EMITTER = GpuEmitter("matrix product", is_product, emit, scratch_bytes)
