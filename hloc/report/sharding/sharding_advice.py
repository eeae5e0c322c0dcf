"""Which single annotation would save most bytes: each is tried by partitioning again.

Candidate values are those that collectives move or are caused by, and the largest others. Candidate
shardings are each mesh axis along each dimension alone, all axes along one, and none. Both number
and time are bounded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hloc.analysis.network.sharding_axes import axes_text, tiled_by_axes
from hloc.analysis.network.sharding_explanation import Advice, ShardingExplanation, total_bytes_sent
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.origin import origin_of
from hloc.ir.replica_groups import DeviceMesh
from hloc.lazy_dataclass import dataclass
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.shapes import ArrayShape

_MOST_VALUES = 12
_MOST_TRIALS = 96
_MOST_SECONDS = 20.0
_MOST_SHOWN = 5

_Split = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Trials:
    """The annotations that save bytes, best first, and how many were tried."""

    advice: tuple[Advice, ...]
    tried: int


def advice_for(
    module: Module, found: ShardingExplanation, mesh: DeviceMesh, partitioning: str
) -> Trials:
    """Return the single annotations that save bytes; `module` is not changed.

    Args:
        module: an annotated, unpartitioned module.
        found: its explanation.
        mesh: the mesh of all its devices.
        partitioning: the passes that partition it.
    """
    stop = time.process_time() + _MOST_SECONDS
    best: dict[str, Advice] = {}
    tried = 0
    for inst, split in _candidates(module, found, mesh):
        if tried == _MOST_TRIALS or time.process_time() > stop:
            break
        tried += 1
        size = _bytes_with(module, inst, split, mesh, partitioning)
        saved = 0 if size is None else found.total_bytes - size
        if size is None or saved <= 0:
            continue
        known = best.get(inst.name)
        if known is None or saved > known.saved_bytes:
            shape = inst.shape.text_without_layout
            best[inst.name] = Advice(
                inst.name, shape, axes_text(split), origin_of(inst), size, saved
            )
    ranked = sorted(best.values(), key=lambda advice: -advice.saved_bytes)
    return Trials(tuple(ranked[:_MOST_SHOWN]), tried)


def _candidates(
    module: Module, found: ShardingExplanation, mesh: DeviceMesh
) -> Iterator[tuple[Instruction, _Split]]:
    for inst in _values(module, found):
        for split in _splits(inst.array.dims, mesh):
            yield inst, split


def _values(module: Module, found: ShardingExplanation) -> list[Instruction]:
    """Return arrays of the entry: those in collectives, the costliest first, then by size."""
    arrays = {
        inst.name: inst
        for inst in module.entry.instructions
        if isinstance(inst.shape, ArrayShape) and inst.array.rank and not inst.is_a("custom-call")
    }
    rows = sorted(found.collectives, key=lambda row: -row.size_bytes)
    named = [name for row in rows for name in (row.value, row.needed_by)]
    large = sorted(arrays, key=lambda name: -arrays[name].array.size_bytes)
    names = dict.fromkeys(name for name in (*named, *large) if name in arrays)
    return [arrays[name] for name in list(names)[:_MOST_VALUES]]


def _splits(dims: Sequence[int], mesh: DeviceMesh) -> Iterator[_Split]:
    """Yield shardings that divide `dims` evenly, and the replicated one."""
    sizes = {name: size for name, size in mesh.axes if size > 1}
    whole: list[tuple[str, ...]] = [()] * len(dims)
    yield tuple(whole)
    choices: list[tuple[str, ...]] = [(name,) for name in sizes]
    choices += [tuple(sizes)] if len(sizes) > 1 else []
    for names in choices:
        parts = 1
        for name in names:
            parts *= sizes[name]
        for dim, size in enumerate(dims):
            if size % parts == 0:
                yield (*whole[:dim], names, *whole[dim + 1 :])


def _bytes_with(
    module: Module, inst: Instruction, split: _Split, mesh: DeviceMesh, partitioning: str
) -> int | None:
    """Return the bytes sent with this annotation of `inst`; None if partitioning fails."""
    trial = clone_module(module)
    target = next(i for i in trial.entry.instructions if i.name == inst.name)
    kept = tuple(
        pair for pair in target.common.frontend_attributes if pair[0] != "xla.sdy.sharding"
    )
    common = replace(target.common, sharding=tiled_by_axes(split, mesh), frontend_attributes=kept)
    trial.entry.set_common(target, common)
    try:
        Pipeline.parse(partitioning).run(trial, PassContext())
        return total_bytes_sent(trial)
    except HloError:
        return None
