"""Inputs of a run: random ones that fit the module, or arrays from a file; and results to a file.

Files are NumPy archives with arg0, arg1 ... or out0, out1 ..., tuples flattened depth first. Inputs
may also be called arr_0, arr_1 ..., as `numpy.savez(file, *arrays)` does, or as the parameters are.
Types NumPy lacks are stored as unsigned integers of the same width (bf16 as uint16), s4 as int8.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from typing import IO, Any

import numpy as np

from hloc.dtypes import Array, DType, component_of
from hloc.errors import HloError, reason_of
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.output_file import output_to
from hloc.quantities import size_text
from hloc.report.index_ranges import index_limits
from hloc.shapes import MAX_HOST_RANK, UNBOUNDED, ArrayShape, array_leaves

_MAX_ROWS = 4096
_MOST_TIMES, _MOST_BYTES = 16, 1 << 20
"""Maximum factor by which an array in a file may be larger than expected."""
_SMALL = 10  # upper bound of integers that are not indices


def parameter_leaves(module: Module) -> list[ArrayShape]:
    """Return the shapes of the arrays that the entry computation takes."""
    return [leaf for p in module.entry.parameters for leaf in array_leaves(p.shape)]


def arrays_of_parameters(module: Module, inputs: Sequence[Array]) -> dict[Instruction, list[Array]]:
    """Return the arrays of each parameter, in order; `inputs` has one per leaf of their shapes."""
    given = iter(inputs)
    return {p: [next(given) for _ in array_leaves(p.shape)] for p in module.entry.parameters}


def result_leaves(module: Module) -> list[ArrayShape]:
    """Return the shapes of the arrays that the entry computation returns."""
    return array_leaves(module.entry.root.shape)


# ---------------------------------------------------------------- random


def random_inputs(
    module: Module, seed: int, shapes: Sequence[ArrayShape] | None = None
) -> list[Array]:
    """Return one array per parameter leaf; the same seed gives the same arrays.

    Args:
        module: the program that takes the arrays.
        seed: seed of the generator.
        shapes: used instead of the parameters' shapes, on several devices.

    Raises:
        HloError: they would not fit into memory.

    Floats are normal; matrices are scaled down by the root of their height, as weights are, or a
    deep model would overflow and comparing NaNs would prove nothing. Predicates have even odds,
    integers are 0 to 9. Integers that the module uses as indices (gather, scatter, dynamic-slice)
    are in the range of what they index.
    """
    shapes = parameter_leaves(module) if shapes is None else shapes
    return random_arrays(shapes, seed, index_limits(module))


def random_arrays(
    shapes: Sequence[ArrayShape], seed: int, limits: Mapping[int, int]
) -> list[Array]:
    """Return the inputs of `random_inputs`; `limits` are those of `index_limits`."""
    _check_possible(shapes)
    return [
        _random_array(shape, np.random.default_rng([seed, number]), limits.get(number))
        for number, shape in enumerate(shapes)
    ]


def random_input(shape: ArrayShape, number: int, seed: int, limit: int | None) -> Array:
    """Return the random input of parameter leaf `number`, which indexes 0 to `limit`."""
    _check_possible([shape])
    return _random_array(shape, np.random.default_rng([seed, number]), limit)


def _check_possible(shapes: Sequence[ArrayShape]) -> None:
    """Reject inputs of unknown size, and those that would leave no memory for the run.

    A system that is short of memory kills processes.
    """
    from hloc.codegen.llvm.target import physical_memory_bytes

    for shape in shapes:
        if UNBOUNDED in shape.dims:
            raise HloError(
                f"no inputs can be made of {shape.text_without_layout}: a dimension has no bound"
            )
        if shape.rank > MAX_HOST_RANK:
            raise HloError(
                f"no inputs can be made of {shape.rank} dimensions: "
                f"NumPy arrays have at most {MAX_HOST_RANK}"
            )
    needed = sum(shape.size_bytes for shape in shapes)
    limit = physical_memory_bytes() // 2
    if limit and needed > limit:
        raise HloError(
            f"the inputs take {size_text(needed)}, more than half of this machine's memory"
        )


def _random_array(shape: ArrayShape, rng: np.random.Generator, limit: int | None) -> Array:
    dtype, dims = shape.dtype, shape.dims
    if dtype.is_pred:
        return rng.integers(0, 2, dims).astype(np.bool_)
    if dtype.is_complex:
        real, imag = rng.standard_normal(dims), rng.standard_normal(dims)
        return np.asarray(real + 1j * imag).astype(dtype.numpy)
    if dtype.is_float:
        wide = np.float64 if dtype.bits > 32 else np.float32
        values = np.asarray(rng.standard_normal(dims, wide) * wide(_scale(dims)))
        return (np.abs(values) if dtype.name == "f8e8m0fnu" else values).astype(dtype.numpy)
    highest = _SMALL - 1 if limit is None else max(0, limit)
    return np.asarray(rng.integers(0, min(highest, _largest(dtype)) + 1, dims)).astype(dtype.numpy)


def _scale(dims: tuple[int, ...]) -> float:
    """Return 1 / sqrt(number of rows) for a matrix, within bounds that narrow types can hold."""
    return 1.0 if len(dims) < 2 else float(min(max(1, prod(dims[:-1])), _MAX_ROWS) ** -0.5)


def _largest(dtype: DType) -> int:
    return int((1 << (dtype.bits - dtype.is_signed)) - 1)


# ---------------------------------------------------------------- special values


def special_inputs(module: Module, seed: int) -> list[Array]:
    """Return arrays of the values that break algebraic laws; the same seed gives the same arrays.

    Floats are NaN, infinities, zeros of both signs, denormals and a few ordinary numbers, mixed at
    random; integers are the extreme ones, 0, 1 and -1. Integers used as indices stay in range.

    Raises:
        HloError: they would not fit into memory.
    """
    shapes = parameter_leaves(module)
    _check_possible(shapes)
    limits = index_limits(module)
    return [
        _special_array(shape, np.random.default_rng([seed, number, 1]), limits.get(number))
        for number, shape in enumerate(shapes)
    ]


def special_input(shape: ArrayShape, number: int, seed: int, limit: int | None) -> Array:
    """Return the special input of parameter leaf `number`, which indexes 0 to `limit`."""
    _check_possible([shape])
    return _special_array(shape, np.random.default_rng([seed, number, 1]), limit)


def _special_array(shape: ArrayShape, rng: np.random.Generator, limit: int | None) -> Array:
    dtype, dims = shape.dtype, shape.dims
    if limit is not None or not (dtype.is_float or dtype.is_complex or dtype.is_integer):
        return _random_array(shape, rng, limit)
    if dtype.is_integer:
        extremes = [0, 1, _largest(dtype)] + [-1, -_largest(dtype) - 1] * dtype.is_signed
        values = np.array([dtype.numpy.type(value) for value in extremes], dtype.numpy)
        return np.asarray(values[rng.integers(0, len(extremes), dims)])
    values = special_floats(component_of(dtype))
    real = values[rng.integers(0, len(values), dims)]
    if dtype.is_complex:
        found = np.empty(dims, dtype.numpy)
        found.real, found.imag = real, values[rng.integers(0, len(values), dims)]
        return found
    with np.errstate(all="ignore"):
        return np.asarray(real).astype(dtype.numpy)


def special_floats(dtype: DType) -> Array:
    """Return the special values of a float type as f64: NaN, infinities, zeros, denormals, 1 ..."""
    smallest = 2 - (1 << (dtype.exponent_bits - 1)) - dtype.mantissa_bits
    tiny = np.ldexp(1.0, [smallest, smallest + max(0, dtype.mantissa_bits - 1)])
    ordinary = [0.0, 1.0, 0.5, 2.0, *tiny]
    return np.array([np.nan, np.inf, -np.inf, *ordinary, *(-value for value in ordinary)])


# ---------------------------------------------------------------- files

DAMAGES = (
    EOFError,
    KeyError,
    MemoryError,
    NotImplementedError,  # a compression method that zipfile does not support
    ValueError,
    zlib.error,
)
"""Exceptions of NumPy and zipfile for damaged or malicious archives, besides `BadZipFile`."""


def load_arrays(
    path: str, prefix: str, shapes: Sequence[ArrayShape], names: Sequence[str] = ()
) -> list[Array]:
    """Read arrays of `shapes` from a NumPy archive.

    Their names are `prefix0`, `prefix1` ..., or `arr_0`, `arr_1` ..., or `names`.

    Raises:
        HloError: the file cannot be read, an array is missing or has another type or shape.
    """
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise HloError(f"{path} is not a NumPy archive; expected a file from numpy.savez")
            file.seek(0)
            stored = np.load(file, allow_pickle=False)
            called = _naming(stored.files, prefix, len(shapes), names)
            pairs = zip(called, shapes, strict=True)
            return [_checked(stored, name, shape, path) for name, shape in pairs]
    except OSError as fault:
        raise HloError(f"cannot read {path}: {reason_of(fault)}") from None
    except (*DAMAGES, zipfile.BadZipFile) as fault:
        raise HloError(f"cannot read {path}: {fault}") from None


def _naming(have: Sequence[str], prefix: str, count: int, names: Sequence[str]) -> Sequence[str]:
    """Return the names of `count` arrays in the naming scheme that matches most of `have`."""
    ways = [[f"{first}{i}" for i in range(count)] for first in (prefix, "arr_")]
    if len(names) == count:
        ways.append(list(names))
    return max(ways, key=lambda way: len(set(way) & set(have)))  # the first in a tie


def check_unpacked(stored: Any, name: str, shape: ArrayShape, path: str) -> None:
    """Check, before unpacking, that an array of an archive has about the size of `shape`.

    A few kilobytes of compressed zeros can fill all memory. A wrong type or shape gets
    a better message once the array is read, if it is not much larger.

    Raises:
        HloError: it is much larger.
    """
    entries = {entry.filename: entry.file_size for entry in stored.zip.infolist()}
    size_bytes = entries.get(f"{name}.npy", entries.get(name, 0))
    if size_bytes > _MOST_TIMES * shape.size_bytes + _MOST_BYTES:
        raise HloError(
            f"{path}: {name} unpacks to {size_text(size_bytes)}, "
            f"expected {shape.text_without_layout}, {size_text(shape.size_bytes)}"
        )


def _checked(stored: Any, name: str, shape: ArrayShape, path: str) -> Array:
    """Return the array `name` of an archive if it has the dimensions and type of `shape`."""
    if name not in stored.files:
        have = ", ".join(sorted(stored.files)[:8]) or "nothing"
        raise HloError(
            f"{path} has no array {name!r} (expected {shape.text_without_layout}); it has {have}"
        )
    check_unpacked(stored, name, shape, path)
    array: Array = stored[name]
    if array.shape != shape.dims:
        raise HloError(
            f"{path}: {name} has dimensions {list(array.shape)}, "
            f"expected {shape.text_without_layout}"
        )
    found = _from_storable(array, shape.dtype)
    if found is None:
        raise HloError(
            f"{path}: {name} holds {array.dtype}, expected {shape.text_without_layout} "
            f"as {storage_type(shape.dtype)}"
        )
    return found


def storage_type(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type that stores `dtype` in a file: `bf16` -> uint16, `s4` -> int8."""
    if dtype.numpy.isbuiltin == 1:
        return dtype.numpy
    if dtype.is_integer:
        return np.dtype(np.int8 if dtype.is_signed else np.uint8)
    return np.dtype(f"u{dtype.storage_bytes}")


