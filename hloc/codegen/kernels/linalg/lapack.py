"""Calls of SciPy's LAPACK: which custom calls they are, and their arguments.

The custom calls are `hloc_linalg_lapack_ROUTINE_LETTERS`; the letters are LAPACK's job options. A
matrix is factorised in the memory of the first result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

from hloc.codegen.builder.index import layout_strides
from hloc.dtypes import C64, C128, F32, F64, S32, DType, component_of
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.custom_call import LINALG_PREFIX, is_linalg
from hloc.ops.lapack_library import call_lapack
from hloc.shapes import ArrayShape, TupleShape

_PREFIX = f"{LINALG_PREFIX}lapack_"
_LETTERS = {F32: "s", F64: "d", C64: "c", C128: "z"}
_ROUTINES = {
    "syevd": ((F32, F64), ("NL", "NU", "VL", "VU")),
    "heevd": ((C64, C128), ("NL", "NU", "VL", "VU")),
    "gesdd": (tuple(_LETTERS), ("A", "S", "N")),
}
"""The routines that a module may ask for: types of the matrix, and job options."""

_NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Result:
    """An argument that is a result, at the matrix in turn."""

    number: int


@dataclass(frozen=True, slots=True)
class Memory:
    """An argument that is working memory of so many bytes."""

    size_bytes: int


Argument = str | int | Result | Memory
"""A letter, a number, a result or memory; all are given by address."""


@dataclass(frozen=True, slots=True)
class LapackCall:
    """One call for each matrix of a batch.

    Attributes:
        routine: `ssyevd`.
        source: shape of the operand.
        results: shapes of the results.
        arguments: of the routine.
    """

    routine: str
    source: ArrayShape
    results: tuple[ArrayShape, ...]
    arguments: tuple[Argument, ...]

    @property
    def batch(self) -> int:
        """How many matrices there are."""
        return prod(self.source.dims[:-2])


def lapack_target(inst: Instruction, name: str, letters: str) -> str:
    """Return the target for `name`, which lacks the type's letter; "" if the arrays do not fit.

    What does not fit is not called: the routine believes the numbers that it is given.
    """
    source, results = _arrays(inst)
    dtypes, options = _ROUTINES.get(name, ((), ()))
    if source is None or source.dtype not in dtypes or letters not in options:
        return ""
    if not _fits(name, letters, source, results):
        return ""
    return f"{_PREFIX}{_LETTERS[source.dtype]}{name}_{letters}"


def lapack_call(inst: Instruction) -> LapackCall | None:
    """Return the call that a custom call stands for, None if it is none of LAPACK.

    A text can name such a target with any routine and any arrays, so they are looked at here again.
    """
    target = inst.attributes.custom_call_target
    if not is_linalg(inst) or not target.startswith(_PREFIX):
        return None
    routine, _, letters = target[len(_PREFIX) :].partition("_")
    if lapack_target(inst, routine[1:], letters) != target:
        return None
    source, results = _arrays(inst)
    assert source is not None
    arguments = _arguments(routine, letters, source.dtype, source.dims[-2:])
    return LapackCall(routine, source, results, arguments)


def _arrays(inst: Instruction) -> tuple[ArrayShape | None, tuple[ArrayShape, ...]]:
    """Return the only operand and the results; None unless all of them are arrays."""
    elements = inst.shape.elements if isinstance(inst.shape, TupleShape) else ()
    source = inst.operands[0].shape if len(inst.operands) == 1 else None
    results = tuple(shape for shape in elements if isinstance(shape, ArrayShape))
    if not isinstance(source, ArrayShape) or source.rank < 2 or source.elements == 0:
        return None, ()
    return (source, results) if len(results) == len(elements) else (None, ())


def _fits(name: str, letters: str, source: ArrayShape, results: tuple[ArrayShape, ...]) -> bool:
    """True if the results are those of the routine, column by column, matrix by matrix."""
    depth = source.rank - 2
    batch, (m, n) = source.dims[:depth], source.dims[depth:]
    part = component_of(source.dtype)
    sizes = [shape.dims[depth:] for shape in results]
    types = [shape.dtype for shape in results]
    if name == "gesdd":
        r = min(m, n)
        known = [(m, n), (r,), *sizes[2:4], ()]
        squares, narrow = ((m, m), (n, n)), ((m, r), (r, n))
        wide = {"A": (squares,), "S": (narrow,), "N": (squares, narrow)}
        fits = len(sizes) == 5 and tuple(sizes[2:4]) in wide[letters]
        wanted = [source.dtype, part, source.dtype, source.dtype]
    else:
        known, fits = [(n, n), (n,), ()], m == n
        wanted = [source.dtype, part]
    return (
        fits
        and sizes == known
        and types == [*wanted, S32]
        and all(
            shape.dims[:depth] == batch
            and not shape.dynamic
            and layout_strides(shape) == _column_major(shape.dims, depth)
            for shape in results
        )
    )


def _column_major(dims: Sequence[int], depth: int) -> tuple[int, ...]:
    """Return the strides of matrices that lie column by column, one after another."""
    strides, step = [0] * len(dims), 1
    for dim in (*range(depth, len(dims)), *reversed(range(depth))):
        strides[dim] = step
        step *= dims[dim]
    return tuple(strides)


@cache
def _arguments(
    routine: str, letters: str, dtype: DType, dims: tuple[int, ...]
) -> tuple[Argument, ...]:
    """Return the arguments, with as much working memory as the routine asks for."""
    m, n = dims
    r = min(m, n)
    real = component_of(dtype).storage_bytes
    if routine.endswith("gesdd"):
        rows = n if letters == "A" else r
        matrices = (m, n, Result(0), m, Result(1), Result(2), m, Result(3), rows)
        fixed: tuple[Argument, ...] = (Memory(8 * r * _NUMBER_BYTES), Result(4))
        if dtype.is_complex:
            largest = max(m, n)
            count = 7 * r if letters == "N" else r * max(5 * r + 7, 2 * largest + 2 * r + 1)
            fixed = (Memory(count * real), *fixed)
        return _with_memory(routine, dtype, (letters, *matrices), ("element",), fixed)
    leading = (*letters, n, Result(0), n, Result(1))
    kinds = ("element", "real", "number") if dtype.is_complex else ("element", "number")
    return _with_memory(routine, dtype, leading, kinds, (Result(2),))


def _with_memory(
    routine: str,
    dtype: DType,
    leading: tuple[Argument, ...],
    kinds: tuple[str, ...],
    rest: tuple[Argument, ...],
) -> tuple[Argument, ...]:
    """Ask the routine how many numbers of each kind it wants; they stand before `rest`."""
    part = ctypes.c_float if component_of(dtype) is F32 else ctypes.c_double
    answers: list[Any] = [((ctypes.c_int if k == "number" else part) * 2)() for k in kinds]
    asked = [value for answer in answers for value in (answer, ctypes.c_int(-1))]
    call_lapack(routine, [*map(_value, leading), *asked, *map(_value, rest)])
    sizes = {"element": dtype.storage_bytes, "real": ctypes.sizeof(part), "number": _NUMBER_BYTES}
    found: list[Argument] = []
    for kind, answer in zip(kinds, answers, strict=True):
        count = max(int(answer[0]), 1)
        count += count >> 20  # an f32 rounds large numbers
        found += [Memory(count * sizes[kind]), count]
    return (*leading, *found, *rest)


def _value(argument: Argument) -> Any:
    """Return what stands for an argument where only sizes are asked for."""
    if isinstance(argument, str):
        return ctypes.c_char(argument.encode())
    return ctypes.c_int(argument) if isinstance(argument, int) else (ctypes.c_double * 4)()
