"""The program of one device under construction: values, offsets by partition, collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from hloc.dtypes import PRED, S32
from hloc.ir.attributes import NO_COMMON
from hloc.ir.reshard_note import ReshardNote, with_note
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.spmd.tiling import NO_AXES, Axes, Mesh, Tiling, replicated
from hloc.shapes import ArrayShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hloc.ir.computation import Computation
    from hloc.ir.instruction import Instruction
    from hloc.ir.module import Module


@dataclass(frozen=True, slots=True)
class Maker:
    """Recomputes an array with another tiling, by `steps` dependent instructions."""

    run: Callable[[Tiling], Value]
    steps: int = 0


@dataclass(eq=False, slots=True)
class Value:
    """An array of the global program, as each device has it.

    Attributes:
        inst: the instruction of the per-device program.
        whole: the shape of the whole array; in a manual region, that of the text.
        tiling: its tiling.
        manual: axes of the manual regions around it, along which the text is per-device.
        forms: the same array with other tilings.
        make: recomputes the array with another tiling, None if that needs other devices' data.
    """

    inst: Instruction
    whole: ArrayShape
    tiling: Tiling
    manual: frozenset[int] = NO_AXES
    forms: dict[Tiling, Value] = field(default_factory=dict)
    make: Maker | None = None


@dataclass(eq=False, slots=True)
class Shared:
    """Data shared by the computations of one module.

    Attributes:
        mesh: the axes of all tilings.
        channels: numbers for new collectives.
    """

    module: Module
    mesh: Mesh
    channels: Iterator[int]
    reducers: dict[tuple[str, str], Computation] = field(default_factory=dict)

    @staticmethod
    def of(module: Module, mesh: Mesh) -> Shared:
        used = [
            getattr(inst.attributes, "channel_id", None) or 0
            for computation in module.computations
            for inst in computation.instructions
        ]
        return Shared(module, mesh, count(max(used, default=0) + 1))


@dataclass(eq=False, slots=True)
class Region:
    """One computation of the per-device program.

    Attributes:
        origin: the instruction of the global program being partitioned; new instructions get
            its metadata.
        note: the reason for collectives, attached to new ones.
        manual: axes of the manual region being partitioned: nothing is sent along them.
        names: those of the instructions of the global program in this computation.
    """

    shared: Shared
    computation: Computation
    origin: Instruction | None = None
    note: ReshardNote | None = None
    manual: frozenset[int] = NO_AXES
    names: dict[Instruction, str] = field(default_factory=dict)
    _offsets: dict[object, Instruction] = field(default_factory=dict)

    @property
    def mesh(self) -> Mesh:
        return self.shared.mesh

    @property
    def build(self) -> Builder:
        return Builder(self.computation)

    def annotated(self, inst: Instruction) -> Instruction:
        """Give `inst` the metadata of the instruction being partitioned, and the note."""
        common = NO_COMMON
        if self.origin is not None and self.origin.common.metadata is not None:
            common = common.with_metadata(self.origin.common.metadata)
        if self.note is not None and inst.opcode.exchange is not None:
            common = with_note(common, self.note)
        if common != NO_COMMON:
            self.computation.set_common(inst, common)
        return inst

    def explain(self, value: Instruction, before: str, after: str) -> None:
        """Set the note of collectives until it is reset: `value` is resharded to `after`."""
        needed_by = "" if self.origin is None else self.origin.name
        self.note = ReshardNote(self.names.get(value, value.name), needed_by, before, after)

    def value(self, inst: Instruction, whole: ArrayShape, tiling: Tiling) -> Value:
        """Return `inst` as the local part of an array."""
        return Value(inst, whole, tiling)

    # ---- numbers that depend on the partition

    def table(self, numbers: Sequence[int]) -> Instruction:
        """Return `s32[]`, the entry of `numbers` for this partition."""
        key = tuple(map(int, numbers))
        if key not in self._offsets:
            b = self.build
            if len(set(key)) == 1:
                self._offsets[key] = b.constant(key[0], S32)
            else:
                table = b.constant(np.array(key, np.int32))
                entry = b.dynamic_slice(table, (self._partition(),), (1,))
                self._offsets[key] = b.reshape(entry, ())
        return self._offsets[key]

    def _partition(self) -> Instruction:
        if "partition" not in self._offsets:
            self._offsets["partition"] = self.build.instruction("partition-id")
        return self._offsets["partition"]

    def offset(self, axes: Axes, size: int) -> Instruction:
        """Return `s32[]`: the number of this partition along `axes`, times `size`."""
        return self.table([int(n) * size for n in self.mesh.coordinates(axes)])

    def zero(self) -> Instruction:
        return self.table([0])

    # ---- operations on single arrays

    def sliced(self, x: Instruction, dim: int, axes: Axes) -> Instruction:
        """Keep this partition's part of dimension `dim`, padded if the size does not divide."""
        tiles = self.mesh.size(axes)
        size = -(-x.array.dims[dim] // tiles)
        if _is_same_along(x, dim):
            return self._shortened(x, dim, size)
        x = self.padded(x, dim, size * tiles)
        starts = [self.zero()] * x.array.rank
        starts[dim] = self.offset(axes, size)
        sizes = list(x.array.dims)
        sizes[dim] = size
        return self.annotated(self.build.dynamic_slice(x, starts, sizes))

    def _shortened(self, x: Instruction, dim: int, size: int) -> Instruction:
        """Recreate a broadcast or iota with another size of `dim`."""
        dims = tuple(size if d == dim else n for d, n in enumerate(x.array.dims))
        return self.annotated(
            self.computation.add(
                x.opcode, ArrayShape(x.array.dtype, dims), x.operands, x.attributes, name=x.name
            )
        )

    def padded(self, x: Instruction, dim: int, size: int) -> Instruction:
        """Pad dimension `dim` at its end with zeros."""
        missing = size - x.array.dims[dim]
        if not missing:
            return x
        b, rank = self.build, x.array.rank
        high = [missing if d == dim else 0 for d in range(rank)]
        return b.pad(x, b.constant(0, x.array.dtype), [0] * rank, high)

    def cut(self, x: Instruction, dim: int, size: int) -> Instruction:
        """Keep the first `size` elements of dimension `dim`."""
        if x.array.dims[dim] == size:
            return x
        limits = list(x.array.dims)
        limits[dim] = size
        return self.build.slice(x, [0] * len(limits), limits)

    def masked(self, value: Value, dims: Sequence[int], fill: Instruction) -> Value:
        """Set the padding along `dims` to the scalar `fill`."""
        x, b = value.inst, self.build
        for dim in dims:
            if value.tiling.is_even(value.whole.dims, dim):
                continue
            size = x.array.dims[dim]
            places = b.iota(S32, x.array.dims, dim)
            first = self.offset(value.tiling.dims[dim], size)
            place = b.add(places, b.broadcast(first, x.array.dims))
            end = b.splat(value.whole.dims[dim], place.array)
            inside = b.compare(place, end, "LT")
            assert inside.array.dtype is PRED
            x = b.select(inside, x, b.broadcast(fill, x.array.dims))
        return Value(x, value.whole, value.tiling)

    # ---- collectives

    def all_gather(self, x: Instruction, dim: int, axes: Axes) -> Instruction:
        """Concatenate the parts of the partitions along `axes`."""
        dims = list(x.array.dims)
        dims[dim] *= self.mesh.size(axes)
        return self._collective("all-gather", x, axes, dims, dimensions=(dim,))

    def all_reduce(self, x: Instruction, axes: Axes, reducer: Computation) -> Instruction:
        """Combine the arrays of the partitions along `axes`."""
        return self._collective("all-reduce", x, axes, None, called=(reducer,))

    def reduce_scatter(
        self, x: Instruction, dim: int, axes: Axes, reducer: Computation
    ) -> Instruction:
        """Combine the arrays of the partitions along `axes`, and keep one part of `dim` each."""
        dims = list(x.array.dims)
        dims[dim] //= self.mesh.size(axes)
        return self._collective(
            "reduce-scatter", x, axes, dims, called=(reducer,), dimensions=(dim,)
        )

    def _collective(
        self, opcode: str, x: Instruction, axes: Axes, dims: Sequence[int] | None, **more: Any
    ) -> Instruction:
        """Add a collective along `axes` with a result of `dims`, None for those of `x`."""
        return self.annotated(
            self.build.instruction(
                opcode,
                (x,),
                shape=None if dims is None else ArrayShape(x.array.dtype, tuple(dims)),
                channel_id=next(self.shared.channels),
                replica_groups=self.mesh.groups(axes),
                use_global_device_ids=True,
                **more,
            )
        )

    def all_to_all(self, x: Instruction, gathered: int, split: int, axes: Axes) -> Instruction:
        """Split dimension `split` among the partitions along `axes`, and join `gathered`."""
        b, n, dims = self.build, self.mesh.size(axes), x.array.dims
        apart = (*dims[:split], n, dims[split] // n, *dims[split + 1 :])
        pieces = b.instruction(
            "all-to-all",
            (b.reshape(x, apart),),
            shape=ArrayShape(x.array.dtype, tuple(apart)),
            channel_id=next(self.shared.channels),
            replica_groups=self.mesh.groups(axes),
            dimensions=(split,),
        )
        self.annotated(pieces)
        order = [dim for dim in range(len(apart)) if dim != split]
        order.insert(gathered, split)  # the senders, before the joined dimension
        moved = b.transpose(pieces, order)
        joined = list(dims)
        joined[split] //= n
        joined[gathered] *= n
        return b.reshape(moved, joined)

    def permute(self, x: Instruction, pairs: Sequence[tuple[int, int]]) -> Instruction:
        """Send along (source, target) pairs of partitions; others receive zeros."""
        return self.annotated(
            self.build.instruction(
                "collective-permute",
                (x,),
                channel_id=next(self.shared.channels),
                source_target_pairs=tuple(pairs),
            )
        )

    def whole(self, rank: int) -> Tiling:
        """Return the tiling of a replicated array."""
        return replicated(self.mesh, rank)


def _is_same_along(x: Instruction, dim: int) -> bool:
    """True if `x` is generated, and independent of the index along `dim`."""
    if x.is_a("broadcast"):
        return dim not in x.attributes.dimensions
    return x.is_a("iota") and x.attributes.iota_dimension != dim
