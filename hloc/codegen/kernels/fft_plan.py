"""The plan of a Fourier transform: dimensions, factors of lengths, rows, scratch memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.dtypes import C64, C128, F32, DType, component_of
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES
from hloc.prime_factors import prime_factors

MOST_TABULATED = 8192
"""Longest transform whose twiddle factors are a constant table; longer ones compute them."""

TABLE_UNIT = 16
"""The size of a longer table is a multiple of this, which the lanes of every machine divide."""

MOST_ODD = 255
"""Largest odd factor of a pass; a transform with a larger one is done as a convolution (Bluestein).

20 rows of 1,072 (67 * 16): 78 us in passes, 201 as a convolution; of 2,008 (251 * 8): 253 and 356.
"""

_MOST_ODD_OF_SHORT, _SHORT = 127, 512
"""The same for shorter rows, whose convolutions stay in the L1 cache.

64 rows of 251 as AVX2: 113 us in a pass, 72 as a convolution; of 127: 36 and 30.
"""

MOST_CONVOLVED = 1 << 17
"""Largest length of such a convolution, whose tables are constants of the program."""

_ODD_PARTS = (1, 3, 5, 9, 15, 25)
"""Odd parts of the lengths of convolutions."""

_MOST_BYTES = 1 << 20
"""Most scratch memory of rows that are transformed together."""

_WIDEST_BYTES = 64
"""Bytes of the widest vectors of any target."""

_PART_PADDING = 17 * CACHE_LINE_BYTES
"""Bytes between real and imaginary parts, so that lengths which are powers of 2 use more sets of a
cache: one row of 16,384 takes 144 us instead of 178.
"""


def factors(n: int) -> list[int]:
    """Return 8s, 4s, then primes in ascending order, whose product is n."""
    found: list[int] = []
    for size in (8, 4):
        while n and n % size == 0:
            found.append(size)
            n //= size
    return [*found, *prime_factors(n)]


def is_convolved(n: int) -> bool:
    """True if a transform of length n is computed as a convolution, by two longer transforms."""
    most = _MOST_ODD_OF_SHORT if n < _SHORT else MOST_ODD
    return n <= MOST_CONVOLVED and max(factors(n), default=1) > most


@cache
def convolved_length(n: int) -> int:
    """Return the length of the transforms of a convolution: at least 2n - 1, with few passes."""
    least = 2 * n - 1
    lengths = []
    for odd in _ODD_PARTS:
        length = odd
        while length < least:
            length *= 2
        lengths.append(length)
    return min(lengths, key=lambda length: (length * len(factors(length)), length))


def row_length(root: Instruction) -> int:
    """Return the elements of a row in scratch memory."""
    found = 1
    for n in root.attributes.fft_length:
        sizes = [n, n // 2] if n % 2 == 0 else [n]
        convolved = [convolved_length(size) for size in sizes if is_convolved(size)]
        found = max([found, n, *convolved])
    return found


def complex_dtype(root: Instruction) -> DType:
    narrow = (F32, C64)
    return C64 if root.operands[0].array.dtype in narrow else C128


def is_inverse_real(root: Instruction) -> bool:
    return bool(root.attributes.fft_type == "IRFFT")


def needs_spectrum(root: Instruction) -> bool:
    """True if an IRFFT needs memory for its spectrum along the dimensions before the last."""
    return is_inverse_real(root) and len(root.attributes.fft_length) > 1


def lane_count(root: Instruction, vector_bytes: int = _WIDEST_BYTES) -> int:
    """Return how many rows are transformed at a time: a power of 2."""
    part = component_of(complex_dtype(root)).storage_bytes
    longest = row_length(root)
    shape = max((root.array, root.operands[0].array), key=lambda s: s.elements)
    rows = shape.elements // max(1, min(root.attributes.fft_length))
    lanes = 1
    while (
        2 * lanes * part <= vector_bytes
        and lanes < rows
        and 2 * lanes * 4 * longest * part <= _MOST_BYTES
    ):
        lanes *= 2
    return lanes


def table_bytes(root: Instruction) -> int:
    """Return the size of the table of the longest transform, in whole vectors."""
    longest: int = max(root.attributes.fft_length)
    entries = -(-longest // TABLE_UNIT) * TABLE_UNIT
    return entries * complex_dtype(root).storage_bytes if longest > MOST_TABULATED else 0


def part_bytes(root: Instruction, lanes: int) -> int:
    """Return the size of the real or imaginary parts of a set of `lanes` rows."""
    return row_length(root) * lanes * complex_dtype(root).storage_bytes // 2 + _PART_PADDING


def row_bytes(root: Instruction, lanes: int) -> int:
    """Return the size of two sets of rows."""
    return 4 * part_bytes(root, lanes)


MAX_WORK = 1 << 28
"""A transform is refused if its length times its largest prime factor exceeds this."""


def is_transform(inst: Instruction) -> bool:
    """True if the result is that of a transform whose lengths have small enough factors."""
    root = root_of(inst)
    if root.opcode.name != "fft":
        return False
    lengths = root.attributes.fft_length
    return all(is_convolved(n) or n * max(factors(n), default=1) <= MAX_WORK for n in lengths)


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension to transform.

    Attributes:
        dims: of the array that is read; `axis` is transformed.
        n: length of the transform; `results` of its elements are written.
        source, target: `operand`, `spectrum` (in scratch memory, with its sizes) or `result`.
    """

    dims: tuple[int, ...]
    axis: int
    n: int
    results: int
    source: str
    target: str


