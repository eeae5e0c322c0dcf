"""Cumulative sums, products and extrema: prefix reduce-windows, in one pass.

Along the fastest dimension, blocks of a row are computed into a buffer in the L1 cache and scanned
in registers: each vector by doubling (itself, plus itself shifted by one lane, plus that shifted by
two ...), then the prefix so far is added. Along another dimension, each column of a strip has an
accumulator. Every element is read once and written once.

Sums of floats do not lose accuracy with length: the prefix before a group of vectors, or a block of
rows, is kept in f64. The order of additions depends only on sizes and the vector width.
"""

from __future__ import annotations

from functools import partial
from math import prod

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.column_strips import COLUMN_PIECE, STRIP, column_pieces, shared_strips
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.lane_feed import operations_of
from hloc.codegen.kernels.lanes import Lanes, lanes_of
from hloc.codegen.kernels.running_sums import block_end
from hloc.codegen.kernels.scan import ScanElements, ScanProblem, scan_problem
from hloc.codegen.kernels.vectors import Vectors
from hloc.dtypes import F32, F64, S32, U32, DType
from hloc.ir.instruction import Instruction
from hloc.ops.folding import identity_of, recognised_reducer

_BLOCK = 1024
"""Elements of a row that are computed, scanned and written at a time."""

_GROUP = 4
"""Vectors of a block that are scanned together, to shorten the dependency chain of prefixes."""

_ROWS = 64
"""Addends of a column that are summed in the type of the result before they are added in f64."""

_MANY_OPERATIONS = 8
"""Fewest operations for an element that lanes compute; LLVM interleaves vectors of simpler ones.

Time relative to LLVM's vectors, AVX2: 0.24 for random walks whose steps are gathered from a table,
0.94 for sums of random normal numbers; 1.1 for conversions from bf16.
"""

_SHORT = 12
"""Most elements of a scan that is unrolled, unless it is one of many columns.

LLVM computes such scans side by side. Sums along `f32[2000,3]`: 3.6 us, not 29.
"""


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a plain scan: a loop over rows, or over strips of columns."""
    problem = scan_problem(inst)
    if problem is None:
        return None
    if problem.size <= _SHORT and problem.others and not problem.by_columns:
        return KernelPlan(partial(_emit_short, problem), problem.sizes[0])
    if problem.by_columns and len(problem.others) == 1:
        columns = problem.sizes[0]
        if columns % COLUMN_PIECE == 0:  # so that vectors end with the columns of every thread
            return KernelPlan(partial(_emit_columns, problem), column_pieces(columns))
    return KernelPlan(partial(_emit, problem), prod(_units(problem)))


def _units(problem: ScanProblem) -> list[int]:
    """Return the sizes of the outer loops: the other dimensions, the last one in strips."""
    units = problem.sizes
    if problem.by_columns:
        units[-1] = -(-units[-1] // STRIP)
    return units


def _emit_columns(problem: ScanProblem, k: KernelContext) -> None:
    """Write the loop over strips of the only other dimension."""
    (strip,) = problem.others
    with shared_strips(k, problem.dims[strip]) as (first, width):
        _Strip(k, problem, [0] * k.root.array.rank, strip, (first, width)).write()


def _emit(problem: ScanProblem, k: KernelContext) -> None:
    """Write the loop over rows or strips."""
    with k.body.loop(k.begin, k.end) as unit:
        index: list[IndexValue] = [0] * k.root.array.rank
        for dim, at in zip(problem.others, k.math.delinear(unit, _units(problem)), strict=True):
            index[dim] = at
        if not problem.by_columns:
            _Row(k, problem, index).write()
            return
        strip = problem.others[-1]
        first, index[strip] = k.math.mul(index[strip], STRIP), 0
        size = problem.dims[strip]
        end = block_end(k, first, size, STRIP)
        width = k.math.sub(end, first) if size > STRIP else size
        _Strip(k, problem, index, strip, (first, width)).write()


def _emit_short(problem: ScanProblem, k: KernelContext) -> None:
    """Write the loops over all scans, each of them unrolled."""
    with k.body.nest(problem.dims, problem.others, (k.begin, k.end)) as index:
        scan = _Scan(k, problem, index)
        for number in range(problem.form.empty):
            scan.store_empty(index, number, scan.start)
        total, found = scan.start, []
        for step in range(problem.size):
            total = scan.folded(total, scan.read(index, step))
            found.append(total)
        for step in range(*problem.results):
            scan.store(index, step, found[step])


def _working_type(dtype: DType) -> DType:
    """Return the type of accumulators: at least 32 bits, so that lanes have one size."""
    if dtype.is_float:
        return F32 if dtype.bits < 32 else dtype
    if dtype.bits >= 32:
        return dtype
    return S32 if dtype.is_signed else U32


class _Scan(ScanElements):
    """The common part of rows and columns: types, the initial value, the reducer."""

    def __init__(self, k: KernelContext, problem: ScanProblem, index: list[IndexValue]) -> None:
        super().__init__(k, problem, _working_type(k.root.array.dtype))
        self.b, self.form, self.index, self.size = k.b, problem.form, index, problem.size
        self.fold = recognised_reducer(k.root.called[0])
        self.is_sum = self.fold == "add" and self.dtype.is_float
        self.start = self.initial()

    def folded(self, x: Value, y: Value) -> Value:
        """Return the reducer of two scalars."""
        b = self.b
        if self.fold in ("and", "or", "xor"):
            return {"and": b.and_, "or": b.or_, "xor": b.xor}[self.fold](x, y)
        if self.fold in ("minimum", "maximum"):
            if self.dtype.is_float:
                return b.intrinsic(self.fold, x, y)
            return b.intrinsic(("s" if self.dtype.is_signed else "u") + self.fold[:3], x, y)
        if self.dtype.is_float:
            return b.fadd(x, y) if self.fold == "add" else b.fmul(x, y)
        return b.iadd(x, y) if self.fold == "add" else b.imul(x, y)

    def lanes_for(self, size: int, block: int) -> Lanes | None:
        """Return the lanes that compute `size` elements in blocks, None if LLVM's are better.

        Elements take many operations, and blocks are whole vectors, or a single one ends in a
        vector that computes some elements again.
        """
        lanes = lanes_of(self.k)
        is_long = operations_of(self.k, [self.operand]) >= _MANY_OPERATIONS
        if lanes is None or not is_long or not lanes.fit(size):
            return None
        is_whole = size <= block or (size % lanes.count == 0 and block % lanes.count == 0)
        return lanes if is_whole else None

    def results(self, first: IndexValue, end: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return the range of the steps from `first` to `end` that are results."""
        m, (low, high) = self.k.math, self.problem.results
        return (
            m.maximum(first, low) if low else first,
            m.minimum(end, high) if high < self.size else end,
        )


