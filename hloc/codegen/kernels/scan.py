"""Cumulative operations on every target: operand, dimension and result.

Each target decides how to split scans, and in which registers they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloc.analysis.cumulative import Cumulative, plain_scan
from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_NARROW = 16
"""Fewer columns than this are scanned one by one, like rows."""


@dataclass(frozen=True, slots=True)
class ScanProblem:
    """The scans of one array.

    Attributes:
        dims: of the operand; `others` are those not scanned, slowest first.
        by_columns: the fastest dimension is not the one that is scanned, and is not narrow.
    """

    form: Cumulative
    dims: tuple[int, ...]
    others: tuple[int, ...]
    by_columns: bool

    @property
    def size(self) -> int:
        """Elements of each scan."""
        return self.dims[self.form.dim]

    @property
    def sizes(self) -> list[int]:
        """Sizes of the dimensions that are not scanned, slowest first."""
        return [self.dims[dim] for dim in self.others]

    @property
    def rows(self) -> int:
        """Number of scans."""
        return prod(self.sizes)

    @property
    def results(self) -> tuple[int, int]:
        """The first step of a scan that is a result, and the one behind the last."""
        f = self.form
        return (self.size - f.limit, self.size - f.start) if f.reverse else (f.start, f.limit)


def scan_problem(inst: Instruction) -> ScanProblem | None:
    """Return the scans that `inst` computes, None if it computes none."""
    root = root_of(inst)
    form = plain_scan(root)
    if form is None:
        return None
    source = root.operands[0].array
    order = loop_order(source)
    others = tuple(dim for dim in order if dim != form.dim)
    by_columns = bool(others) and order[-1] != form.dim and source.dims[order[-1]] >= _NARROW
    return ScanProblem(form, source.dims, others, by_columns)


class ScanElements:
    """The elements of a kernel's scans; an `index` is that of any element of the scan."""

    def __init__(self, k: KernelContext, problem: ScanProblem, dtype: DType) -> None:
        self.k, self.problem, self.dtype = k, problem, dtype
        self.operand, self.init = k.root.operands

    def initial(self) -> Value:
        """Return the initial value of every scan."""
        return self.k.b.convert(self.k.read(self.init, ()), self.dtype)

    def read(self, index: Sequence[IndexValue], step: IndexValue) -> Value:
        """Return element number `step` of a scan, in its order."""
        p, at = self.problem, list(index)
        at[p.form.dim] = self.k.math.sub(p.size - 1, step) if p.form.reverse else step
        return self.k.b.convert(self.k.read(self.operand, tuple(at)), self.dtype)

    def store(self, index: Sequence[IndexValue], step: IndexValue, value: Value) -> None:
        """Write the result of a step."""
        f, m = self.problem.form, self.k.math
        last = self.problem.size - 1 - f.start
        at = m.sub(last, step) if f.reverse else m.add(step, f.empty - f.start)
        self._put(index, at, value)

    def store_empty(self, index: Sequence[IndexValue], number: IndexValue, value: Value) -> None:
        """Write result `number` of an empty scan, the initial value."""
        f = self.problem.form
        at = self.k.math.add(number, f.limit - f.start) if f.reverse else number
        self._put(index, at, value)

    def _put(self, index: Sequence[IndexValue], position: IndexValue, value: Value) -> None:
        output, at = self.k.output, list(index)
        at[self.problem.form.dim] = position
        output.store(self.k.math, tuple(at), self.k.b.convert(value, output.dtype))
