"""Libraries whose routines replace CPU kernels on request.

A row of the table says which instructions a library replaces; each becomes a custom call, which the
host runs. Fused instructions keep hloc's kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hloc.analysis.call_graph import control_flow_computations
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.ops.custom_calls.blas import BlasGemm, gemm, has_routine
from hloc.opt.make import make
from hloc.shapes import row_major


@dataclass(frozen=True, slots=True)
class Library:
    """One library.

    Attributes:
        name: the name in `CompileOptions.use_library`.
        check: raises `UnsupportedError` if it is not installed.
        target: returns the custom-call target that computes an instruction, "" if none does.
    """

    name: str
    check: Callable[[], object]
    target: Callable[[Instruction], str]


def blas_target(inst: Instruction) -> str:
    """Return the custom-call target of a gemm or batched gemm, else ""."""
    if not inst.is_a("dot") or inst.attributes.algorithm not in _ALGORITHMS:
        return ""
    a, shapes = inst.attributes, [*(operand.array for operand in inst.operands), inst.array]
    if any(shape.minor_to_major != row_major(shape.rank).minor_to_major for shape in shapes):
        return ""
    count = shapes[2].rank - 2
    batch = tuple(range(count))
    dims = (a.lhs_contracting_dims, a.rhs_contracting_dims)
    is_batch = a.lhs_batch_dims == a.rhs_batch_dims == batch
    is_matrix = all(len(d) == 1 for d in dims) and {s.rank for s in shapes} == {count + 2}
    if count < 0 or not is_batch or not is_matrix or not has_routine(shapes):
        return ""
    return BlasGemm(dims[0][0] == count, dims[1][0] == count + 1).target


_ALGORITHMS = ("", "dot_f32_f32_f32", "dot_f64_f64_f64")
"""Dot algorithms that BLAS gemms implement."""

LIBRARIES: tuple[Library, ...] = (Library("blas", lambda: gemm("d"), blas_target),)
"""The libraries of `--use-library` on CPUs."""

NAMES = tuple(library.name for library in LIBRARIES)


def call_libraries(module: Module, names: Iterable[str]) -> None:
    """Replace instructions by custom calls of the libraries in `names`.

    Raises:
        UnsupportedError: a library is not installed.
    """
    for library in (library for library in LIBRARIES if library.name in names):
        library.check()
        for computation in control_flow_computations(module):
            for inst in computation.instructions:
                target = library.target(inst)
                if target:
                    call = make(
                        computation, "custom-call", inst.shape, *inst.operands,
                        custom_call_target=target,
                    )  # fmt: skip
                    computation.replace(inst, call)
                    computation.remove(inst)