class _Row(_Scan):
    """One row, in blocks; the prefix before a block is in all lanes of a vector."""

    def __init__(self, k: KernelContext, problem: ScanProblem, index: list[IndexValue]) -> None:
        super().__init__(k, problem, index)
        lanes = max(2, k.target.vector_bits // (8 * self.dtype.storage_bytes))
        self.v = Vectors(k.b, self.dtype, lanes)
        self.vectors = min(_GROUP, -(-self.size // lanes))
        self.group = lanes * self.vectors
        count = min(self.size, _BLOCK)
        self.buffer = k.b.allocate(self.dtype, -(-count // self.group) * self.group)
        self.before = k.fn.allocate(self.v.type)
        self.total = k.b.allocate(F64)
        self.neutral = self.v.constant(self._neutral())

    def _neutral(self) -> float:
        if self.is_sum:
            return -0.0
        source = self.k.root.array.dtype
        kind = source.numpy if source.is_pred else self.dtype.numpy
        return identity_of(self.fold, kind).item()  # type: ignore[no-any-return]

    def write(self) -> None:
        """Write the loops over blocks."""
        k = self.k
        with k.body.loop(0, self.form.empty) as number:
            self.store_empty(self.index, number, self.start)
        k.fn.line(f"store {self.v.type} {self.v.splat(self.start)}, ptr {self.before}")
        if self.is_sum:
            k.b.store(self.total, 0, k.b.convert(self.start, F64))
        lanes = self.lanes_for(self.size, _BLOCK)
        with k.body.loop(0, self.size, _BLOCK) as first:
            end = block_end(k, first, self.size, _BLOCK) if self.size > _BLOCK else self.size
            elements = k.body.loop if lanes is None else partial(lanes.loop, size=self.size)
            with elements(first, end) as step:
                at = k.math.value(k.math.sub(step, first))
                k.b.store(self.buffer, at, self.read(self.index, step))
            with k.body.loop(0, k.math.sub(end, first), self.group) as place:
                self._scan_group(place)
            with k.body.loop(*self.results(first, end)) as step:
                at = k.math.value(k.math.sub(step, first))
                self.store(self.index, step, k.b.load(self.buffer, self.dtype, at))

    def _scan_group(self, place: IndexValue) -> None:
        """Scan some vectors of the buffer; elements beyond the end of the row are undefined."""
        k, v = self.k, self.v
        places = [k.math.add(place, n * v.lanes) for n in range(self.vectors)]
        parts = [self._scanned(v.load(self.buffer, at)) for at in places]
        came = k.fn.value(f"load {v.type}, ptr {self.before}")
        inside = ""
        for at, part in zip(places, parts, strict=True):
            before = v.folded(self.fold, came, inside) if inside else came
            v.store(self.buffer, at, v.folded(self.fold, before, part))
            last = v.lane_everywhere(part, v.lanes - 1)
            inside = v.folded(self.fold, inside, last) if inside else last
        k.fn.line(f"store {v.type} {self._joined(came, inside)}, ptr {self.before}")

    def _scanned(self, x: str) -> str:
        """Return the scan of the lanes of one vector."""
        step = 1
        while step < self.v.lanes:
            x = self.v.folded(self.fold, self.v.shifted_up(x, step, self.neutral), x)
            step *= 2
        return x

    def _joined(self, came: str, inside: str) -> str:
        """Return the prefix before the next group, in all lanes."""
        b, v = self.b, self.v
        if not self.is_sum:
            return v.folded(self.fold, came, inside)
        part = b.convert(v.lane(inside, 0), F64)
        total = b.fadd(b.load(self.total, F64, 0), part)
        b.store(self.total, 0, total)
        return v.splat(b.convert(total, self.dtype))


class _Strip(_Scan):
    """Contiguous columns, at most `STRIP`, each with an accumulator."""

    def __init__(
        self,
        k: KernelContext,
        problem: ScanProblem,
        index: list[IndexValue],
        strip: int,
        columns: tuple[IndexValue, IndexValue],
    ) -> None:
        """Of dimension `strip`, take some `columns`: the first, and their number."""
        super().__init__(k, problem, index)
        self.strip, (self.first, self.width) = strip, columns
        size = self.operand.array.dims[strip]
        count = min(size, STRIP)
        self.sums = k.b.allocate(self.dtype, count)
        self.before = k.b.allocate(self.dtype, count)
        self.total = k.b.allocate(F64, count)
        self.lanes = self.lanes_for(size, STRIP)
        self.row = k.b.allocate(self.dtype, count) if self.lanes else None

    def write(self) -> None:
        """Write the loops over rows, in blocks if they are summed."""
        k, body = self.k, self.k.body
        with body.loop(0, self.form.empty) as number, body.loop(0, self.width) as column:
            self.store_empty(self._at(column), number, self.start)
        if not self.is_sum:
            with body.loop(0, self.width) as column:
                k.b.store(self.sums, self.k.math.value(column), self.start)
            self._add_rows(0, self.size)
            return
        with body.loop(0, self.width) as column:
            k.b.store(self.total, self.k.math.value(column), k.b.convert(self.start, F64))
        with body.loop(0, self.size, _ROWS) as first:
            self._start_block()
            end = block_end(k, first, self.size, _ROWS) if self.size > _ROWS else self.size
            self._add_rows(first, end)
            self._end_block()

    def _start_block(self) -> None:
        """Round the totals to the prefix; a block's sum starts at -0, the identity of addition."""
        b, dtype = self.b, self.dtype
        with self.k.body.loop(0, self.width) as column:
            at = self.k.math.value(column)
            b.store(self.before, at, b.convert(b.load(self.total, F64, at), dtype))
            b.store(self.sums, at, b.const(dtype, -0.0))

    def _end_block(self) -> None:
        b, dtype = self.b, self.dtype
        with self.k.body.loop(0, self.width) as column:
            at = self.k.math.value(column)
            part = b.convert(b.load(self.sums, dtype, at), F64)
            b.store(self.total, at, b.fadd(b.load(self.total, F64, at), part))

    def _add_rows(self, first: IndexValue, end: IndexValue) -> None:
        """Accumulate the steps from `first` to `end` per column, and write the results."""
        low, high = self.results(first, end)
        for begin, stop, is_result in ((first, low, False), (low, high, True), (high, end, False)):
            if begin is not stop:
                with self.k.body.loop(begin, stop) as step:
                    self._add_row(step, is_result=is_result)

    def _add_row(self, step: IndexValue, *, is_result: bool) -> None:
        b, dtype = self.b, self.dtype
        if self.lanes and self.row:
            size = self.operand.array.dims[self.strip]
            with self.lanes.loop(0, self.width, size) as column:
                value = self.read(self._at(column), step)
                b.store(self.row, self.k.math.value(column), value)
        with self.k.body.loop(0, self.width) as column:
            at, index = self.k.math.value(column), self._at(column)
            element = b.load(self.row, dtype, at) if self.row else self.read(index, step)
            value = self.folded(b.load(self.sums, dtype, at), element)
            b.store(self.sums, at, value)
            if not is_result:
                return
            if self.is_sum:
                value = b.fadd(b.load(self.before, dtype, at), value)
            self.store(index, step, value)

    def _at(self, column: IndexValue) -> list[IndexValue]:
        """Return the index of a column; the scan fills in its own dimension."""
        index = list(self.index)
        index[self.strip] = self.k.math.add(self.first, column)
        return index
