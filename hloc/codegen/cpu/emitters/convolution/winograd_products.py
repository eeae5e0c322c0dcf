"""The products of Winograd convolutions as a routine: 16 gemms of sides that transforms left.

    winograd_products(tiles, kernel, rows_at, steps_at, next, sums, rows, next_rows, numbers,
                      multiply)

Tiles are read in place, the kernel in panels, by the micro-kernel `multiply` (`micro_kernel`);
`rows_at` and `steps_at` are the offsets of its rows and of steps of k. Meanwhile it prefetches what
is read next: the `next_rows` rows at `next`, from which the next part of the kernel will be
transformed, or if there are none the next transformed element of this part, which may have left the
cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.cpu.emitters.convolution.winograd_writer import (
    NUMBERS,
    SIZE,
    WinogradWriter,
    winograd_routine,
)
from hloc.codegen.cpu.emitters.gemm.micro_kernels.columns_ahead import STRETCH
from hloc.codegen.cpu.emitters.routine_writer import argument, named_parameters
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, S64


@cache
def products_routine(target: Target) -> Routines:
    """Return the routine that multiplies the tiles of a block by a part of the kernel."""
    reads = named_parameters("tiles kernel rows_at steps_at next", "sums", "rows next_rows")
    parameters = (*reads, NUMBERS, "ptr %multiply")
    return winograd_routine("winograd_products", parameters, _write, target)


def _write(r: WinogradWriter) -> None:
    """Loop over matrices, panels of outputs, tiles of rows, steps of k; call `multiply` in each."""
    n, math, rows = r.n, r.math, argument("%rows")
    panel_size = math.mul(n["inputs"], n["width"])
    with (
        r.body.loop(0, SIZE * SIZE) as matrix,
        r.body.loop(0, n["outputs"], n["width"]) as column,
        r.body.loop(0, rows, n["height"]) as row,
        r.body.loop(0, n["inputs"], n["deep"]) as step,
    ):
        panel = math.mul(math.ceiling_div(column, n["width"]), panel_size)
        panel = math.add(panel, math.mul(matrix, n["kernel_matrix"]))
        sums = math.add(math.mul(matrix, n["sums_matrix"]), math.mul(row, n["outputs"]))
        pointers = (
            r.address("%tiles", math.mul(matrix, n["input_matrix"])),
            _entry(r, "%rows_at", row),
            _entry(r, "%steps_at", step),
            r.address("%kernel", math.add(panel, math.mul(step, n["width"]))),
            r.address("%sums", math.add(sums, column)),
        )
        sizes = (
            math.minimum(n["deep"], math.sub(n["inputs"], step)),
            math.mul(n["outputs"], F32.storage_bytes),
            math.minimum(n["height"], math.sub(rows, row)),
            n["width"],
        )
        adds = math.compare("GT", step, 0).text
        ahead, *counts = _ahead(r, matrix, panel, (row, column, step))
        arguments = [f"ptr {x}" for x in pointers]
        arguments += [f"i64 {math.value(x).text}" for x in sizes]
        arguments += [f"i1 {adds}", f"ptr {ahead}", *(f"i64 {math.value(x).text}" for x in counts)]
        r.fn.line(f"call void %multiply({', '.join(arguments)})")


def _ahead(
    r: WinogradWriter,
    matrix: IndexValue,
    panel: IndexValue,
    place: tuple[IndexValue, IndexValue, IndexValue],
) -> tuple[str, IndexValue, IndexValue]:
    """Return what a call prefetches: the first element, bytes between rows, rows per stretch."""
    n, math, b = r.n, r.math, r.w.b
    row, column, step = place
    next_rows = argument("%next_rows")
    of_kernel = math.compare("GT", next_rows, 0)
    stretches = math.ceiling_div(n["inputs"], STRETCH)
    calls = math.ceiling_div(argument("%rows"), n["height"])
    number = math.ceiling_div(row, n["height"])
    in_all = math.add(math.mul(matrix, calls), number)
    size = b.select(of_kernel, next_rows, n["inputs"])
    calls = b.select(of_kernel, math.value(math.mul(calls, SIZE * SIZE)), math.value(calls))
    number = b.select(of_kernel, math.value(in_all), math.value(number))
    share = math.ceiling_div(size, math.mul(calls, stretches))
    first = math.add(math.mul(number, stretches), math.div(step, STRETCH))
    first = math.mul(first, share)
    row_size = b.select(of_kernel, n["step"], n["width"])
    moved = math.mul(first, row_size)
    kernel_row = r.address("%next", math.add(moved, column))
    matrix_row = r.address("%kernel", math.add(math.add(panel, n["kernel_matrix"]), moved))
    at = r.fn.value(f"select i1 {of_kernel.text}, ptr {kernel_row}, ptr {matrix_row}")
    is_last = math.compare("EQ", matrix, SIZE * SIZE - 1)
    is_needed = b.and_(math.compare("LT", first, size), b.or_(of_kernel, b.not_(is_last)))
    count = b.select(is_needed, math.value(share), math.value(0))
    return at, math.mul(row_size, F32.storage_bytes), count


def _entry(r: WinogradWriter, table: str, number: IndexValue) -> str:
    """Return the address of an entry of a table of offsets."""
    return r.math.moved(table, r.math.mul(number, S64.storage_bytes))


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routine."""
    yield products_routine(target)
