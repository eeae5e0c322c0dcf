"""Custom calls that become calls of SciPy's LAPACK, and the arguments of these.

The custom calls are `hloc_linalg_lapack_ROUTINE_OPTIONS`: letters, or numbers between underscores.
A matrix is factorised in the memory of the first result, unless no result has its size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.kernels.linalg.lapack_routines import (
    NUMBER_BYTES,
    ROUTINES,
    Argument,
    Form,
    Memory,
    NoFunction,
    Problem,
)
from hloc.dtypes import C64, C128, F32, F64, DType, component_of
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.rows.custom_call import LINALG_PREFIX, is_linalg
from hloc.scipy_routines import call_lapack
from hloc.shapes import ArrayShape, TupleShape, dense_strides

_PREFIX = f"{LINALG_PREFIX}lapack_"
_LETTERS = {F32: "s", F64: "d", C64: "c", C128: "z"}


@dataclass(frozen=True, slots=True)
class LapackCall:
    """One call for each matrix of a batch.

    Attributes:
        routine: `ssyevd`.
        sources: shapes of the operands; those after the first become results.
        results: shapes of the results.
        arguments: of the routine.
        untouched: results that the routine leaves alone.
        takes_all_numbers: False if the matrix must be finite.
    """

    routine: str
    sources: tuple[ArrayShape, ...]
    results: tuple[ArrayShape, ...]
    arguments: tuple[Argument, ...]
    untouched: tuple[int, ...]
    takes_all_numbers: bool

    @property
    def dtype(self) -> DType:
        """The type of the matrix."""
        return self.sources[0].dtype

    @property
    def batch_dims(self) -> tuple[int, ...]:
        """The dimensions of the batch."""
        return self.sources[0].dims[:-2]


def lapack_target(inst: Instruction, name: str, options: Sequence[str]) -> str:
    """Return the target for `name`, which lacks the type's letter; "" if the arrays do not fit.

    LAPACK does not check the sizes that it is given.
    """
    sources, results = _arrays(inst)
    if not sources or _form(name, tuple(options), sources, results) is None:
        return ""
    between = "" if all(option.isalpha() for option in options) else "_"
    letters = between.join(options)
    return f"{_PREFIX}{_LETTERS[sources[0].dtype]}{name}{'_' if letters else ''}{letters}"


def lapack_call(inst: Instruction) -> LapackCall | None:
    """Return the LAPACK call of a custom call, None if it is not one.

    A text can name such a target with any routine and any arrays, so they are checked here again.
    """
    target = inst.attributes.custom_call_target
    if not is_linalg(inst) or not target.startswith(_PREFIX):
        return None
    routine, _, letters = target[len(_PREFIX) :].partition("_")
    options = tuple(letters.split("_") if "_" in letters else letters)
    if lapack_target(inst, routine[1:], options) != target:
        return None
    sources, results = _arrays(inst)
    form = _form(routine[1:], options, sources, results)
    assert form is not None
    arguments = _arguments(routine, sources[0].dtype, form)
    takes_all = ROUTINES[routine[1:]].takes_all_numbers
    return LapackCall(routine, sources, results, arguments, form.untouched, takes_all)


def _arrays(inst: Instruction) -> tuple[tuple[ArrayShape, ...], tuple[ArrayShape, ...]]:
    """Return operands and results; none unless all of them are arrays."""
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else ()
    operands = [operand.shape for operand in inst.operands]
    sources = tuple(shape for shape in operands if isinstance(shape, ArrayShape))
    results = tuple(shape for shape in shapes if isinstance(shape, ArrayShape))
    are_arrays = (len(sources), len(results)) == (len(operands), len(shapes))
    if not sources or not are_arrays or sources[0].rank < 2 or sources[0].elements == 0:
        return (), ()
    return sources, results


def _form(
    name: str,
    options: tuple[str, ...],
    sources: tuple[ArrayShape, ...],
    results: tuple[ArrayShape, ...],
) -> Form | None:
    """Return the form of a call if the arrays fit it: column-major matrices, one after another."""
    depth = sources[0].rank - 2
    batch, (m, n) = sources[0].dims[:depth], sources[0].dims[depth:]
    sizes = tuple(shape.dims[depth:] for shape in results)
    problem = Problem(options, sources[0].dtype, m, n, sizes)
    form = ROUTINES[name].form_of(problem) if name in ROUTINES else None
    if form is None:
        return None
    more = sources[1:]
    found = [(shape.dtype, shape.dims[depth:]) for shape in (*more, *results)]
    fits = found == [*form.operands, *form.results] and all(
        shape.dims[:depth] == batch and not shape.dynamic for shape in (*more, *results)
    )
    are_dense = all(layout_strides(s) == _column_major(s.dims, depth) for s in results)
    return form if fits and are_dense else None


def _column_major(dims: Sequence[int], depth: int) -> tuple[int, ...]:
    """Return the strides of matrices that lie column by column, one after another."""
    return dense_strides(dims, (*range(depth, len(dims)), *reversed(range(depth))))


@cache
def _arguments(routine: str, dtype: DType, form: Form) -> tuple[Argument, ...]:
    """Query the routine for its workspace sizes; return all arguments."""
    part = ctypes.c_float if component_of(dtype) is F32 else ctypes.c_double
    answers: list[Any] = [((ctypes.c_int if k == "number" else part) * 2)() for k in form.kinds]
    asked = [value for answer in answers for value in (answer, ctypes.c_int(-1))]
    call_lapack(routine, [*map(_value, form.leading), *asked, *map(_value, form.rest)])
    sizes = {"element": dtype.storage_bytes, "real": ctypes.sizeof(part), "number": NUMBER_BYTES}
    found: list[Argument] = []
    for kind, answer in zip(form.kinds, answers, strict=True):
        count = max(int(answer[0]), 1)
        count += count >> 20  # an f32 rounds large numbers
        found += [Memory(count * sizes[kind]), count]
    return (*form.leading, *found, *form.rest)


def _value(argument: Argument) -> Any:
    """Return the value of an argument in a workspace query."""
    if isinstance(argument, str):
        return ctypes.c_char(argument.encode())
    if isinstance(argument, NoFunction):
        return None
    return ctypes.c_int(argument) if isinstance(argument, int) else (ctypes.c_double * 4)()
