"""Vectors of output features of a direct convolution, summed in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from math import prod

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS
from hloc.codegen.cpu.emitters.convolution.convolution_loops import ConvolutionLoops
from hloc.codegen.cpu.emitters.reduction.fold_routine import has_masks
from hloc.codegen.cpu.emitters.vector_loads import load_lanes, store_lanes, vector_type
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.running_sums import SUM_BLOCK, block_end
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.codegen.llvm.target import Target
from hloc.dtypes import DType
from hloc.lazy_dataclass import dataclass

_REGISTERS = 8
"""Vectors of output features that are summed in registers at a time."""

_CHAINS = 4
"""Independent accumulators per register, to hide the latency of additions."""

_FEWEST_IN_BLOCK = 64
"""Fewest input features that are summed in registers before they are added to the f64 total of a
long sum; fewer are summed in f64."""


def features_at_once(loops: ConvolutionLoops) -> int:
    """Return how many features at a time are summed in registers, 0 for strips in memory.

    Their kernel elements must be contiguous, with one input feature for all or one for each.
    """
    lhs, rhs, labels = loops.lhs, loops.rhs, loops.labels
    span = loops.outputs // loops.groups
    if span == 1:
        if loops.inputs != 1 or lhs.strides[labels.input_feature] != 1:
            return 0
        span = loops.outputs
    if (
        not loops.is_plain()
        or loops.batch_groups > 1
        or rhs.strides[labels.kernel_output_feature] != 1
    ):
        return 0
    if loops.is_long and loops.inputs < _FEWEST_IN_BLOCK:
        return 0
    lanes = loops.k.target.vector_bits // loops.dtype.bits
    sizes = [n for n in range(2, min(span, _REGISTERS * lanes) + 1) if span % n == 0]
    whole = [n for n in sizes if _vector(n, loops.dtype, loops.k.target).is_whole] or sizes
    return min(whole, key=lambda n: (span // n * -(-n // lanes), -n), default=0)


@dataclass(frozen=True, slots=True)
class _Vector:
    """A vector of neighbouring features; `mask` says which lanes are some, "" if all are."""

    lanes: int
    mask: str

    @property
    def is_whole(self) -> bool:
        """True if it fills registers; LLVM takes others apart."""
        return self.lanes & (self.lanes - 1) == 0


def _vector(features: int, dtype: DType, target: Target) -> _Vector:
    """Return a vector for some features, masked where these leave lanes of a register free.

    More than two registers are left to LLVM, as on machines without masks.
    """
    whole = 1 << (features - 1).bit_length()
    fits = whole * dtype.bits <= 2 * target.vector_bits
    if whole == features or not (fits and has_masks(dtype, target)):
        return _Vector(features, "")
    flags = ", ".join(f"i1 {int(lane < features)}" for lane in range(whole))
    return _Vector(whole, f"<{flags}>")


class FeatureVectors:
    """Writes a convolution whose sums of some features at a time LLVM keeps in registers."""

    def __init__(self, loops: ConvolutionLoops, features: int) -> None:
        self.loops, self.k, self.math = loops, loops.k, loops.math
        self.dtype, self.features = loops.dtype, features
        vector = _vector(features, loops.dtype, loops.k.target)
        self.lanes, self.mask = vector.lanes, vector.mask
        self.kind = vector_type(self.dtype, self.lanes)

    def write(self, at: list[IndexValue], per_group: int) -> None:
        """Run over the output features of the position `at`; `per_group` of them are a group."""
        self.k.level = FINAL_WITH_SLOTS
        m, fn, kind, loops = self.math, self.k.fn, self.kind, self.loops
        is_one_register = self.lanes * self.dtype.bits <= self.k.target.vector_bits
        terms = loops.inputs * prod(d.size for d in loops.window)
        has_chains = is_one_register and not loops.is_long
        slots = [fn.allocate(kind) for _ in range(min(terms, _CHAINS) if has_chains else 1)]
        chain = cycle(slots)
        total64 = _LongTotal(self.k, loops.inputs, self.lanes) if loops.is_long else None
        with self.k.body.loop(0, loops.outputs, self.features) as first:
            at[loops.strip] = first
            group = None if per_group == 1 else m.div(first, per_group)
            for slot in slots:
                fn.line(f"store {kind} zeroinitializer, ptr {slot}")
            if total64:
                total64.clear()
            for within in loops.window_elements(loops.unrolled_inputs):
                position, inside = loops.position(at, within)
                inputs = total64.blocks(slots[0]) if total64 else loops.channels()
                with self.k.body.when(inside), inputs as channels:
                    for channel in channels:
                        left, right = loops.operand_indices(at, position, within, channel, group)
                        self._add(next(chain), left, right, is_shared=group is not None)
            self._store(at, slots, total64)

    def _store(self, at: list[IndexValue], slots: list[str], total64: _LongTotal | None) -> None:
        """Store the sum of all slots to the result."""
        fn, kind, output = self.k.fn, self.kind, self.k.output
        place = self.math.value(self.math.linear(tuple(at), output.strides))
        to = self.k.b.address(output.pointer, self.dtype, place)
        if total64:
            total64.move_to(slots[0])
        total, *others = (fn.value(f"load {kind}, ptr {slot}") for slot in slots)
        for other in others:
            total = fn.value(f"fadd {kind} {total}, {other}")
        store_lanes(self.k, to, self.dtype, self.lanes, self.mask, total)

    def _add(self, slot: str, left: Index, right: Index, *, is_shared: bool) -> None:
        """Add the products of some features; `is_shared` if they have one input feature."""
        fn, kind = self.k.fn, self.kind
        if is_shared:
            one = self.loops.lhs.load(self.math, left).text
            element = REPRESENTATIONS[self.dtype].memory
            put = fn.value(f"insertelement {kind} poison, {element} {one}, i64 0")
            order = f"<{self.lanes} x i32> zeroinitializer"
            x = fn.value(f"shufflevector {kind} {put}, {kind} poison, {order}")
        else:
            x = self._load(self.loops.lhs, left)
        product = fn.value(f"fmul contract {kind} {x}, {self._load(self.loops.rhs, right)}")
        total = fn.value(f"load {kind}, ptr {slot}")
        added = fn.value(f"fadd contract {kind} {total}, {product}")
        fn.line(f"store {kind} {added}, ptr {slot}")

    def _load(self, array: IrArray, index: Index) -> str:
        place = self.math.value(self.math.linear(index, array.strides))
        at = self.k.b.address(array.pointer, array.dtype, place)
        return load_lanes(self.k, at, array.dtype, self.lanes, self.mask)


class _LongTotal:
    """The f64 totals of a long sum of f32, to which blocks of it are added."""

    def __init__(self, k: KernelContext, inputs: int, lanes: int) -> None:
        self.k, self.inputs = k, inputs
        self.narrow, self.wide = f"<{lanes} x float>", f"<{lanes} x double>"
        self.slot = self.k.fn.allocate(self.wide)

    def clear(self) -> None:
        """Set the totals to zero."""
        self.k.fn.line(f"store {self.wide} zeroinitializer, ptr {self.slot}")

    @contextmanager
    def blocks(self, slot: str) -> Iterator[Sequence[IndexValue]]:
        """Loop over the input features; the sums in `slot` are added to the totals per block."""
        k, fn = self.k, self.k.fn
        with k.body.loop(0, self.inputs, SUM_BLOCK) as first:
            with k.body.loop(first, block_end(k, first, self.inputs, SUM_BLOCK)) as channel:
                yield [channel]
            block = fn.value(f"load {self.narrow}, ptr {slot}")
            part = fn.value(f"fpext {self.narrow} {block} to {self.wide}")
            total = fn.value(f"load {self.wide}, ptr {self.slot}")
            fn.line(f"store {self.narrow} zeroinitializer, ptr {slot}")
            total = fn.value(f"fadd {self.wide} {total}, {part}")
            fn.line(f"store {self.wide} {total}, ptr {self.slot}")

    def move_to(self, slot: str) -> None:
        """Round the totals into `slot`."""
        fn = self.k.fn
        total = fn.value(f"load {self.wide}, ptr {self.slot}")
        rounded = fn.value(f"fptrunc {self.wide} {total} to {self.narrow}")
        fn.line(f"store {self.narrow} {rounded}, ptr {slot}")
