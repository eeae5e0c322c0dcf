"""Random modules of rows: reductions, broadcasts of their results, and arithmetic in between.

All numbers are integers, so that every order of summation gives the same bits.
"""

import numpy as np

from hloc.dtypes import S32
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape

FULL = ((6, 20), (2, 3, 20), (6, 4, 5), (120,), (1, 6, 20), (6, 1, 20))
"""One array seen in several ways: 6 rows of 20."""

ROWS = ((6,), (2, 3), (6, 1))
REDUCERS = ("add", "maximum", "minimum")


class RowModule:
    """Grows a module instruction by instruction; everything is decided by `seed`."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.module = Module("rows")
        self.reducers = [self._reducer(name) for name in REDUCERS]
        self.b = Builder(self.module.add_computation("entry"))
        shapes = (FULL[0], FULL[1], ROWS[0], (20,))
        self.values = [self.b.parameter(n, ArrayShape(S32, d)) for n, d in enumerate(shapes)]

    def _reducer(self, name: str) -> Computation:
        b = Builder(self.module.add_computation(name))
        x, y = (b.parameter(n, ArrayShape(S32, ())) for n in range(2))
        b.computation.set_root(getattr(b, name)(x, y))
        return b.computation

    def grown(self, steps: int) -> Module:
        """Add `steps` instructions; some values are results, the last ones among them."""
        grow = (
            self.unary, self.binary, self.binary, self.binary, self.reduce, self.reduce,
            self.spread, self.spread, self.reshape, self.columns, self.transpose, self.arg_reduce,
        )  # fmt: skip
        while len(self.values) < steps:
            found = grow[self.random.integers(len(grow))]()
            if found is not None:
                self.values.append(found)
        chosen = [v for v in self.values[4:-3] if self.random.random() < 0.1]
        self.b.computation.set_root(self.b.tuple([*chosen, *self.values[-3:]]))
        self.module.set_entry(self.b.computation)
        return self.module

    def _some(self, *elements: int) -> Instruction | None:
        found = [v for v in self.values[-12:] if v.array.elements in elements]
        return found[self.random.integers(len(found))] if found else None

    def unary(self) -> Instruction | None:
        x = self._some(120, 6, 20)
        if x is None:
            return None
        if self.random.random() < 0.5:
            return self.b.negate(x)
        three = self.b.broadcast(self.b.constant(3, S32), x.array.dims, ())
        return self.b.divide(x, three)

    def binary(self) -> Instruction | None:
        x = self._some(120, 6, 20)
        if x is None:
            return None
        same = [v for v in self.values[-12:] if v.array.dims == x.array.dims]
        y = same[self.random.integers(len(same))]
        return getattr(self.b, ("add", "subtract", "multiply")[self.random.integers(3)])(x, y)  # type: ignore[no-any-return]

    def reduce(self) -> Instruction | None:
        x = self._some(120)
        if x is None:
            return None
        dims = x.array.dims
        first = next((n for n in range(len(dims) + 1) if int(np.prod(dims[:n])) == 6), None)
        if first is None or first == len(dims):
            return None
        reducer = self.reducers[self.random.integers(len(self.reducers))]
        zero = self.b.constant(int(self.random.integers(3)), S32)
        return self.b.reduce([x], [zero], tuple(range(first, len(dims))), reducer)

    def columns(self) -> Instruction | None:
        x = self._some(120)
        if x is None or x.array.dims[-1] != 20:
            return None
        dims = tuple(range(x.array.rank - 1))
        reducer = self.reducers[self.random.integers(len(self.reducers))]
        return self.b.reduce([x], [self.b.constant(0, S32)], dims, reducer)

    def arg_reduce(self) -> Instruction | None:
        """A reduction of two arrays, of which one result is used."""
        x = self._some(120)
        if x is None or x.array.dims != (6, 20):
            return None
        name = "pair"
        found = [c for c in self.module.computations if c.name == name]
        computation = found[0] if found else self._pair(name)
        zero = self.b.constant(0, S32)
        places = self.b.iota(S32, (6, 20), 1)
        both = self.b.reduce([x, places], [zero, zero], (1,), computation)
        return self.b.get_tuple_element(both, int(self.random.integers(2)))

    def _pair(self, name: str) -> Computation:
        b = Builder(self.module.add_computation(name))
        a, i, c, j = (b.parameter(n, ArrayShape(S32, ())) for n in range(4))
        b.computation.set_root(b.tuple([b.maximum(a, c), b.add(i, j)]))
        return b.computation

    def spread(self) -> Instruction | None:
        x = self._some(6, 20)
        if x is None:
            return None
        if x.array.elements == 20:
            return self.b.broadcast(self.b.reshape(x, (20,)), (6, 20), (1,))
        dims = FULL[self.random.integers(len(FULL))]
        if x.array.dims == (6,) and dims[0] == 6:
            return self.b.broadcast(x, dims, (0,))
        if x.array.dims == (2, 3) and dims == (2, 3, 20):
            return self.b.broadcast(x, dims, (0, 1))
        return None

    def reshape(self) -> Instruction | None:
        x = self._some(120, 6)
        if x is None:
            return None
        shapes = FULL if x.array.elements == 120 else ROWS
        return self.b.reshape(x, shapes[self.random.integers(len(shapes))])

    def transpose(self) -> Instruction | None:
        x = self._some(120)
        if x is None or x.array.dims != (6, 20):
            return None
        return self.b.reshape(self.b.transpose(x, (1, 0)), (6, 20))