def axes_of(root: Instruction) -> list[Axis]:
    """Return the dimensions that `root` transforms, in order."""
    length, dims, results = root.attributes.fft_length, root.operands[0].array.dims, root.array.dims
    axes = list(range(len(dims) - len(length), len(dims)))
    sizes = dict(zip(axes, length, strict=True))
    last = axes.pop()
    if needs_spectrum(root):
        sources = ("operand", *("spectrum" for _ in axes[1:]))
        result = [
            Axis(dims, d, sizes[d], dims[d], source, "spectrum")
            for d, source in zip(axes, sources, strict=True)
        ]
        return [*result, Axis(dims, last, sizes[last], results[last], "spectrum", "result")]
    result = [Axis(dims, last, sizes[last], results[last], "operand", "result")]
    return result + [Axis(results, d, sizes[d], results[d], "result", "result") for d in axes]


def is_inverse(root: Instruction) -> bool:
    return root.attributes.fft_type in ("IFFT", "IRFFT")


Place: TypeAlias = Callable[[IndexValue], Index]
"""Returns the index of an element of a row by its position."""


def row_element(
    k: KernelContext, a: Axis, source: Instruction | IrArray, place: Place, i: IndexValue
) -> Value:
    """Return element i of a row; the half spectrum of an IRFFT is completed by symmetry."""
    b, m, mirrored, size = k.b, k.math, None, a.dims[a.axis]
    if size < a.n:
        mirrored = m.compare("GE", i, size)
        i = b.select(mirrored, m.value(m.sub(a.n, i)), m.value(i))
    index = place(i)
    read = source.load(m, index) if isinstance(source, IrArray) else k.read(source, index)
    value = b.convert(read, complex_dtype(k.root))
    if mirrored is None:
        return value
    return b.select(mirrored, b.complex(b.real(value), b.fneg(b.imag(value))), value)


def write_element(
    k: KernelContext, n: int, target: IrArray, place: Place, i: IndexValue, value: Value
) -> None:
    """Write element i of a transformed row of length n."""
    b, real, imag = k.b, k.b.real(value), k.b.imag(value)
    if is_inverse(k.root):
        scale = b.const(real.dtype, 1 / n)
        real, imag = b.fmul(real, scale), b.fmul(imag, scale)
    target.store(k.math, place(i), b.complex(real, imag) if target.dtype.is_complex else real)
