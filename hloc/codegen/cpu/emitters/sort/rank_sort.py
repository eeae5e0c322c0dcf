"""Short rows are sorted by rank: the position of an element is the number of elements before it.

All keys are compared with all others, several at a time. That is quadratic, but has no
unpredictable branch and needs no histogram.
"""

from __future__ import annotations

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.cpu.emitters.sort.sort_keys import element_key
from hloc.codegen.kernels.vectors import Vectors
from hloc.codegen.llvm.target import Target
from hloc.dtypes import DTYPES, S64, DType

_MOST = 128
"""Elements of the longest row that is sorted by rank on any machine."""

_VECTOR_BYTES = 64
"""Size of the vectors for which `_LONGEST` holds."""

_LONGEST = {8: 48, 16: 72, 32: _MOST, 64: _MOST}
"""Longest row that is sorted by rank, by the width of keys: a radix sort of few digits is fast."""

RANKED_BYTES = 2 * _MOST * 8
"""Scratch memory: keys and ranks."""


def ranked_size(key: DType, target: Target) -> int:
    """Return the length of the longest row with such keys that is sorted by rank."""
    return min(_MOST, _LONGEST[key.bits] * target.vector_bytes // _VECTOR_BYTES)


def rank_function(
    name: str, key: DType, other: DType | None, is_float: bool, target: Target
) -> RoutineWriter:
    """Return the function `NAME_ranked`, with the parameters of the routine `NAME`.

    Args:
        name: of the routine.
        key: unsigned type of keys and elements.
        other: type of the payload, None for none.
        is_float: see `KeyForm`.
        target: whose vectors are used.
    """
    others = (
        "ptr %others",
        "i64 %others_step",
        "ptr noalias %to_others",
        "i64 %others_to",
    )
    w = RoutineWriter(
        f"{name}_ranked",
        (
            *("ptr %from", "i64 %from_step", "ptr noalias %to", "i64 %to_step"),
            *(others if other else ()),
            *("ptr noalias %scratch", "i64 %size"),
            *(f"i{key.bits} %{number}" for number in ("limit", "zero", "flip")),
        ),
        target,
    )
    ranks = _Ranks(w, key, target)
    ranks.fill(is_float)
    ranks.find()
    ranks.move(key, "%from", "%from_step", "%to", "%to_step")
    if other:
        ranks.move(other, "%others", "%others_step", "%to_others", "%others_to")
    return w


class _Ranks:
    """Writes the loops over keys, which are signed integers of at least 32 bits."""

    def __init__(self, w: RoutineWriter, key: DType, target: Target) -> None:
        self.w, self.fn, self.b, self.math, self.body = w, w.fn, w.b, w.math, w.body
        self.key = key
        self.dtype = DTYPES[f"s{max(32, key.bits)}"]
        self.lanes = target.vector_bytes // self.dtype.storage_bytes
        self.v = Vectors(w.b, self.dtype, self.lanes)
        self.size = argument("%size")
        self.keys = pointer_value("%scratch")
        self.ranks = w.b.offset_pointer(self.keys, _MOST * self.dtype.storage_bytes)

    def _stepped(self, i: IndexValue, step: str) -> Value:
        return self.math.value(self.math.mul(i, argument(step)))

    def fill(self, is_float: bool) -> None:
        """Write the keys, and the largest number after them so that vectors are full."""
        b = self.b
        top = b.const(self.key, 1 << (self.key.bits - 1))
        with self.body.loop(0, self.size) as i:
            at = self._stepped(i, "%from_step")
            bits = b.load(pointer_value("%from"), self.key, at)
            key = element_key(b, bits, is_float)
            if self.key.bits == self.dtype.bits:
                key = b.xor(key, top)
            b.store(self.keys, i, b.convert(key, self.dtype))
        largest = b.const(self.dtype, (1 << (self.dtype.bits - 1)) - 1)
        with self.body.loop(self.size, self._padded()) as i:
            b.store(self.keys, i, largest)

    def _padded(self) -> IndexValue:
        m = self.math
        return m.mul(m.div(m.add(self.size, self.lanes - 1), self.lanes), self.lanes)

    def find(self) -> None:
        """Write the ranks."""
        v, m, fn = self.v, self.math, self.fn
        total = fn.allocate(v.type)
        numbers = ", ".join(f"{v.element} {lane}" for lane in range(self.lanes))
        padded = self._padded()
        with self.body.loop(0, self.size, self.lanes) as first:
            mine = v.load(self.keys, first)
            start = self.b.convert(m.value(first), self.dtype)
            fn.line(f"store {v.type} {v.splat(start)}, ptr {total}")
            after = m.add(first, self.lanes)
            with self.body.loop(0, first) as i:  # stable: earlier equal elements come first
                self._add(total, self._less(mine, self._everywhere(i)))
            with self.body.loop(first, after) as i:
                it = self._everywhere(i)
                equal = fn.value(f"icmp eq {v.type} {it}, {mine}")
                lane = v.splat(self.b.convert(m.value(m.sub(i, first)), self.dtype))
                is_later = fn.value(f"icmp slt {v.type} {lane}, <{numbers}>")
                kind = f"<{self.lanes} x i1>"
                tie = fn.value(f"and {kind} {equal}, {is_later}")
                comes = fn.value(f"or {kind} {self._less(it, mine)}, {tie}")
                self._subtract(total, comes)
            with self.body.loop(after, padded) as i:
                self._subtract(total, self._less(self._everywhere(i), mine))
            ranks = fn.value(f"load {v.type}, ptr {total}")
            v.store(self.ranks, first, ranks)

    def _everywhere(self, i: IndexValue) -> str:
        return self.v.splat(self.b.load(self.keys, self.dtype, self.math.value(i)))

    def _less(self, x: str, y: str) -> str:
        return self.fn.value(f"icmp slt {self.v.type} {x}, {y}")

    def _add(self, total: str, holds: str) -> None:
        """Subtract one where a comparison holds, by adding the sign-extended mask."""
        self._combine("add", total, holds)

    def _subtract(self, total: str, holds: str) -> None:
        """Add one where a comparison holds, by subtracting the sign-extended mask."""
        self._combine("sub", total, holds)

    def _combine(self, op: str, total: str, holds: str) -> None:
        fn, v = self.fn, self.v
        mask = fn.value(f"sext <{self.lanes} x i1> {holds} to {v.type}")
        before = fn.value(f"load {v.type}, ptr {total}")
        fn.line(f"store {v.type} {fn.value(f'{op} {v.type} {before}, {mask}')}, ptr {total}")

    def move(self, dtype: DType, source: str, source_step: str, to: str, to_step: str) -> None:
        """Move every element to the position given by its rank."""
        b, m = self.b, self.math
        with self.body.loop(0, self.size) as i:
            rank = b.convert(b.load(self.ranks, self.dtype, m.value(i)), S64)
            value = b.load(pointer_value(source), dtype, self._stepped(i, source_step))
            b.store(pointer_value(to), self._stepped(rank, to_step), value)
