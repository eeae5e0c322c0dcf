"""Random modules in a manual region over one axis of a mesh; its other axes are free.

The body is a random module with random shardings along the free axes. Each of the two parts of
the region is the body on its part of the arguments, which is what `wanted_of` evaluates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import hloc
from hloc.ir.sharding import LeafSharding
from hloc.opt.spmd.tiling import NO_AXES, Mesh, Tiling
from hloc.shapes import ArrayShape, TupleShape
from tests.unit.opt.spmd.random_sharded import RandomSharded

PARTS = 2
FREE = ((2,), (3,), (2, 2))


class RandomRegion(RandomSharded):
    """Grows a module and puts it into a region."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        free = FREE[self.random.integers(len(FREE))]
        self.mesh = Mesh((PARTS, *free))

    def sharding(self, rank: int) -> LeafSharding:
        """Return a sharding inside of the region, along some of the free axes."""
        return self.tiling(rank, range(1, len(self.mesh.sizes)), manual=frozenset({0})).sharding()

    def tiling(self, rank: int, axes: Iterable[int], manual: frozenset[int] = NO_AXES) -> Tiling:
        """Return a tiling that splits random dimensions along some of `axes`."""
        dims: list[tuple[int, ...]] = [()] * rank
        for axis in self.random.permutation(list(axes)):
            if rank and self.random.random() < 0.7:
                dim = self.random.integers(rank)
                dims[dim] = (*dims[dim], int(axis))
        return Tiling(self.mesh, tuple(dims), manual)

    def texts(self, steps: int) -> tuple[str, str]:
        """Return the program with the region, and the body alone."""
        body = self.annotated(steps)
        body_text = body.to_text(large_constants=True)
        lines: list[str] = []
        for number, parameter in enumerate(body.entry.parameters):
            part = parameter.array
            lines += self.entering(number, part, self.parted(part))
        results = body.entry.root.shape
        assert isinstance(results, TupleShape)
        operands = ", ".join(f"l{i}" for i in range(len(body.entry.parameters)))
        lines.append(f"r = {results.text_without_layout} call({operands}), to_apply=entry")
        names, shapes = [], []
        for number, result in enumerate(results.elements):
            assert isinstance(result, ArrayShape)
            if result.rank:
                names.append(f"w{number}")
                shapes.append(str(self.parted(result)))
                lines += self.leaving(number, result, self.parted(result))
        lines.append(f"ROOT t = ({', '.join(shapes)}) tuple({', '.join(names)})")
        called = body_text.partition("\n")[2].replace("ENTRY %entry", "%entry")
        entry = "\n  ".join(["ENTRY main {", *lines])
        head = f"HloModule m, num_partitions={self.mesh.count}"
        return f"{head}\n{called}\n{entry}\n}}\n", body_text

    def parted(self, part: ArrayShape) -> ArrayShape:
        """Return the shape of the whole of which a part of the region has `part`."""
        dims = (part.dims[0] * PARTS, *part.dims[1:]) if part.rank else ()
        return ArrayShape(part.dtype, dims)

    def edge(self, rank: int) -> LeafSharding:
        """Return the sharding outside of the region: its axis splits the first dimension."""
        return Tiling(self.mesh, (((0,),) + ((),) * (rank - 1)) if rank else ()).sharding()

    def inside(self, rank: int) -> LeafSharding:
        """Return the sharding of what is whole in the region."""
        return Tiling(self.mesh, ((),) * rank, frozenset({0})).sharding()

    def entering(self, number: int, part: ArrayShape, whole: ArrayShape) -> list[str]:
        axes = range(len(self.mesh.sizes))
        given = self.tiling(whole.rank, axes).sharding()
        is_open = self.random.random() < 0.5 and whole.rank
        dims = ",".join(map(str, range(whole.rank)))
        opened = f', backend_config="unspecified_dims=[{dims}]"' if is_open else ""
        return [
            f"x{number} = {whole} parameter({number}), sharding={given}",
            f'c{number} = {whole} custom-call(x{number}), custom_call_target="Sharding", '
            f"sharding={self.edge(whole.rank)}{opened}",
            f"l{number} = {part} custom-call(c{number}), "
            f'custom_call_target="SPMDFullToShardShape", sharding={self.inside(whole.rank)}',
        ]

    def leaving(self, number: int, part: ArrayShape, whole: ArrayShape) -> list[str]:
        return [
            f"g{number} = {part} get-tuple-element(r), index={number}",
            f"w{number} = {whole} custom-call(g{number}), "
            f'custom_call_target="SPMDShardToFullShape", sharding={self.edge(whole.rank)}',
        ]


def wanted_of(body: str, arguments: Sequence[Any]) -> list[Any]:
    """Return the results of rank 1 or more of the body on each part, joined."""
    found = []
    for part in range(PARTS):
        local = [np.split(a, PARTS)[part] if a.ndim else a for a in arguments]
        found.append(hloc.evaluate(body, *local))
    return [
        np.concatenate([np.asarray(result) for result in parts])
        for parts in zip(*found, strict=True)
        if np.ndim(parts[0])
    ]
