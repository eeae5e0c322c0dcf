"""Loops that compute several contiguous elements at a time, one per lane of a vector.

Such loops are already vectorised, so LLVM's vectoriser does not run on them. The number of lanes
depends on the element types of a kernel; kernels with opcodes that branch or move single elements
have none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from hloc.analysis.epilogue import product_in
from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import MOST_TRIPS, IndexValue
from hloc.codegen.builder.values import LaneIndex, is_narrow_float
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.codegen.llvm.target import Target
from hloc.dtypes import S64, DType, component_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.attention_match import attention_of
from hloc.shapes import array_leaves

_OPCODES = frozenset(
    {
        "parameter",
        "constant",
        "iota",
        "broadcast",
        "reshape",
        "bitcast",
        "copy",
        "transpose",
        "reverse",
        "slice",
        "tuple",
        "get-tuple-element",
        "reduce",
        "reduce-window",
        "gather",
        "dynamic-slice",
        "dynamic-update-slice",
        "fusion",
    }
)
"""Opcodes besides the elementwise ones that a kernel with lanes may have."""

_ROOTS = ("concatenate", "topk")
"""Opcodes that a kernel with lanes may have as its root, besides pads that keep all elements."""

_WORD_BYTES = 4
"""A kernel with elements of this size and wider ones has as many lanes as a register has of these.

Its wider elements fill two registers: with one, `threefry` for a uniform f64 runs at half the
speed. But where there are 16 registers, and most elements are wide, they get one: polynomials of
f64 take 1.5 times as long on AVX2 with two.
"""

FEWEST_LANES = 4
"""Elements of the shortest vectors that pay."""

_FEW_NUMBERS = 8
"""Most elements of a concatenation that is no part of the arrays."""

_LEAST_PART = 4
"""A row that is shorter than a vector uses one if it fills more than 1 / this of it."""

_PROCESSORS = ("x86_64", "i686", "aarch64")
"""Architectures on which LLVM maps all vector types to vector registers."""


def lane_count(inst: Instruction, target: Target) -> int:
    """Return how many elements of a kernel's arrays fill a register, 0 if it needs scalars."""
    if not target.triple.startswith(_PROCESSORS):
        return 0
    members = [inst]
    if inst.is_a("fusion"):
        products = _products(inst.called[0])
        members = [member for member in inst.called[0].instructions if member not in products]
    for member in members:
        has_lanes = member.opcode.elemental is not None or member.opcode.name in _OPCODES
        is_root = member is root_of(inst) and (pads_only(member) or member.is_a(*_ROOTS))
        if not has_lanes and not is_root and not _has_known_parts(member):
            return 0
    values = [value for member in members for value in (member, *member.operands)]
    arrays = [shape for value in values for shape in array_leaves(value.shape)]
    types = Counter([shape.dtype for shape in arrays if shape.dims])
    sizes: Counter[int] = Counter()
    for dtype, count in types.items():
        sizes[_computed_bytes(dtype)] += count
    widest = max(sizes, default=0)
    if not widest:
        return 0
    if sizes[_WORD_BYTES] > (0 if has_many_registers(target) else sizes[widest]):
        widest = _WORD_BYTES
    count = target.vector_bytes // widest
    shortest = _shortest_row(inst) if has_masks(target) else 0
    while shortest and count > FEWEST_LANES and shortest <= count // 2:
        count //= 2
    return count


_WITHOUT_WORK = ("parameter", "constant", "iota", "broadcast", "bitcast", "tuple")
"""Opcodes that an elementwise fusion may have besides: they move no elements between lanes."""


