"""Routines of Winograd convolutions F(2x2, 3x3): transforms of kernel, input and result.

    winograd_kernel(from, to, panels, numbers)
    winograd_input(lhs, to, patch, begin, end, numbers)
    winograd_output(from, lhs, rhs, out, begin, end, feature, numbers, direct, finish, context)
    winograd_direct(lhs, rhs, out, image, row, numbers)

A tile is 2x2 positions of the result; the windows of these cover a patch of 4x4 positions of the
input. A patch that reaches into the padding is copied to `patch` first, with zeros. Each of the 16
elements of a transformed tile is a product of matrices: of the input `[tile, input feature]` and of
the kernel `[input feature, output feature]`. `begin` and `end` count rows of tiles of all images;
the tiles of a call are numbered from 0. `panels` are those of a part of the output features.
`numbers` are `WinogradNumbers`.

A row of results that are not all finite is computed again by `direct`, from its windows: sums and
differences of the transforms may overflow where the result does not, and an infinity in the input
reaches results whose windows do not contain it. `finish`, if not null, is called for every line of
the result.

Source: A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.convolution.winograd_writer import (
    NUMBERS,
    RESULTS,
    SIZE,
    WINDOW,
    Block,
    WinogradWriter,
    winograd_routine,
)
from hloc.codegen.cpu.emitters.routine_writer import argument, named_parameters
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, PRED, S64


@cache
def kernel_routine(apart: int, target: Target) -> Routines:
    """Return the routine that transforms a part of the kernel, with features in either order.

    Those of the faster order are `apart` elements from each other.
    """
    parameters = (*named_parameters("from", "to", "panels"), NUMBERS)
    name = f"winograd_kernel_{apart}"
    return winograd_routine(name, parameters, lambda r: _write_kernel(r, apart), target)


@cache
def input_routine(target: Target) -> Routines:
    """Return the routine that transforms some rows of tiles of the padded input."""
    parameters = (*named_parameters("lhs", "to patch", "begin end"), NUMBERS)
    return winograd_routine("winograd_input", parameters, _write_input, target)


@cache
def output_routine(target: Target) -> Routines:
    """Return the routine that transforms sums to results, and finishes these."""
    functions = (f"ptr %{name}" for name in ("direct", "finish", "context"))
    arrays = (
        *named_parameters("from lhs rhs"),
        "ptr %out",
        *named_parameters(numbers="begin end feature"),
    )
    return winograd_routine(
        "winograd_output", (*arrays, NUMBERS, *functions), _write_output, target
    )


@cache
def direct_routine(target: Target) -> Routines:
    """Return the routine that computes one row of tiles from the windows of its results."""
    arrays = *named_parameters("lhs rhs"), "ptr %out", *named_parameters(numbers="image row")
    return winograd_routine("winograd_direct", (*arrays, NUMBERS), _write_direct, target)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield all of them."""
    for apart in (1, WINDOW * WINDOW):
        yield kernel_routine(apart, target)
    for routine in (input_routine, output_routine, direct_routine):
        yield routine(target)


def _in_both(transform: Callable[[Sequence[str]], list[str]], block: Block) -> Block:
    """Return `block` with its columns and then its lines transformed."""
    columns = [transform(column) for column in zip(*block, strict=True)]
    return [transform(line) for line in zip(*columns, strict=True)]


def _write_kernel(r: WinogradWriter, apart: int) -> None:
    n, math = r.n, r.math
    size = math.mul(n["steps"], n["width"])
    with (
        r.body.loop(0, argument("%panels")) as panel,
        r.body.loop(0, n["steps"]) as step,
    ):
        start = math.add(math.mul(panel, n["panel"]), math.mul(step, n["step"]))
        lines = r.steps(r.address("%from", math.mul(start, apart)), n["rhs_line"], WINDOW)
        to = math.add(math.mul(panel, size), math.mul(step, n["width"]))
        matrices = r.steps(r.address("%to", to), math.mul(n["kernel_matrix"], SIZE), SIZE)
        with r.body.loop(0, n["width"], r.lanes) as place:
            block = r.load_block(lines, place, n["rhs_column"], apart)
            r.store_block(_in_both(r.kernel, block), matrices, place, n["kernel_matrix"])


