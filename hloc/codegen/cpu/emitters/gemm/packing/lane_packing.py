"""Packing of columns at arbitrary offsets with gather instructions.

A register holds one step of k for as many neighbouring columns as it has lanes. Mostly these are
contiguous in one line or two, or every second element, as under the windows of a convolution;
otherwise the offsets come from the table of columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.gemm.packing.packing import Packing
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.cpu.emitters.vector_loads import (
    first_lanes,
    load_as,
    load_lanes,
    store_lanes,
    vector_type,
)
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, PRED, S32, S64


def can_gather(p: Packing, lanes: int, target: Target) -> bool:
    """True if columns are packed by registers of `lanes` lanes; elements only move."""
    moves = p.source is p.packed and p.source in (F32, F64, S32) and p.group == 1 and not p.offset
    return moves and p.width % lanes == 0 and target.vector_bits == 512


class LanePacking:
    """Emits a function that packs one panel of columns, with `GATHER_PARAMETERS`."""

    def __init__(self, w: RoutineWriter, p: Packing, lanes: int) -> None:
        self.w, self.fn, self.b, self.body, self.math = w, w.fn, w.b, w.body, w.math
        self.p, self.lanes = p, lanes
        self.vector = vector_type(p.source, lanes)

    def write(self) -> None:
        """Emit the loop over the registers of a panel: whole ones, then a partial one."""
        math, count = self.math, argument("%count")
        whole = math.mul(math.div(count, self.lanes), self.lanes)
        with self.body.loop(0, whole, self.lanes) as i:
            places = self._places(i, "")
            first = self.w.offset("%offsets", i)
            far = Value(PRED, "true")
            for step in (1, 2):
                is_line = self._all(self._equal(self._starts(places, step), first))
                with self.body.when(is_line):
                    self._steps(i, partial(self._line, first, step))
                other = self.fn.value(f"xor i1 {is_line.text}, true")
                far = Value(PRED, self.fn.value(f"and i1 {far.text}, {other}"))
            with self.body.when(far):
                self._broken(i, first, places)
        with self.body.loop(whole, self.p.end(math, count), self.lanes) as i:
            self._gather(i, math.sub(count, i))

    def _broken(self, i: IndexValue, first: Value, places: str) -> None:
        """Move columns in two contiguous runs, one from the first and one up to the last."""
        fn, math, lanes = self.fn, self.math, self.lanes
        last = self.w.offset("%offsets", math.add(i, lanes - 1))
        second = math.value(math.sub(last, lanes - 1))
        starts, flags = self._starts(places, 1), f"<{lanes} x i1>"
        sides = [self._equal(starts, start) for start in (first, second)]
        is_pair = self._all(fn.value(f"or {flags} {sides[0]}, {sides[1]}"))
        vector = self.vector

        def load(at: Value) -> str:
            parts = [
                load_as(self.w, "%from", self.p.source, self.p.packed, lanes, math.add(x, at), side)
                for x, side in zip((first, second), sides, strict=True)
            ]
            return fn.value(f"select {flags} {sides[0]}, {vector} {parts[0]}, {vector} {parts[1]}")

        with self.body.when(is_pair):
            self._steps(i, load)
        with self.body.when(self.b.not_(is_pair)):
            self._gather(i, lanes)

    def _places(self, i: IndexValue, mask: str) -> str:
        """Return the offsets of the columns from `i` on."""
        table = self.b.address(pointer_value("%offsets"), S64, self.math.value(i))
        return load_lanes(self.w, table, S64, self.lanes, mask)

    def _starts(self, places: str, step: int) -> str:
        """Return, per lane, the start of a line with stride `step` that has it at `places`."""
        numbers = ", ".join(f"i64 {lane * step}" for lane in range(self.lanes))
        return self.fn.value(f"sub <{self.lanes} x i64> {places}, <{numbers}>")

    def _equal(self, places: str, wanted: Value) -> str:
        """Return the lanes in which `places` equals `wanted`."""
        fn, kind = self.fn, f"<{self.lanes} x i64>"
        one = fn.value(f"insertelement {kind} poison, i64 {wanted.text}, i64 0")
        order = f"<{self.lanes} x i32> zeroinitializer"
        every = fn.value(f"shufflevector {kind} {one}, {kind} poison, {order}")
        return fn.value(f"icmp eq {kind} {places}, {every}")

    def _all(self, flags: str) -> Value:
        """Return whether all lanes are true."""
        kind, name = f"<{self.lanes} x i1>", f"@llvm.vector.reduce.and.v{self.lanes}i1"
        return Value(PRED, self.fn.call("i1", name, (kind, flags)))

    def _steps(self, i: IndexValue, load: Callable[[Value], str]) -> None:
        """Move every step of k; `load` returns a register, given the offset of a step."""
        math = self.math
        with self.body.loop(0, argument("%depth")) as step:
            value = load(self.w.offset("%steps", step))
            cell = math.value(math.add(math.mul(step, self.p.width), i))
            to = self.b.address(pointer_value("%to"), self.p.packed, cell)
            store_lanes(self.w, to, self.p.packed, self.lanes, "", value)

    def _line(self, first: Value, step: int, place: Value) -> str:
        """Load elements with stride `step`, without reading beyond the last."""

        def load(shift: int) -> str:
            at = self.math.add(self.math.add(first, place), shift)
            return load_as(self.w, "%from", self.p.source, self.p.packed, self.lanes, at)

        if step == 1:
            return load(0)
        half = self.lanes // 2
        chosen = [2 * i for i in range(half)] + [self.lanes + 2 * i + 1 for i in range(half)]
        mask = ", ".join(f"i32 {lane}" for lane in chosen)
        low, high = load(0), load(self.lanes - 1)
        order = f"<{self.lanes} x i32> <{mask}>"
        return self.fn.value(f"shufflevector {self.vector} {low}, {self.vector} {high}, {order}")

    def _gather(self, i: IndexValue, count: IndexValue) -> None:
        """Gather columns at any offsets; columns after the last are zero."""
        fn, lanes, size = self.fn, self.lanes, self.p.source.storage_bytes
        mask = first_lanes(self.w, count, lanes)
        kind, bits = vector_type(self.p.source, lanes), self.p.source.bits
        offsets = self._places(i, mask)
        name = (
            f"@llvm.masked.gather.v{lanes}{'f' if self.p.source.is_float else 'i'}{bits}.v{lanes}p0"
        )
        pointers, flags = f"<{lanes} x ptr>", f"<{lanes} x i1>"

        def load(at: Value) -> str:
            base = self.b.address(pointer_value("%from"), self.p.source, at)
            element = kind.split(" x ")[1][:-1]
            places = fn.value(f"getelementptr {element}, ptr {base}, <{lanes} x i64> {offsets}")
            others = kind, "zeroinitializer"
            given = (pointers, places), ("i32", str(size)), (flags, mask), others
            return fn.call(kind, name, *given)

        self._steps(i, load)
