"""What of the copy of a convolution's input one thread reads."""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.convolution.convolution_problem import Convolution
from hloc.codegen.cpu.emitters.convolution.padded_input import Padded
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.kernels.context import KernelContext
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SharedLines:
    """The lines, of the slowest dimension of the copy, that pieces of a gemm read.

    Attributes:
        dimension: that dimension, of the input.
        lines: of the whole copy.
        results: places of the result along it.
        rows, piece: rows of the gemm of one place of the result, and of a piece.
        stride, reach: lines from one result to the next, and lines that one result reads.
    """

    dimension: int
    lines: int
    results: int
    rows: int
    piece: int
    stride: int
    reach: int

    def repeated(self, size_bytes: int) -> int:
        """Return the bytes, of all that the copy takes, that neighbouring parts both write."""
        return size_bytes * self.reach // self.lines

    def bounds(self, k: KernelContext) -> tuple[IndexValue, IndexValue]:
        """Return the first line that the kernel's pieces read, and where the lines end."""
        math = k.math
        end = math.minimum(math.mul(k.end, self.piece), self.results * self.rows)
        first = math.div(math.mul(k.begin, self.piece), self.rows)
        last = math.sub(math.ceiling_div(end, self.rows), 1)
        return math.mul(first, self.stride), math.add(math.mul(last, self.stride), self.reach)


def shared_lines(c: Convolution, product: PackedGemm, copy: Padded) -> SharedLines | None:
    """Return the lines of `copy` that pieces of `product` read, None if it is read as a whole."""
    sides = {
        "outer": (product.outer[:1], 1),
        "rows": (product.rows, product.row_piece),
        "columns": (product.columns, product.column_piece),
    }
    axes, piece = sides[product.shared]
    slowest, rows = axes[0], prod(axis.size for axis in axes[1:])
    labels, result = c.dims, layout_strides(c.result)
    places = [(labels.output_batch, labels.input_batch, 1, 1)]
    places += [
        (out, held, d.stride, (d.size - 1) * d.window_dilation + 1)
        for out, held, d in zip(labels.output_spatial, labels.input_spatial, c.window, strict=True)
    ]
    for out, held, stride, reach in places:
        is_along = (result[out], c.result.dims[out]) == (slowest.out, slowest.size)
        if is_along and _is_slowest(c, copy, held):
            lines = copy.dims[held]
            return SharedLines(held, lines, slowest.size, rows, piece, stride, reach)
    return None


def _is_slowest(c: Convolution, copy: Padded, held: int) -> bool:
    """True if lines of the copy along a dimension of the input follow each other in memory."""
    others = (d for d in range(len(copy.dims)) if d != held and copy.dims[d] > 1)
    is_slowest = all(copy.strides[d] < copy.strides[held] for d in others)
    return is_slowest and copy.groups == c.batch_groups == 1 < c.lhs.dims[held]
