"""The operands of the loops around micro-kernels: their sizes, tables of offsets, and memory."""

from __future__ import annotations

from typing import TypeAlias

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.gemm.packed import offset_table
from hloc.codegen.cpu.emitters.gemm.packed.gemm_arguments import AXES, FIELDS
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import AHEAD, LINES
from hloc.codegen.cpu.emitters.gemm.packed.nest_form import NestForm
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.dtypes import S64
from hloc.memory.heap import CACHE_LINE_BYTES

_ENTRY_BYTES = 8

Pair: TypeAlias = tuple[IndexValue, IndexValue]
"""Two numbers that belong together, such as the first of some columns and their number."""


class NestOperands:
    """What all parts of the loops read.

    Attributes:
        n: the fields of `GemmArguments`.
        tables: per side its table of offsets, of rows, columns, and steps of k.
        panel, panels, sums: scratch memory of packed rows, packed columns, and sums.
    """

    def __init__(self, w: RoutineWriter, form: NestForm) -> None:
        self.w, self.fn, self.body, self.math, self.form = w, w.fn, w.body, w.math, form
        values = [w.offset("%numbers", i) for i in range(len(FIELDS))]
        self.n = dict(zip(FIELDS, values, strict=True))
        self.lists = {
            name: tuple(w.offset("%numbers", len(FIELDS) + 2 * i + j) for j in range(2))
            for i, name in enumerate(AXES)
        }
        self.tables: dict[str, str] = {}
        self.panel = self.panels = self.sums = ""

    def fill_tables(self) -> None:
        """Emit the tables of offsets of rows, columns and steps of k in the operands."""
        n = self.n
        start = place = self.math.aligned("%scratch", CACHE_LINE_BYTES)
        sizes = (("row", "rows"), ("column", "columns"), ("left", "depth"), ("right", "depth"))
        for name, size in sizes:
            self.tables[name] = place
            form = {"row": self.form.rows, "column": self.form.columns}.get(name)
            if form not in (LINES, AHEAD):
                first, count = self.lists[f"{name}_axes"]
                axes = self.entry("%numbers", first)
                self.w.b.call_routine(offset_table.NAME, (place, axes), count)
            place = self.entry(place, n[size])
        self.panel, self.panels, self.sums = (
            self.math.moved(start, n[name]) for name in ("panel", "panels", "sums")
        )

    def places(self, number: IndexValue) -> tuple[Value, ...]:
        """Return the offsets of gemm `number` in lhs, rhs and out, in elements."""
        fn, body = self.fn, self.body
        slots = [fn.allocate("i64") for _ in range(4)]
        rest, *places = slots
        fn.line(f"store i64 {self.math.value(number).text}, ptr {rest}")
        for slot in places:
            fn.line(f"store i64 0, ptr {slot}")
        first, count = self.lists["outer_axes"]
        with body.loop(0, count) as axis:
            at = self.entry("%numbers", self.math.add(first, self.math.mul(axis, 4)))
            size, *steps = (self.w.offset(at, i) for i in range(4))
            left = fn.value(f"load i64, ptr {rest}")
            within = fn.value(f"urem i64 {left}, {size.text}")
            fn.line(f"store i64 {fn.value(f'udiv i64 {left}, {size.text}')}, ptr {rest}")
            for slot, step in zip(places, steps, strict=True):
                moved = fn.value(f"mul i64 {within}, {step.text}")
                before = fn.value(f"load i64, ptr {slot}")
                fn.line(f"store i64 {fn.value(f'add i64 {before}, {moved}')}, ptr {slot}")
        return tuple(Value(S64, fn.value(f"load i64, ptr {slot}")) for slot in places)

    def part(self, side: str, size: IndexValue) -> Pair:
        """Return the range of a side to compute: this thread's part, or all."""
        n, math = self.n, self.math
        step, rest = n[f"{side}_step"], n[f"{side}_rest"]
        end = math.add(math.mul(argument("%end"), step), rest)
        return math.mul(argument("%begin"), step), math.minimum(size, end)

    def steps(self, step: IndexValue) -> tuple[IndexValue, IndexValue]:
        """Return the steps of k of the block that begins at `step`, and those of its panels.

        Panels for matrix registers are padded with zeros.
        """
        n, math = self.n, self.math
        steps = math.minimum(n["deep"], math.sub(n["depth"], step))
        return steps, math.mul(self.units(steps), n["multiple"])

    def units(self, steps: IndexValue) -> Value:
        """Return the number of iterations of the micro-kernel, `multiple` steps each."""
        return self.math.value(self.math.ceiling_div(steps, self.n["multiple"]))

    def pack(
        self,
        name: str,
        side: str,
        operand: str,
        lines: Pair,
        block: Pair,
        to: str,
    ) -> None:
        """Pack a part of the rows or columns: `lines` and `block` are pairs of start and count."""
        (first, count), (step, steps) = lines, block
        steps_table = self.tables["left" if side == "row" else "right"]
        pointers = [self.entry(steps_table, step), to]
        form = self.form.rows if side == "row" else self.form.columns
        if form == LINES:
            size = self.n["lhs_bytes" if side == "row" else "rhs_bytes"]
            pointers = [self.math.moved(operand, self.math.mul(first, size)), *pointers]
        else:
            pointers = [operand, self.entry(self.tables[side], first), *pointers]
        self.call(name, pointers, [count, steps])

    def call(
        self, name: str, pointers: list[str], numbers: list[IndexValue], rest: str = ""
    ) -> None:
        arguments = [f"ptr {x}" for x in pointers]
        arguments += [f"i64 {self.math.value(x).text}" for x in numbers]
        self.fn.line(f"call void %{name}({', '.join(arguments)}{rest})")

    def entry(self, pointer: str, number: IndexValue) -> str:
        return self.math.moved(pointer, self.math.mul(number, _ENTRY_BYTES))
