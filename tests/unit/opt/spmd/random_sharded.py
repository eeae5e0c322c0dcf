"""Random modules of whole arrays with random shardings: everything is decided by `seed`.

Sums are of integers only, and floats are compared, so that answers do not depend on the order in
which devices combine them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from hloc.dtypes import F32, PRED, S32, U32
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.sharding import LeafSharding, Tiles, TupleSharding, iota
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape, TupleShape
from tests.unit.opt.random_modules import RandomModule

DEVICES = (2, 3, 4, 6, 8)
LARGER = ((8, 6), (5, 8), (16,), (2, 3, 4))


class RandomSharded(RandomModule):
    """Grows a module for some devices; a third of its instructions have a sharding."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.devices = int(self.random.choice(DEVICES))
        for dims in LARGER:
            for dtype in (F32, S32):
                number = len(self.entry.parameters)
                self.values.append(self.b.parameter(number, ArrayShape(dtype, dims)))

    def annotated(self, steps: int) -> Module:
        """Return a module of `steps` values; parameters, results and some others have shardings."""
        module = self.grown(steps)
        module.set_config(replace(module.config, num_partitions=self.devices))
        root = self.entry.root
        for inst in (*self.values, root):
            if inst.is_a("parameter") or inst is root or self.random.random() < 0.3:
                self.annotate(inst)
        return module

    def annotate(self, inst: Instruction) -> None:
        """Give an instruction of arrays a random sharding."""
        shape = inst.shape
        if isinstance(shape, TupleShape):
            leaves = tuple(
                self.sharding(s.rank) for s in shape.elements if isinstance(s, ArrayShape)
            )
            sharding: TupleSharding | LeafSharding = TupleSharding(leaves)
        else:
            sharding = self.sharding(inst.array.rank)
        inst.computation.set_common(inst, replace(inst.common, sharding=sharding))

    def sharding(self, rank: int) -> LeafSharding:
        """Return a sharding of an array of `rank` dimensions, in any of HLO's forms."""
        draw = self.random.random()
        if draw < 0.15:
            return LeafSharding("replicated")
        if draw < 0.18:
            return LeafSharding("maximal", device=int(self.random.integers(self.devices)))
        if draw < 0.28:
            return LeafSharding("named", name=self.by_axes(rank))
        dims = [1] * (rank + 1)
        for prime in _primes(self.devices):
            dims[self.random.integers(rank + 1)] *= prime
        subgroups = ("replicated",) if dims[-1] > 1 else ()
        shape = tuple(dims if subgroups else dims[:-1])
        if draw < 0.4:
            devices = tuple(int(d) for d in self.random.permutation(self.devices))
            return LeafSharding("tiled", Tiles(shape, devices), subgroups)
        sizes = [int(p) for p in self.random.permutation(_primes(self.devices))]
        order = self.random.permutation(len(sizes)) if draw < 0.6 else range(len(sizes))
        return LeafSharding(
            "tiled", Tiles(shape, iota(tuple(sizes), tuple(int(i) for i in order))), subgroups
        )

    def by_axes(self, rank: int) -> str:
        """Return the named form: `mesh['a'=2,'b'=3], [{'b'}, {}]`."""
        sizes = [int(p) for p in self.random.permutation(_primes(self.devices))]
        dims: list[list[str]] = [[] for _ in range(rank)]
        for name, _ in zip("abc", sizes, strict=False):
            if rank and self.random.random() < 0.7:
                dims[self.random.integers(rank)].append(f"'{name}'")
        axes = ",".join(f"'{name}'={size}" for name, size in zip("abc", sizes, strict=False))
        return f"mesh[{axes}], [{', '.join('{' + ', '.join(dim) + '}' for dim in dims)}]"

    # ---- growing

    def choices(self) -> tuple[Callable[[], Instruction | None], ...]:
        mine = (
            self.reduce, self.dot, self.gather, self.scatter, self.update, self.iota, self.sort,
            self.windows, self.loop, self.branch, self.barrier,
        )  # fmt: skip
        return (*super().choices(), *mine, *mine)

    def reduce(self) -> Instruction | None:
        x = self.pick(S32, U32, F32)
        if not x.array.rank:
            return None
        opcode = "maximum" if x.array.dtype is F32 else str(self.random.choice(["add", "minimum"]))
        dims = [d for d in range(x.array.rank) if self.random.random() < 0.6]
        init = self.splat(x.array.dtype, ())
        return self.b.reduce([x], [init], dims, self.b.scalar_function(opcode, x.array.dtype))

    def dot(self) -> Instruction | None:
        x = self.pick(S32)
        rank = x.array.rank
        fitting = [v for v in self.values if v.array.dtype is S32 and v.array.rank]
        y = fitting[self.random.integers(len(fitting))]
        pairs = [
            (i, j) for i, m in enumerate(x.array.dims) for j, n in enumerate(y.array.dims) if m == n
        ]
        if not rank or not pairs:
            return None
        i, j = pairs[self.random.integers(len(pairs))]
        batch = self.random.random() < 0.3
        free = [x.array.dims[d] for d in range(rank) if d != i]
        free += [n for d, n in enumerate(y.array.dims) if d != j]
        dims = ([x.array.dims[i]] if batch else []) + free
        if prod(dims) > 500:
            return None
        numbers = ((i,), (j,))
        return self.b.instruction(
            "dot", (x, y), shape=ArrayShape(S32, tuple(dims)),
            lhs_batch_dims=numbers[0] if batch else (), rhs_batch_dims=numbers[1] if batch else (),
            lhs_contracting_dims=() if batch else numbers[0],
            rhs_contracting_dims=() if batch else numbers[1],
        )  # fmt: skip

    def indices(self, count: int, dims: int) -> Instruction:
        made = self.random.integers(-2, 9, (count, dims)).astype(np.int32)
        return self.b.constant(made)

    def gather(self) -> Instruction | None:
        x = self.pick()
        rank = x.array.rank
        if not rank:
            return None
        dim = int(self.random.integers(rank))
        sizes = tuple(1 if d == dim else n for d, n in enumerate(x.array.dims))
        rest = tuple(n for d, n in enumerate(x.array.dims) if d != dim)
        return self.b.instruction(
            "gather", (x, self.indices(5, 1)), shape=ArrayShape(x.array.dtype, (5, *rest)),
            offset_dims=tuple(range(1, rank)), collapsed_slice_dims=(dim,), start_index_map=(dim,),
            index_vector_dim=1, slice_sizes=sizes,
        )  # fmt: skip

    def scatter(self) -> Instruction | None:
        x = self.pick(S32)
        rank = x.array.rank
        if not rank:
            return None
        dim = int(self.random.integers(rank))
        rest = tuple(n for d, n in enumerate(x.array.dims) if d != dim)
        operands = (x, self.indices(3, 1), self.splat(S32, (3, *rest)))
        return self.b.instruction(
            "scatter", operands, called=(self.b.scalar_function("add", S32),),
            update_window_dims=tuple(range(1, rank)), inserted_window_dims=(dim,),
            scatter_dims_to_operand_dims=(dim,), index_vector_dim=1,
        )  # fmt: skip

    def update(self) -> Instruction | None:
        x = self.pick()
        if not x.array.rank:
            return None
        sizes = [int(self.random.integers(1, n + 1)) for n in x.array.dims]
        starts = [self.pick(S32, dims=()) for _ in sizes]
        return self.b.dynamic_update_slice(x, self.splat(x.array.dtype, tuple(sizes)), starts)

    def iota(self) -> Instruction:
        dims = LARGER[self.random.integers(len(LARGER))]
        return self.b.iota(S32, dims, int(self.random.integers(len(dims))))

    def sort(self) -> Instruction | None:
        x = self.pick(S32, U32)
        if not x.array.rank:
            return None
        less = self.computation("less")
        b = Builder(less)
        scalar = ArrayShape(x.array.dtype)
        less.set_root(b.compare(b.parameter(0, scalar), b.parameter(1, scalar), "LT"))
        dim = int(self.random.integers(x.array.rank))
        return self.b.instruction("sort", (x,), called=(less,), dimensions=(dim,))

    def windows(self) -> Instruction | None:
        x = self.pick(S32)
        if not x.array.rank or min(x.array.dims, default=0) < 1:
            return None
        dims = []
        for n in x.array.dims:
            size = int(self.random.integers(1, min(n, 3) + 1))
            low, high = (int(p) for p in self.random.integers(0, size, 2))
            dims.append(WindowDimension(size, int(self.random.integers(1, 3)), low, high))
        return self.b.instruction(
            "reduce-window", (x, self.b.constant(0, S32)), window=Window(tuple(dims)),
            called=(self.b.scalar_function("add", S32),),
        )  # fmt: skip

    def loop(self) -> Instruction:
        """Add a loop that changes an array three times, beside one that it only reads."""
        x = self.pick(S32)
        y = self.pick(S32, dims=x.array.dims)
        state = TupleShape((ArrayShape(S32), x.array, y.array))
        more, body = self.computation("more"), self.computation("body")
        b = Builder(more)
        i = b.get_tuple_element(b.parameter(0, state), 0)
        more.set_root(b.compare(i, b.constant(3, S32), "LT"))
        b = Builder(body)
        p = b.parameter(0, state)
        i, u, v = (b.get_tuple_element(p, k) for k in range(3))
        if u.array.rank and self.random.random() < 0.5:
            u = b.reverse(u, [int(self.random.integers(u.array.rank))])
        changed = b.add(u, v)
        if self.random.random() < 0.3:
            self.annotate(changed)
        swapped = self.random.random() < 0.3
        following = [b.add(i, b.constant(1, S32)), *((v, changed) if swapped else (changed, v))]
        body.set_root(b.tuple(following))
        made = self.b.instruction(
            "while", (self.b.tuple([self.b.constant(0, S32), x, y]),), called=(more, body)
        )
        if self.random.random() < 0.3:
            self.annotate(made)
        return self.b.get_tuple_element(made, 1)

    def branch(self) -> Instruction:
        x = self.pick()
        branches = []
        for name in ("yes", "no"):
            computation = self.computation(name)
            b = Builder(computation)
            p = b.parameter(0, x.array)
            rank = x.array.rank
            dims = [int(self.random.integers(rank))] if rank else []
            computation.set_root(
                b.reverse(p, dims) if name == "yes" else b.instruction("copy", (p,))
            )
            branches.append(computation)
        selector = self.pick(PRED, dims=())
        return self.b.instruction("conditional", (selector, x, x), called=tuple(branches))

    def barrier(self) -> Instruction:
        x, y = self.pick(), self.pick()
        made = self.b.instruction("opt-barrier", (self.b.tuple([x, y]),))
        if self.random.random() < 0.3:
            self.annotate(made)
        return self.b.get_tuple_element(made, int(self.random.integers(2)))

    def computation(self, name: str) -> Computation:
        return self.module.add_computation(name)


def _primes(number: int) -> list[int]:
    return {2: [2], 3: [3], 4: [2, 2], 6: [2, 3], 8: [2, 2, 2]}[number]
