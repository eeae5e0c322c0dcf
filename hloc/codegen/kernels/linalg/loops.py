"""The loop over the batch around an algorithm: read, work, write."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.linalg.algorithm import Algorithm
from hloc.codegen.kernels.linalg.transfer import Strided, read, write
from hloc.codegen.kernels.linalg.work import Matrix, Work


def write_loops(
    work: Work,
    algorithm: Algorithm,
    arrays: Sequence[Strided],
    memory: Value,
    begin: IndexValue,
    end: IndexValue,
) -> None:
    """Write the code for matrices `begin` to below `end`.

    Args:
        work: the builder of the algorithm.
        algorithm: runs on each matrix, or on as many at once as there are lanes.
        arrays: operands, then results.
        memory: workspace for the matrices that are processed at once.
        begin: the first of them.
        end: where they end.
    """
    work.place_regions(algorithm.regions, memory)
    operands, results = arrays[: len(algorithm.reads)], arrays[len(algorithm.reads) :]
    regions = work.regions
    with work.matrices(begin, end) as first:
        work.regions = _in_results(work, regions, algorithm.leaves, results, first)
        for number, array in zip(algorithm.reads, operands, strict=True):
            columns = work.sizes[algorithm.regions[number].columns]
            read(work, array, work.regions[number], columns, first, end)
        algorithm.write(work)
        for number, array in zip(algorithm.leaves, results, strict=True):
            columns = work.sizes[algorithm.regions[number].columns]
            write(work, work.regions[number], array, columns, first, end)


def _in_results(
    work: Work,
    regions: tuple[Matrix, ...],
    leaves: Sequence[int],
    results: Sequence[Strided],
    first: IndexValue,
) -> tuple[Matrix, ...]:
    """Return the regions, in the memory of the results where these have contiguous columns."""
    if not work.strips:
        return regions
    found = list(regions)
    for number, array in zip(leaves, results, strict=True):
        found[number] = array.in_place(work, regions[number], first)
    return tuple(found)
