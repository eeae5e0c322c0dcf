"""Routines of factorisations and solvers, for matrices of any size.

    linalg_ALGORITHM_TYPE_LANES[_blocks](arrays..., scratch, table, begin, end)

The arrays are the operands, then the results, each starting at element (0, 0) of the first matrix.
The table holds the sizes of the algorithm, then the strides of matrix, row and column of each
array. `begin` and `end` count matrices. LANES is the number of matrices computed at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument, routine_unit
from hloc.codegen.kernels.linalg.algorithm import ALGORITHMS, Algorithm
from hloc.codegen.kernels.linalg.calls import TYPES, LinalgCall
from hloc.codegen.kernels.linalg.loops import write_loops
from hloc.codegen.kernels.linalg.product import PARAMETERS, Subtraction, routine_name
from hloc.codegen.kernels.linalg.transfer import Strided
from hloc.codegen.kernels.linalg.work import Work
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import DType, component_of

_LEVEL = 1
"""LLVM's level: loop-invariant code motion, but no vectoriser."""


def lanes_of(dtype: DType, target: Target) -> int:
    """Return the elements of a vector register, 0 without vector registers."""
    count = target.vector_bytes // component_of(dtype).storage_bytes
    return count if target.has_vectors and count > 1 else 0


def routine_form(algorithm: Algorithm) -> tuple[Algorithm, tuple[int, ...]]:
    """Return the algorithm whose routine is called, and the order in which it takes the arrays."""
    count = len(algorithm.reads)
    form = ALGORITHMS[algorithm.form_of or algorithm.name]
    results = (count + algorithm.leaves.index(region) for region in form.leaves)
    return form, (*range(count), *results)


def table_of(call: LinalgCall, order: Sequence[int]) -> tuple[int, ...]:
    """Return the entries of the table, for arrays in `order`."""
    views = (call.views[i] for i in order)
    sizes = (size for _, size in call.sizes)
    return (*sizes, *(n for view in views for n in (view.batch, view.row, view.column)))


@cache
def linalg_routine(
    algorithm: Algorithm,
    dtype: DType,
    target: Target,
    *,
    with_lanes: bool,
    has_blocks: bool = False,
) -> Routines:
    """Return the routine of an algorithm; the form with blocks is for matrices of many rows."""
    lanes = lanes_of(dtype, target)
    ending = f"{lanes if with_lanes else 1}{'_blocks' if has_blocks else ''}"
    name = f"linalg_{algorithm.name.replace('-', '_')}_{dtype.name}_{ending}"
    reads = len(algorithm.reads)
    arrays = [f"%a{i}" for i in range(reads + len(algorithm.leaves))]
    parameters = (
        *(f"ptr noalias{' readonly' if i < reads else ''} {a}" for i, a in enumerate(arrays)),
        "ptr noalias %scratch",
        "ptr noalias readonly %table",
        "i64 %begin",
        "i64 %end",
    )

    def write(w: RoutineWriter) -> None:
        """Read sizes and strides from the table, and write the algorithm for all matrices."""
        names = algorithm.sizes
        sizes = {name: w.offset("%table", i) for i, name in enumerate(names)}
        if with_lanes:
            work = Work(w, dtype, sizes, lanes=lanes, has_blocks=has_blocks)
        else:
            work = Work(w, dtype, sizes, strips=_strips(dtype, target))
        kinds = [work.kind(algorithm.regions[i].kind) for i in algorithm.reads + algorithm.leaves]
        views = [
            Strided(
                pointer_value(pointer),
                kind,
                *(w.offset("%table", len(names) + 3 * i + part) for part in range(3)),
            )
            for i, (pointer, kind) in enumerate(zip(arrays, kinds, strict=True))
        ]
        scratch, begin, end = pointer_value("%scratch"), argument("%begin"), argument("%end")
        write_loops(work, algorithm, views, scratch, begin, end)

    return routine_unit(name, parameters, write, target, _LEVEL)


def _strips(dtype: DType, target: Target) -> list[int]:
    lanes = lanes_of(dtype, target)
    return [count for count in (lanes, lanes // 4) if count > 1]


@cache
def subtract_routine(dtype: DType, target: Target) -> Routines:
    """Return the routine that subtracts products of parts of matrices."""

    def write(w: RoutineWriter) -> None:
        Subtraction(Work(w, dtype, {}, strips=_strips(dtype, target))).write()

    return routine_unit(routine_name(dtype), PARAMETERS, write, target, _LEVEL)


def called_routines(algorithm: Algorithm, dtype: DType, target: Target) -> list[Routines]:
    """Return the routines that the routine of an algorithm calls."""
    return [subtract_routine(dtype, target)] if algorithm.memory else []


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines of all algorithms and types."""
    for dtype in TYPES:
        yield subtract_routine(dtype, target)
    ways = [(False, False), (True, False), (True, True)]
    for algorithm in (found for found in ALGORITHMS.values() if not found.form_of):
        for dtype in TYPES:
            if dtype.is_complex or "conjugate" not in algorithm.name:
                for lanes, blocks in ways if lanes_of(dtype, target) else ways[:1]:
                    yield linalg_routine(
                        algorithm, dtype, target, with_lanes=lanes, has_blocks=blocks
                    )
