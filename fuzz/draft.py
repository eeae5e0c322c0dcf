"""Drawing small modules: sizes, layouts, element types, values with all their special cases.

Everything that decides the structure of a module is a choice (`choices.py`); the values of arrays
come from one chosen seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from fuzz.choices import Choices, T
from hloc.dtypes import DTYPES, PRED, DType, component_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape, Layout, Shape, TupleShape

Array = np.ndarray[Any, np.dtype[Any]]

ARRAY_TYPES = tuple(dtype for dtype in DTYPES.values() if not dtype.is_special)
INTEGERS = tuple(dtype for dtype in ARRAY_TYPES if dtype.is_integer)
FLOATS = tuple(dtype for dtype in ARRAY_TYPES if dtype.is_float)
COMPLEXES = tuple(dtype for dtype in ARRAY_TYPES if dtype.is_complex)
NUMBERS = INTEGERS + FLOATS + COMPLEXES

SIZES = (2, 1, 3, 5, 8, 17, 0)
MAX_ELEMENTS = 700


@dataclass
class Draft:
    """A module being drawn: its entry, its arguments and the results so far."""

    choices: Choices
    module: Module = field(default_factory=lambda: Module("drawn"))
    arguments: list[Array] = field(default_factory=list)
    results: list[Instruction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.integer(0, 2**32 - 1))
        self.entry = Builder(self.module.add_computation("entry"))

    # ---- draws

    def pick(self, options: Sequence[T]) -> T:
        """Return one of `options`; earlier ones are simpler."""
        return self.choices.pick(options)

    def integer(self, low: int, high: int) -> int:
        return self.choices.integer(low, high)

    def flag(self) -> bool:
        return self.choices.flag()

    def order(self, rank: int) -> tuple[int, ...]:
        """Return the numbers below `rank` in any order."""
        return self.choices.order(rank)

    def some(self, options: Iterable[int]) -> tuple[int, ...]:
        """Return some of `options`, in order."""
        return tuple(option for option in options if self.flag())

    def some_types(self, types: Sequence[DType], most: int) -> list[DType]:
        """Return one to `most` different types, in any order."""
        return self.choices.some(types, most)

    def dims(
        self, low: int = 0, high: int = 4, sizes: Sequence[int] = SIZES, limit: int = MAX_ELEMENTS
    ) -> tuple[int, ...]:
        """Return sizes of an array of rank `low` to `high` that is not too large."""
        dims: list[int] = []
        for _ in range(self.integer(low, high)):
            fitting = [size for size in sizes if prod(dims) * size <= limit] or [1]
            dims.append(self.pick(fitting))
        return tuple(dims)

    def shape(self, dtype: DType, dims: Sequence[int]) -> ArrayShape:
        """Return a shape with any layout, row-major more often than others."""
        if len(dims) < 2 or self.flag():
            return ArrayShape(dtype, tuple(dims))
        return ArrayShape(dtype, tuple(dims), Layout(self.order(len(dims))))

    def any_layout(self, shape: Shape) -> Shape:
        """Return `shape` with layouts drawn anew."""
        if isinstance(shape, TupleShape):
            return TupleShape(tuple(self.any_layout(element) for element in shape.elements))
        if not isinstance(shape, ArrayShape) or shape.dtype.is_special:
            return shape
        drawn = self.shape(shape.dtype, shape.dims)
        return ArrayShape(drawn.dtype, drawn.dims, drawn.layout, shape.dynamic)

    # ---- instructions

    def parameter(self, value: Array, dtype: DType) -> Instruction:
        """Add a parameter that is given `value`."""
        self.arguments.append(np.asarray(value, dtype.numpy))
        number = len(self.arguments) - 1
        return self.entry.parameter(number, self.shape(dtype, np.shape(value)))

    def any_array(self, dtype: DType, dims: Sequence[int]) -> Instruction:
        """Add a parameter with any values of its type."""
        return self.parameter(any_values(self.random, dtype, dims), dtype)

    def moderate_array(self, dtype: DType, dims: Sequence[int]) -> Instruction:
        """Add a parameter of complex numbers of moderate size, some of them on the axes."""
        values = tame_values(self.random, dtype, dims)
        values = values * 10.0 ** self.random.integers(-2, 2, tuple(dims))
        on_axis = self.random.integers(0, 8, tuple(dims))
        values = np.where(
            on_axis == 0, values.real, np.where(on_axis == 1, values.imag * 1j, values)
        )
        return self.parameter(np.asarray(values).astype(dtype.numpy), dtype)

    def half_range_array(self, dtype: DType, dims: Sequence[int]) -> Instruction:
        """Add a parameter of complex numbers, also infinite, whose products do not overflow."""
        part = component_of(dtype)
        values = np.empty(tuple(dims), dtype.numpy)
        reach = 2.0 ** (0.4 * (1 << (part.exponent_bits - 1)))
        for array in (values.real, values.imag):
            with np.errstate(all="ignore"):  # a signalling NaN warns when it is converted
                drawn = any_values(self.random, part, dims).astype(np.float64)
                size = np.abs(drawn)
                extreme = np.isfinite(size) & ((size > reach) | (size < 1 / reach))
                array[...] = np.where(extreme, np.sign(drawn), drawn)
        return self.parameter(values, dtype)

    def tame_array(self, dtype: DType, dims: Sequence[int], special: bool = False) -> Instruction:
        """Add a parameter whose values can be summed in any order; maybe with NaN and infinity."""
        values = tame_values(self.random, dtype, dims)
        if special and dtype.is_float and dtype.bits >= 16 and values.size and self.flag():
            places = self.random.integers(0, values.size, 2)
            values.reshape(-1)[places] = self.random.choice([np.nan, np.inf, -np.inf, -0.0], 2)
        return self.parameter(values, dtype)

    def scalar(self, dtype: DType, value: Any) -> Instruction:
        return self.parameter(np.asarray(value).astype(dtype.numpy), dtype)

    def indices(self, dtype: DType, dims: Sequence[int], size: int) -> Instruction:
        """Add a parameter of indices, mostly below `size`, some out of range on both sides."""
        low, high = integer_range(dtype)
        values = self.random.integers(max(low, -3), min(high, size + 3) + 1, dims)
        far = self.random.random(dims) < 0.1
        ends = self.random.choice(np.array([low, high], object), dims)
        values = np.where(far, ends, np.asarray(values).astype(object))
        return self.parameter(np.asarray(values, object).astype(dtype.numpy), dtype)

    def add(
        self,
        name: str,
        operands: Sequence[Instruction],
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        **attributes: Any,
    ) -> Instruction:
        """Add an instruction whose result has any layout, and make it a result of the module."""
        row = opcode_row(name)
        made = row.attributes(**attributes) if row.attributes else None
        if shape is None:
            probe = self.entry.instruction(name, operands, made, called)
            shape = probe.shape
            probe.computation.remove(probe)
        inst = self.entry.instruction(name, operands, made, called, self.any_layout(shape))
        self.results.append(inst)
        return inst

    def or_copy(self, x: Instruction) -> str:
        """Return a copy of `x` if nothing legal was drawn."""
        if not self.results:
            self.add("copy", [x])
        return "exact"

    def computation(
        self, name: str, parameters: Sequence[Shape]
    ) -> tuple[Builder, list[Instruction]]:
        """Add a computation and return its builder and parameters; its last instruction is root."""
        b = Builder(self.module.add_computation(name))
        return b, [b.parameter(number, shape) for number, shape in enumerate(parameters)]

    def reducer(self, opcode: str, dtype: DType) -> Computation:
        """Add a computation `opcode(x, y)` of scalars."""
        scalar = ArrayShape(dtype)
        b, (x, y) = self.computation(f"{opcode}_{len(self.module.computations)}", [scalar, scalar])
        b.computation.set_root(b.instruction(opcode, (x, y)))
        return b.computation

    def finish(self) -> Module:
        """Close the module: the entry returns the results, as a tuple if there are several."""
        root = self.results[0] if len(self.results) == 1 else self.entry.tuple(self.results)
        self.entry.computation.set_root(root)
        self.module.set_entry(self.entry.computation)
        return self.module


# ---------------------------------------------------------------- values


def integer_range(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type: s4 -> (-8, 7)."""
    if dtype.is_unsigned:
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def any_values(random: np.random.Generator, dtype: DType, dims: Sequence[int]) -> Array:
    """Return values of all kinds: ordinary, any bits, and every special value of the type."""
    count = prod(dims)
    if dtype is PRED:
        return np.asarray(random.random(dims) < 0.5)
    if dtype.is_complex:
        part = component_of(dtype)
        real, imag = (any_values(random, part, dims) for _ in range(2))
        value = np.empty(tuple(dims), dtype.numpy)
        value.real, value.imag = real, imag
        return value
    bits = random.integers(0, 256, count * dtype.storage_bytes, np.uint8)
    kinds = random.integers(0, 3, count)
    if dtype.is_integer:
        low, high = integer_range(dtype)
        near = [low, low + 1, -2, -1, 0, 1, 2, 3, dtype.bits - 1, dtype.bits, high - 1, high]
        near = [value for value in near if low <= value <= high]
        drawn = bits.view(f"i{dtype.storage_bytes}").astype(object)
        wrapped = (drawn - low) % (high - low + 1) + low
        chosen = np.array(near, object)[(drawn % len(near)).astype(np.int64)]
        values = np.where(kinds == 0, wrapped, chosen)
        return values.astype(dtype.numpy).reshape(tuple(dims))
    if dtype.bits < 8:
        bits &= (1 << dtype.bits) - 1
    patterns = bits.view(dtype.numpy)
    ordinary = (random.standard_normal(count) * 10.0 ** random.integers(-1, 2, count)).astype(
        dtype.numpy
    )
    special = random.choice(special_floats(dtype), count) if count else ordinary
    values = np.where(kinds == 0, ordinary, np.where(kinds == 1, patterns, special))
    return np.asarray(values, dtype.numpy).reshape(tuple(dims))


def special_floats(dtype: DType) -> Array:
    """Return zeros, units, extremes, subnormals and, where the type has them, NaN, infinities."""
    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    values = [info.max, info.min, info.tiny, info.smallest_subnormal]
    plain = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -3.0, np.nan, np.inf, -np.inf]
    with np.errstate(all="ignore"):
        return np.concatenate([np.array([float(v) for v in values]), np.array(plain)]).astype(
            dtype.numpy
        )


def tame_values(random: np.random.Generator, dtype: DType, dims: Sequence[int]) -> Array:
    """Return small values, whose sums neither overflow nor depend much on the order."""
    dims = tuple(dims)
    if dtype is PRED:
        return np.asarray(random.random(dims) < 0.5)
    if dtype.is_integer:
        low, high = integer_range(dtype)
        values = random.integers(max(low, -5), min(high, 5) + 1, dims)
        return np.asarray(values).astype(dtype.numpy)
    values = np.asarray(random.standard_normal(dims))
    if dtype.is_complex:
        values = values + 1j * np.asarray(random.standard_normal(dims))
    return np.asarray(values).astype(dtype.numpy)