def to_storable(array: Array, dtype: DType) -> Array:
    """Return `array` in the form that is written to a file."""
    target = storage_type(dtype)
    if target == array.dtype:
        return array
    return (
        array.astype(target)
        if dtype.is_integer
        else np.ascontiguousarray(array).view(target).reshape(array.shape)
    )


def _from_storable(array: Array, dtype: DType) -> Array | None:
    """Return the values of `dtype` that `array` stores, None if its type does not fit."""
    if array.dtype == dtype.numpy:
        return array
    if dtype.numpy.isbuiltin == 1:
        return None
    if dtype.is_integer:
        fits = array.dtype.kind in "iu" and array.dtype.itemsize == 1
        return array.astype(dtype.numpy) if fits else None
    if array.dtype.itemsize != dtype.storage_bytes or array.dtype.kind not in "uV":
        return None
    return _viewed(array, dtype.numpy)


def _viewed(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the bytes of `array` as elements of `dtype`; NumPy makes a row of a scalar."""
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape)


def save_arrays(
    path: str, prefix: str, arrays: Sequence[Array], shapes: Sequence[ArrayShape]
) -> None:
    """Write arrays as `prefix0`, `prefix1`, ... to a NumPy archive.

    Raises:
        HloError: the file cannot be written.
    """
    with output_to(path) as file:
        write_archive(file, prefix, arrays, shapes)


def write_archive(
    file: IO[bytes], prefix: str, arrays: Sequence[Array], shapes: Sequence[ArrayShape]
) -> None:
    """Write arrays as `prefix0`, `prefix1`, ... to an open file, as a NumPy archive."""
    named: dict[str, Any] = {
        f"{prefix}{i}": to_storable(np.asarray(array), shape.dtype)
        for i, (array, shape) in enumerate(zip(arrays, shapes, strict=True))
    }
    np.savez(file, **named)
