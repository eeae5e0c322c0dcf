"""Random modules of elementwise and shape instructions, with the constants rules look for."""

from collections.abc import Callable

import numpy as np

from hloc.dtypes import F32, PRED, S8, S32, U32, DType
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape

DTYPES = (F32, S32, U32, PRED, S8)
DIMS = ((), (4,), (3, 4), (4, 3), (1, 4), (12,), (2, 6))
SPECIAL: dict[DType, tuple[float, ...]] = {
    F32: (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 8.0, np.inf, -np.inf, np.nan),
    S32: (0, 1, -1, 2, 8, 2**31 - 1, -(2**31)),
    U32: (0, 1, 2, 16, 2**32 - 1),
    S8: (0, 1, -1, 127, -128),
    PRED: (0, 1),
}
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


class RandomModule:
    """Grows a module instruction by instruction; everything is decided by `seed`."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.module = Module("random")
        self.entry = self.module.add_computation("entry")
        self.b = Builder(self.entry)
        self.values: list[Instruction] = []
        for number, dtype in enumerate(DTYPES):
            for dims in ((), (3, 4)):
                self.values.append(
                    self.b.parameter(2 * number + (dims != ()), ArrayShape(dtype, dims))
                )

    def grown(self, steps: int) -> Module:
        """Add `steps` instructions and return the module; its results are the last few values."""
        grow = self.choices()
        while len(self.values) < steps:
            made = grow[self.random.integers(len(grow))]()
            if made is not None:
                self.values.append(made)
        self.entry.set_root(self.b.tuple(self.values[-6:]))
        self.module.set_entry(self.entry)
        self.module.log.recording = True
        return self.module

    def choices(self) -> tuple[Callable[[], Instruction | None], ...]:
        """Return what adds an instruction, or None where nothing fits; each as likely."""
        return (
            self.binary,
            self.binary,
            self.unary,
            self.convert,
            self.compare,
            self.select,
            self.clamp,
            self.broadcast,
            self.reshape,
            self.transpose,
            self.reverse,
            self.slice,
            self.pad,
            self.concatenate,
            self.dynamic_slice,
            self.constant,
        )

    # ---- choosing

    def pick(self, *dtypes: DType, dims: tuple[int, ...] | None = None) -> Instruction:
        """Return a recent value of one of `dtypes` (any) and `dims` (any), or a constant."""
        fitting = [
            v
            for v in self.values
            if (not dtypes or v.array.dtype in dtypes) and (dims is None or v.array.dims == dims)
        ]
        if fitting and self.random.random() < 0.8:
            recent = fitting[-8:]
            return recent[self.random.integers(len(recent))]
        dtype = dtypes[self.random.integers(len(dtypes))] if dtypes else F32
        return self.splat(dtype, (3, 4) if dims is None else dims)

    def splat(self, dtype: DType, dims: tuple[int, ...]) -> Instruction:
        choices = SPECIAL[dtype]
        value = np.asarray(choices[self.random.integers(len(choices))]).astype(dtype.numpy)
        scalar = self.b.constant(value)
        return self.b.broadcast(scalar, dims, ()) if dims else scalar

    # ---- growing

    def constant(self) -> Instruction:
        dtype = DTYPES[self.random.integers(len(DTYPES))]
        choices = self.random.choice(np.asarray(SPECIAL[dtype]), (3, 4))
        return self.b.constant(choices.astype(dtype.numpy))

    def binary(self) -> Instruction:
        x = self.pick()
        dtype = x.array.dtype
        names = ["and", "or", "xor"]
        if not dtype.is_pred:
            names = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum"]
        if dtype.is_integer:
            names += ["and", "or", "xor", "shift-left", "shift-right-logical"]
        y = x if self.random.random() < 0.15 else self.pick(dtype, dims=x.array.dims)
        pair = (x, y) if self.random.random() < 0.5 else (y, x)
        return self.b.instruction(names[self.random.integers(len(names))], pair)

    def unary(self) -> Instruction:
        x = self.pick()
        dtype = x.array.dtype
        names = ["not"] if not dtype.is_float else ["abs", "negate", "floor"]
        if dtype.is_integer:
            names.append("negate")
        return self.b.instruction(names[self.random.integers(len(names))], (x,))

    def convert(self) -> Instruction:
        return self.b.convert(self.pick(), DTYPES[self.random.integers(len(DTYPES))])

    def compare(self) -> Instruction:
        x = self.pick()
        y = x if self.random.random() < 0.15 else self.pick(x.array.dtype, dims=x.array.dims)
        return self.b.compare(x, y, str(self.random.choice(DIRECTIONS)))

    def select(self) -> Instruction:
        x = self.pick()
        y = self.pick(x.array.dtype, dims=x.array.dims)
        return self.b.select(self.pick(PRED, dims=x.array.dims), x, y)

    def clamp(self) -> Instruction:
        x = self.pick(F32, S32, U32, S8)
        low, high = (self.splat(x.array.dtype, ()) for _ in range(2))
        return self.b.clamp(low, x, high)

    def broadcast(self) -> Instruction | None:
        x = self.pick()
        if x.array.rank > 1:
            return None
        dims = (2, *x.array.dims) if self.random.random() < 0.5 else (*x.array.dims, 3)
        if x.array.rank == 0:
            return self.b.broadcast(x, DIMS[self.random.integers(len(DIMS))], ())
        return self.b.broadcast(x, dims, (dims.index(x.array.dims[0]),))

    def reshape(self) -> Instruction | None:
        x = self.pick()
        fitting = [d for d in DIMS if int(np.prod(d)) == x.array.elements]
        return self.b.reshape(x, fitting[self.random.integers(len(fitting))]) if fitting else None

    def transpose(self) -> Instruction:
        x = self.pick()
        made = self.b.transpose(x, tuple(int(d) for d in self.random.permutation(x.array.rank)))
        self.entry.set_shape(made, made.array.with_layout(None))
        return made

    def reverse(self) -> Instruction:
        x = self.pick()
        dims = [d for d in range(x.array.rank) if self.random.random() < 0.5]
        return self.b.reverse(x, dims)

    def slice(self) -> Instruction:
        x = self.pick()
        starts = [int(self.random.integers(0, n)) for n in x.array.dims]
        limits = [
            int(self.random.integers(s + 1, n + 1))
            for s, n in zip(starts, x.array.dims, strict=True)
        ]
        strides = [int(self.random.integers(1, 3)) for _ in starts]
        return self.b.slice(x, starts, limits, strides)

    def pad(self) -> Instruction | None:
        x = self.pick()
        if not x.array.rank:
            return None
        low, high = ([int(n) for n in self.random.integers(-1, 3, x.array.rank)] for _ in range(2))
        sizes = [
            n + before + after for n, before, after in zip(x.array.dims, low, high, strict=True)
        ]
        if min(sizes, default=1) < 1:
            low = high = [0] * x.array.rank
        return self.b.pad(x, self.splat(x.array.dtype, ()), low, high)

    def concatenate(self) -> Instruction | None:
        x = self.pick()
        if not x.array.rank or x.array.elements > 100:
            return None
        parts = [x, *(self.pick(x.array.dtype, dims=x.array.dims) for _ in range(2))]
        return self.b.concatenate(parts, int(self.random.integers(x.array.rank)))

    def dynamic_slice(self) -> Instruction | None:
        x = self.pick()
        if not x.array.rank:
            return None
        starts = [self.pick(S32, dims=()) for _ in x.array.dims]
        sizes = [int(self.random.integers(1, n + 1)) for n in x.array.dims]
        return self.b.dynamic_slice(x, starts, sizes)