def _write_input(r: WinogradWriter) -> None:
    n, math = r.n, r.math
    slots = [r.fn.allocate(kind) for kind in ("ptr", "i64", "i64")]
    with r.rows_of_tiles() as (image, row, number), r.body.loop(0, n["tiles"]) as tile:
        _find_patch(r, slots, image, (row, tile))
        start, line, column = (
            r.fn.value(f"load {kind}, ptr {slot}")
            for kind, slot in zip(("ptr", "i64", "i64"), slots, strict=True)
        )
        lines = r.steps(start, Value(S64, line), SIZE)
        place = math.add(math.mul(number, n["tiles"]), tile)
        to = r.address("%to", math.mul(place, n["inputs"]))
        matrices = r.steps(to, math.mul(n["input_matrix"], SIZE), SIZE)
        with r.body.loop(0, n["inputs"], r.lanes) as feature:
            block = r.load_block(lines, feature, Value(S64, column))
            r.store_block(_in_both(r.input, block), matrices, feature, n["input_matrix"])


def _find_patch(
    r: WinogradWriter, slots: Sequence[str], image: IndexValue, tile: tuple[IndexValue, IndexValue]
) -> None:
    """Store where the patch of a tile begins, and the strides of its lines and columns."""
    n, math, fn = r.n, r.math, r.fn
    lines, columns = ("lhs_lines", "low_lines"), ("lhs_columns", "low_columns")
    y, x = (
        math.sub(math.mul(number, RESULTS), n[low])
        for number, (_, low) in zip(tile, (lines, columns), strict=True)
    )

    is_whole = r.w.b.and_(
        r.are_inside(y, n["lhs_lines"], SIZE), r.are_inside(x, n["lhs_columns"], SIZE)
    )
    start = math.add(math.mul(image, n["lhs_image"]), math.mul(y, n["lhs_line"]))
    start = math.add(start, math.mul(x, n["lhs_column"]))
    source = r.address("%lhs", start)

    def found(start: str, line: IndexValue, column: IndexValue) -> None:
        fn.line(f"store ptr {start}, ptr {slots[0]}")
        fn.line(f"store i64 {math.value(line).text}, ptr {slots[1]}")
        fn.line(f"store i64 {math.value(column).text}, ptr {slots[2]}")

    found(source, n["lhs_line"], n["lhs_column"])
    is_part = r.w.b.not_(is_whole)
    with r.body.when(is_part):
        found("%patch", math.mul(n["inputs"], SIZE), n["inputs"])
        _copy_patch(r, source, (y, x))


def _copy_patch(r: WinogradWriter, source: str, corner: tuple[IndexValue, IndexValue]) -> None:
    """Copy the patch that begins at `corner`, with zeros outside the input."""
    n, math, (y, x) = r.n, r.math, corner
    size = math.value(math.mul(n["inputs"], F32.storage_bytes)).text
    with r.body.loop(0, SIZE) as line, r.body.loop(0, SIZE) as column:
        place = math.add(math.mul(line, SIZE), column)
        to = pointer_value(r.address("%patch", math.mul(place, n["inputs"])))
        is_inside = r.w.b.and_(
            r.are_inside(math.add(y, line), n["lhs_lines"], 1),
            r.are_inside(math.add(x, column), n["lhs_columns"], 1),
        )
        with r.body.when(is_inside):
            at = math.add(math.mul(line, n["lhs_line"]), math.mul(column, n["lhs_column"]))
            r.w.b.copy(to, pointer_value(r.address(source, at)), size)
        is_outside = r.w.b.not_(is_inside)
        with r.body.when(is_outside):
            r.w.b.clear(to, size)


def _write_output(r: WinogradWriter) -> None:
    """Write the transform, the check of each row of tiles, and the call of the epilogue."""
    n, math, fn = r.n, r.math, r.fn
    check = fn.allocate(r.kind)
    with r.rows_of_tiles() as (image, row, number):
        fn.line(f"store {r.kind} zeroinitializer, ptr {check}")
        start, lines = r.start("out", image, row), r.lines_of(row)
        below = math.mul(n["out_line"], math.sub(lines, 1))
        with r.body.loop(0, n["tiles"]) as tile:
            place = math.add(math.mul(number, n["tiles"]), tile)
            sums = r.address("%from", math.mul(place, n["outputs"]))
            matrices = r.steps(sums, math.mul(n["sums_matrix"], SIZE), SIZE)
            column = math.mul(tile, RESULTS)
            has_right = math.compare("LT", math.add(column, 1), n["columns"])
            right = r.w.b.choice(has_right, n["out_column"], r.w.b.number(S64, 0))
            to = r.address("%out", math.add(start, math.mul(column, n["out_column"])))
            places = r.steps(to, below, RESULTS)
            with r.body.loop(0, n["outputs"], r.lanes) as feature:
                block = r.load_block(matrices, feature, n["sums_matrix"])
                results = _in_both(r.output, block)
                _check(r, check, results)
                # A position outside the result has the address of one inside, which comes later.
                for line, values in reversed(list(zip(places, results, strict=True))):
                    r.store(r.address(line, math.add(feature, right)), values[1])
                    r.store(r.address(line, feature), values[0])
        _repair(r, check, image, row)
        start = math.add(start, argument("%feature"))
        r.finish(start, lines, (n["columns"], n["outputs"]))


