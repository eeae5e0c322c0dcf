"""The algorithms by name: their workspace, inputs and outputs, and their code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hloc.codegen.kernels.linalg import (
    cholesky,
    householder,
    jacobi,
    lu,
    substitution,
    tridiagonal,
)
from hloc.codegen.kernels.linalg.block_reflector import memory_elements
from hloc.codegen.kernels.linalg.product import packed_elements
from hloc.codegen.kernels.linalg.work import Region, Work
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm.

    Attributes:
        regions: its workspace.
        reads: numbers of the regions that operands are copied into, in order.
        leaves: numbers of the regions that become results, in order.
        write: emits the code for matrices in the workspace.
        form_of: name of an algorithm whose results are the same in another order, "" for none.
        memory: returns the elements of further memory for products of blocks, which large matrices
            are factored by; None if there are none.
    """

    name: str
    regions: tuple[Region, ...]
    reads: tuple[int, ...]
    leaves: tuple[int, ...]
    write: Callable[[Work], None]
    form_of: str = ""
    memory: Callable[[Mapping[str, int]], int] | None = None

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of all sizes, in the order in which routines take them."""
        names = (name for r in self.regions for name in (r.rows, r.columns) if name != "one")
        return tuple(dict.fromkeys(names))

    def elements(self, sizes: Mapping[str, int], *, with_lanes: bool = False) -> int:
        """Return the workspace of one matrix, in elements; in lanes, column strides are odd."""
        known = {**sizes, "one": 1}
        return sum((known[r.rows] | with_lanes) * known[r.columns] for r in self.regions)

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """True if the sizes are valid: there are at most as many reflectors as rows."""
        m, n, k, r = (sizes.get(name, -1) for name in "mnkr")
        if "u" in sizes:  # singular vectors: some or all on the longer side
            return n <= m and sizes["u"] in (n, m)
        if r >= 0:
            return r == min(m, n)
        return k <= m or m < 0


_Q, _APPLY = householder.Q_REGIONS, householder.APPLY_REGIONS

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "cholesky", cholesky.REGIONS, (0,), (0, 1), cholesky.factor, memory=packed_elements
        ),
        Algorithm(
            "cholesky-or-nan",
            cholesky.REGIONS,
            (0,),
            (0,),
            cholesky.factor_or_nan,
            memory=packed_elements,
        ),
        Algorithm("lu", lu.REGIONS, (0,), (0, 1, 2), lu.factor, memory=packed_elements),
        Algorithm(
            "solve", substitution.REGIONS, (0, 1), (1,), substitution.solve, memory=packed_elements
        ),
        Algorithm(
            "solve-unit",
            substitution.REGIONS,
            (0, 1),
            (1,),
            substitution.solve_unit,
            memory=packed_elements,
        ),
        Algorithm(
            "solve-conjugated",
            substitution.REGIONS,
            (0, 1),
            (1,),
            substitution.solve_conjugated,
            memory=packed_elements,
        ),
        Algorithm(
            "solve-conjugated-unit",
            substitution.REGIONS,
            (0, 1),
            (1,),
            substitution.solve_conjugated_unit,
            memory=packed_elements,
        ),
        Algorithm(
            "tridiagonal", tridiagonal.REGIONS, (0, 1, 2, 3), (0, 1, 2, 3, 4), tridiagonal.solve
        ),
        Algorithm(
            "qr", householder.QR_REGIONS, (0,), (0, 1), householder.factor, memory=memory_elements
        ),
        Algorithm("q", _Q, (0, 1), (0,), householder.product, memory=memory_elements),
        Algorithm("apply-q", _APPLY, (0, 1, 2), (2,), householder.multiply),
        Algorithm("apply-q-adjoint", _APPLY, (0, 1, 2), (2,), householder.multiply_adjoint),
        Algorithm("apply-q-transpose", _APPLY, (0, 1, 2), (2,), householder.multiply_transpose),
        Algorithm("apply-q-conjugate", _APPLY, (0, 1, 2), (2,), householder.multiply_conjugate),
        Algorithm("eigen-lower", jacobi.EIGEN_REGIONS, (0,), (1, 2, 3), jacobi.eigen_lower),
        Algorithm("eigen-upper", jacobi.EIGEN_REGIONS, (0,), (1, 2, 3), jacobi.eigen_upper),
        Algorithm("singular-tall", jacobi.SINGULAR_REGIONS, (0,), (0, 1, 2, 3, 4), jacobi.singular),
        Algorithm(
            "singular-wide",
            jacobi.SINGULAR_REGIONS,
            (0,),
            (0, 1, 3, 2, 4),
            jacobi.singular,
            form_of="singular-tall",
        ),
        Algorithm(
            "values-tall", jacobi.VALUES_REGIONS, (0,), (0, 1, 2, 3, 4), jacobi.singular_values
        ),
        Algorithm(
            "values-wide",
            jacobi.VALUES_REGIONS,
            (0,),
            (0, 1, 3, 2, 4),
            jacobi.singular_values,
            form_of="values-tall",
        ),
    )
}
"""All algorithms by name."""