def fills_vectors(inst: Instruction, target: Target) -> bool:
    """True if the results are elementwise, without functions such as exp, and each a few vectors.

    Within a loop, LLVM unrolls the loops over the vectors and over what they leave, and keeps all
    in registers from one iteration to the next. Time relative to loops that LLVM vectorises, AVX2:
    0.29 for a multiply-add of 64 f32, 0.29 for two states of 6, 0.15 of 10, 0.55 of 30, 0.87 for
    conjugate gradients; 1.2 for a state of 30 f64 that depends on the last two, which 16 registers
    do not hold. With exp, 64 f32 would take 0.96, and 1.5 times as long to compile.
    """
    members = inst.called[0].instructions if inst.is_a("fusion") else (inst,)
    if any(m.opcode.transcendental and not m.is_a("sqrt") for m in members):
        return False
    if not all(m.opcode.elementwise or m.is_a(*_WITHOUT_WORK) for m in members):
        return False
    lanes = lane_count(inst, target)
    sizes = [shape.elements for shape in array_leaves(inst.shape)]
    is_whole = lanes > 0 and all(n % lanes == 0 for n in sizes)
    if not lanes or (has_masks(target) and not is_whole):
        return False  # a part of a long vector is many elements
    least = min(lanes, max(lanes // 2, FEWEST_LANES))  # fewer are unrolled one by one
    return all(least <= n < (MOST_TRIPS + 1) * lanes for n in sizes)


def pads_only(inst: Instruction) -> bool:
    """True for a pad that keeps all elements of its operand."""
    return inst.is_a("pad") and all(p.low >= 0 and p.high >= 0 for p in inst.attributes.padding)


def _has_known_parts(inst: Instruction) -> bool:
    """True for a concatenation whose elements in use come from parts that are known.

    That is so for start indices of gathers, and for a few numbers, such as keys of random bits, of
    which slices are broadcast. Others are refused when lanes read them.
    """
    if not inst.is_a("concatenate") or inst.is_root:
        return False
    return inst.array.elements <= _FEW_NUMBERS or all(
        user.is_a("gather")
        and user.operands[0] is not inst
        and inst.attributes.dimensions == (user.attributes.index_vector_dim,)
        for user in inst.users
    )


def has_many_registers(target: Target) -> bool:
    """True if the target has 32 vector registers."""
    return target.is_aarch64 or target.has("avx512vl")


def has_masks(target: Target) -> bool:
    """True if the target has masked loads and stores that are as fast as plain ones."""
    return target.has("avx512bw") and target.has("avx512vl")


def _shortest_row(inst: Instruction) -> int:
    """Return the elements of the shortest row that a fusion reduces for more than its sum, or 0."""
    body = inst.called[0] if inst.is_a("fusion") else None
    if body is None or body.root.is_a("reduce"):
        return 0
    reduced = (r.operands[0].array for r in body.instructions if r.is_a("reduce"))
    rows = [shape.dims[shape.minor_to_major[0]] for shape in reduced if shape.dims]
    return min(rows, default=0)


def _products(body: Computation) -> tuple[Instruction, ...]:
    """Return the gemms of a fused computation that call routines."""
    product = product_in(body)
    if product is not None:
        return (product,)
    attention = attention_of(body.root) if body.root.is_a("dot") else None
    return () if attention is None else (attention.scores, attention.result)


def _computed_bytes(dtype: DType) -> int:
    """Return the size of an element in a register."""
    component = component_of(dtype)
    return 4 if is_narrow_float(component) else component.storage_bytes


@dataclass(frozen=True, slots=True)
class Lanes:
    """Writes loops over lanes into a kernel."""

    k: KernelContext
    b: LaneBuilder

    @property
    def count(self) -> int:
        """Elements at a time."""
        return self.b.lanes

    def fit(self, size: int) -> bool:
        """True if `size` contiguous elements can be computed in whole vectors.

        If `size` is not a multiple, the last vector computes elements again, so their operands
        must not have been overwritten.
        """
        if size % self.count == 0:
            return size > 0
        return size > self.count and not any(a is not None for a in self.k.aliased)

    def fit_part(self, size: int) -> bool:
        """True if part of a vector computes `size` elements faster than one by one."""
        is_part = self.count < size * _LEAST_PART < self.count * _LEAST_PART
        return is_part and has_masks(self.k.target)

    def fit_masked(self, size: int) -> bool:
        """True if vectors of which the last is partial compute `size` elements faster."""
        return size > self.count and has_masks(self.k.target)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A region in which values of one element are kept per lane."""
        outer, self.b.is_inside = self.b.is_inside, True
        try:
            yield
        finally:
            self.b.is_inside = outer

    def rows_of_part(self, rows: int) -> tuple[IndexValue, IndexValue]:
        """Return the rows of the thread's part if `rows` are computed side by side.

        The bounds of the part are rounded up to whole vectors.
        """
        m = self.k.math

        def rounded(bound: IndexValue) -> IndexValue:
            vectors = m.div(m.add(bound, self.count - 1), self.count)
            return m.minimum(m.mul(vectors, self.count), rows)

        return rounded(self.k.begin), rounded(self.k.end)

    def at(self, position: IndexValue) -> LaneIndex:
        """Return the index of the vector of elements from `position` on."""
        return LaneIndex(S64, self.k.math.value(position).text)

    @contextmanager
    def loop(self, start: IndexValue, stop: IndexValue, size: int) -> Iterator[LaneIndex]:
        """Run the region for all vectors from `start` to `stop` of `size` contiguous elements."""
        with self.k.body.loop(start, stop, self.count) as first, self.inside():
            if size % self.count:
                first = self.k.math.minimum(first, size - self.count)
            yield self.at(first)

    @contextmanager
    def masked_loop(self, start: IndexValue, stop: IndexValue) -> Iterator[LaneIndex]:
        """Run the region for all vectors from `start` to `stop`, part of the last one included."""
        math = self.k.math
        with self.k.body.loop(start, stop, self.count) as first:
            left = math.sub(stop, first)
            with self.inside(), self.b.first_lanes(left):
                yield self.at(first)


def lanes_of(k: KernelContext) -> Lanes | None:
    """Return the writer of loops over lanes, None if the kernel has no lanes."""
    return Lanes(k, k.b) if isinstance(k.b, LaneBuilder) and k.b.lanes else None


def mark_final(k: KernelContext) -> None:
    """Skip LLVM's passes for a kernel whose loops all run over lanes."""
    if k.is_final:
        k.level = FINAL_WITH_SLOTS


def lane_loop(
    k: KernelContext, size: int, *, contiguous: bool = True
) -> AbstractContextManager[IndexValue]:
    """Return a loop over `size` elements, in lanes if possible, else one by one.

    Unlike `positions`, it never relies on LLVM's vectoriser: for a small part of the work.
    """
    lanes = lanes_of(k) if contiguous else None
    if lanes is None or not lanes.fit(size):
        return k.body.loop(0, size)
    return lanes.loop(0, size, size)


@contextmanager
def positions(
    k: KernelContext, size: int, start: IndexValue, stop: IndexValue
) -> Iterator[IndexValue]:
    """Run the region from `start` to `stop` of `size` elements, several at a time if possible.

    The parts of threads begin at multiples of a vector (`split_kernel.py`).
    """
    lanes = lanes_of(k)
    if lanes is not None and lanes.fit(size):
        with lanes.loop(start, stop, size) as position:
            yield position
    elif lanes is not None and lanes.fit_masked(size):
        with lanes.masked_loop(start, stop) as position:
            yield position
    else:
        k.is_final = False
        with k.body.loop(start, stop) as position:
            yield position


def each_position(
    k: KernelContext,
    size: int,
    start: IndexValue,
    stop: IndexValue,
    write: Callable[[IndexValue], None],
) -> None:
    """Call `write` for loops from `start` to `stop` of `size` elements as those of `positions`.

    Where the last vector must not compute elements again, and there are no masks, the elements
    after the last whole vector have a loop of their own.
    """
    lanes = lanes_of(k)
    fits = lanes is not None and (lanes.fit(size) or lanes.fit_masked(size))
    if lanes is None or size < lanes.count or (fits and not k.is_inlined):
        with positions(k, size, start, stop) as position:
            write(position)
        return
    whole = size - size % lanes.count
    with lanes.loop(start, k.math.minimum(stop, whole), whole) as position:
        write(position)
    with k.body.loop(k.math.maximum(start, whole), stop) as position:
        write(position)


@contextmanager
def lanes_nest(
    k: KernelContext,
    dims: Sequence[int],
    order: Sequence[int],
    first_range: tuple[IndexValue, IndexValue],
    before_row: Callable[[list[IndexValue]], None] | None = None,
) -> Iterator[list[IndexValue]]:
    """Run the region for every index as `Body.nest` does, several of the fastest at a time.

    `before_row` writes what runs before each row along the fastest dimension.
    """
    if not order:
        yield [0] * len(dims)
        return
    *slow, last = order
    with k.body.nest(dims, slow, first_range) as index:
        start, stop = (0, dims[last]) if slow else first_range
        if before_row is not None:
            before_row(index)
        with positions(k, dims[last], start, stop) as position:
            index[last] = position
            yield index


@contextmanager
def nest_of_rows(
    k: KernelContext, dims: Sequence[int], around: Sequence[int]
) -> Iterator[list[IndexValue]]:
    """Run the region for every index of the dimensions `around` rows, with a row in each lane.

    The lanes run over the last of these dimensions, which has more elements than a vector. Elements
    that are far apart are loaded and stored one by one.
    """
    lanes = lanes_of(k)
    assert lanes is not None
    lanes.b.reads_apart = lanes.b.writes_apart = True
    part = lanes.rows_of_part(dims[around[0]]) if len(around) == 1 else (k.begin, k.end)
    with lanes_nest(k, dims, around, part) as index:
        yield index
