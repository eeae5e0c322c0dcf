"""An f32 as the sum of three bf16, which matrix registers multiply.

The first part is the bf16 nearest to the element, the second the one nearest to what is left, the
third the rest: 8 bits each, so that their sum is the element, whose mantissa has 24. Of the nine
products of two such sums, three are left out: together at most 2^-23 of the whole.

An element has no such parts if it is infinite or NaN, if the nearest bf16 is infinite, or if it is
so small that a part would be subnormal, which these instructions take for zero. It is marked by a
NaN as its first part, and the other two hold its bits. Sums of its products are then NaN, and are
computed anew (`MatrixTiles`).
"""

from __future__ import annotations

from typing import Protocol

from hloc.codegen.llvm.writer import FunctionWriter

PARTS = 3

PART_STEPS = 32
"""Elements of a line of one part, 64 bytes: in memory and in a panel of rows."""

PAIRS = ((0, 2), (0, 1), (1, 1), (2, 0), (1, 0), (0, 0))
"""Parts of both sides whose products are summed, in an order in which few are loaded again.

The smallest parts of each side are first, so that the sum is exact if the other side is 1.
"""

_HIGH_HALF, _HALF_UNIT, _MAGNITUDE = -1 << 16, 1 << 15, (1 << 31) - 1
_MARK = 0x7FC00000
_LEAST, _ROUNDED_TO_INFINITY = (127 - 100) << 23, 0x7F7F8000
"""Bits of 2^-100, the least element whose parts are normal numbers, and of the least magnitude
whose nearest bf16 is infinite."""


class _Written(Protocol):
    """A function that is being written."""

    @property
    def fn(self) -> FunctionWriter:
        """The function."""


def parts_of(w: _Written, bits: str, size: int) -> list[str]:
    """Return the parts of `size` elements, given by their bits, each in the upper half of an i32.

    The lower halves are zero. Few vectors have elements without parts: they take a branch.
    """
    fn, kind, floats = w.fn, f"<{size} x i32>", f"<{size} x float>"
    parts, rest = [], bits
    for _ in range(PARTS - 1):
        up = fn.value(f"add {kind} {rest}, {_all(_HALF_UNIT, size)}")
        parts.append(fn.value(f"and {kind} {up}, {_all(_HIGH_HALF, size)}"))
        whole, nearest = (fn.value(f"bitcast {kind} {x} to {floats}") for x in (rest, parts[-1]))
        left = fn.value(f"fsub {floats} {whole}, {nearest}")
        rest = fn.value(f"bitcast {floats} {left} to {kind}")
    parts.append(rest)
    has_parts = _has_parts(w, bits, size)
    flags = fn.value(f"bitcast <{size} x i1> {has_parts} to i{size}")
    before, marking, after = fn.block, fn.new_block(), fn.new_block()
    fn.branch(fn.value(f"icmp eq i{size} {flags}, -1"), after, marking)
    fn.start_block(marking)
    marked = _marked(w, bits, parts, has_parts, size)
    fn.jump(after)
    fn.start_block(after)
    return [
        fn.value(f"phi {kind} [ {part}, %{before} ], [ {other}, %{marking} ]")
        for part, other in zip(parts, marked, strict=True)
    ]


def _marked(w: _Written, bits: str, parts: list[str], has_parts: str, size: int) -> list[str]:
    """Return the parts, but marks and bits for elements that have none."""
    fn, kind = w.fn, f"<{size} x i32>"
    marks = [
        _all(_MARK, size),
        fn.value(f"and {kind} {bits}, {_all(_HIGH_HALF, size)}"),
        fn.value(f"shl {kind} {bits}, {_all(16, size)}"),
    ]
    return [
        fn.value(f"select <{size} x i1> {has_parts}, {kind} {part}, {kind} {mark}")
        for part, mark in zip(parts, marks, strict=True)
    ]


def _has_parts(w: _Written, bits: str, size: int) -> str:
    """Return which elements are the sum of their parts."""
    fn, kind = w.fn, f"<{size} x i32>"
    magnitude = fn.value(f"and {kind} {bits}, {_all(_MAGNITUDE, size)}")
    above = fn.value(f"sub {kind} {magnitude}, {_all(_LEAST, size)}")
    is_between = fn.value(f"icmp ult {kind} {above}, {_all(_ROUNDED_TO_INFINITY - _LEAST, size)}")
    is_zero = fn.value(f"icmp eq {kind} {magnitude}, zeroinitializer")
    return fn.value(f"or <{size} x i1> {is_between}, {is_zero}")


def element_of(w: _Written, parts: list[str], size: int) -> str:
    """Return `size` elements, given their parts as `parts_of` returns them."""
    fn, kind, floats = w.fn, f"<{size} x i32>", f"<{size} x float>"
    first, second, third = (fn.value(f"bitcast {kind} {x} to {floats}") for x in parts)
    rest = fn.value(f"fadd {floats} {second}, {third}")
    total = fn.value(f"fadd {floats} {first}, {rest}")
    low = fn.value(f"lshr {kind} {parts[2]}, {_all(16, size)}")
    bits = fn.value(f"or {kind} {parts[1]}, {low}")
    kept = fn.value(f"bitcast {kind} {bits} to {floats}")
    is_sum = fn.value(f"fcmp ord {floats} {first}, {first}")
    return fn.value(f"select <{size} x i1> {is_sum}, {floats} {total}, {floats} {kept}")


def unit_words(w: _Written, even: str, odd: str, size: int) -> str:
    """Return the units of one part of two steps of k: the even one in the lower halves."""
    kind = f"<{size} x i32>"
    low = w.fn.value(f"lshr {kind} {even}, {_all(16, size)}")
    return w.fn.value(f"or {kind} {low}, {odd}")


def line_words(w: _Written, part: str, size: int) -> str:
    """Return one part of `size` steps of k as `size / 2` units."""
    fn, kind = w.fn, f"<{size} x i32>"
    shorts = fn.value(f"bitcast {kind} {part} to <{2 * size} x i16>")
    order = ", ".join(f"i32 {2 * i + 1}" for i in range(size))
    upper = fn.value(
        f"shufflevector <{2 * size} x i16> {shorts}, <{2 * size} x i16> poison, "
        f"<{size} x i32> <{order}>"
    )
    return fn.value(f"bitcast <{size} x i16> {upper} to <{size // 2} x i32>")


def steps_of(w: _Written, word: str, size: int) -> tuple[str, str]:
    """Return the even and the odd step of `size` units of one part, in upper halves."""
    kind = f"<{size} x i32>"
    even = w.fn.value(f"shl {kind} {word}, {_all(16, size)}")
    return even, w.fn.value(f"and {kind} {word}, {_all(_HIGH_HALF, size)}")


def _all(number: int, size: int) -> str:
    return f"<{', '.join([f'i32 {number}'] * size)}>"