def _check(r: WinogradWriter, check: str, results: Block) -> None:
    """Add zero to `check` for finite results, NaN for others."""
    total = r.fn.value(f"load {r.kind}, ptr {check}")
    for line in results:
        for value in line:
            total = r.add(total, r.times(value, 0.0))
    r.fn.line(f"store {r.kind} {total}, ptr {check}")


def _repair(r: WinogradWriter, check: str, image: IndexValue, row: IndexValue) -> None:
    """Call `direct` for a row of tiles with a result that is not finite."""
    fn, bits = r.fn, f"i{r.lanes}"
    total = fn.value(f"load {r.kind}, ptr {check}")
    flags = fn.value(f"fcmp uno {r.kind} {total}, {total}")
    word = fn.value(f"bitcast <{r.lanes} x i1> {flags} to {bits}")
    with r.body.when(Value(PRED, fn.value(f"icmp ne {bits} {word}, 0"))):
        places = ", ".join(f"i64 {r.math.value(x).text}" for x in (image, row))
        fn.line(f"call void %direct(ptr %lhs, ptr %rhs, ptr %out, {places}, ptr %numbers)")


def _write_direct(r: WinogradWriter) -> None:
    """Write the sums over the windows of a row of tiles, element by element."""
    n, math = r.n, r.math
    image, row = argument("%image"), argument("%row")
    out = r.start("out", image, row)
    lhs = math.mul(image, n["lhs_image"])
    first = math.sub(math.mul(row, RESULTS), n["low_lines"])
    held = r.fn.allocate("float")
    with r.body.loop(0, r.lines_of(row)) as line, r.body.loop(0, n["columns"]) as column:
        place = math.add(math.mul(line, n["out_line"]), math.mul(column, n["out_column"]))
        to = pointer_value(r.address("%out", math.add(out, place)))
        r.w.b.clear(to, math.value(math.mul(n["outputs"], F32.storage_bytes)).text)
        with r.body.loop(0, WINDOW) as y, r.body.loop(0, WINDOW) as x:
            source_y = math.add(math.add(first, line), y)
            source_x = math.add(math.sub(column, n["low_columns"]), x)
            is_inside = r.w.b.and_(
                r.are_inside(source_y, n["lhs_lines"], 1),
                r.are_inside(source_x, n["lhs_columns"], 1),
            )
            with r.body.loop(0, n["inputs"]) as feature:
                at = math.add(
                    math.mul(source_y, n["lhs_line"]), math.mul(source_x, n["lhs_column"])
                )
                at = math.add(math.add(lhs, at), feature)
                r.fn.line(f"store float 0.0, ptr {held}")
                with r.body.when(is_inside):
                    element = r.fn.value(f"load float, ptr {r.address('%lhs', at)}")
                    r.fn.line(f"store float {element}, ptr {held}")
                element = r.fn.value(f"load float, ptr {held}")
                _add_products(r, element, (y, x, feature), to.text)


def _add_products(
    r: WinogradWriter, element: str, at: tuple[IndexValue, IndexValue, IndexValue], to: str
) -> None:
    """Add the products of an element and the kernel at a position and input feature to a line."""
    n, math, fn, (y, x, feature) = r.n, r.math, r.fn, at
    factors = math.add(math.mul(y, n["rhs_line"]), math.mul(x, n["rhs_column"]))
    factors = math.add(factors, math.mul(feature, n["rhs_input"]))
    with r.body.loop(0, n["outputs"]) as output:
        place = math.add(factors, math.mul(output, n["rhs_output"]))
        factor = fn.value(f"load float, ptr {r.address('%rhs', place)}")
        product = fn.value(f"fmul contract float {element}, {factor}")
        slot = r.address(to, output)
        total = fn.value(f"load float, ptr {slot}")
        total = fn.value(f"fadd contract float {total}, {product}")
        fn.line(f"store float {total}, ptr {slot}")
