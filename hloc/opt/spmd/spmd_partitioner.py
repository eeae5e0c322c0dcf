"""The pass `spmd-partitioner`: turns a global program into the program of each device.

The walk visits instructions operands first. Each array is a `Value`: an instruction of the
per-device program, the whole shape and its tiling. An instruction is computed in parts where its
factor rule allows (`Opcode.factors`, `assignment.py`); without a rule it is computed whole on every
device, which is always correct. Sources: the GSPMD paper (Xu et al., 2021), XLA's
`spmd_partitioner.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.errors import UnsupportedError
from hloc.ir.axis_sharding_text import MESHES, meshes_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.sharded_signature import whole_sizes
from hloc.ir.sharding import LeafSharding, TupleSharding
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.spmd.annotations import (
    TO_GLOBAL,
    all_shardings,
    partitions_of,
    shardings_of,
    target_of,
)
from hloc.opt.spmd.checks import check_custom_calls, check_device_numbers
from hloc.opt.spmd.mesh_axes import mesh_of, prime_mesh
from hloc.opt.spmd.region import Region, Shared
from hloc.opt.spmd.starting_points import annotations_of
from hloc.opt.spmd.tiling import Mesh, Tiling
from hloc.opt.spmd.trees import arrays_of, as_instruction, leaf_shapes, tiling_at, values_of
from hloc.opt.spmd.walk import Walk
from hloc.shapes import ArrayShape, TupleShape


class SpmdPartitioner(RewritingPass):
    """Partition the module by its shardings: every device runs the result on its parts.

    Cost: O(instructions), whatever the number of devices.
    """

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Replace the entry computation.

        Raises:
            UnsupportedError: the module has replicas as well as partitions.
        """
        partitions = partitions_of(module)
        if partitions == 1 or module.entry.name.endswith("_spmd"):
            return
        if module.config.replica_count != 1:
            raise UnsupportedError("a module with several replicas cannot be partitioned")
        with context.rewriting(module, self.name):
            partition(module, partitions)


def partition(module: Module, partitions: int) -> None:
    """Replace the entry of `module` by the program of one of `partitions` devices."""
    check_custom_calls(module)
    check_device_numbers(module)
    module.set_config(replace(module.config, num_partitions=partitions))
    whole = module.entry
    shared = Shared.of(module, prime_mesh(mesh_of(all_shardings(module), partitions)))
    computation = module.add_computation(f"{whole.name}_spmd")
    region = Region(shared, computation)
    walk = Walk(region)
    for parameter in whole.parameters:
        walk.trees[parameter] = walk.parameter(parameter)
    walk.run(whole)
    shardings = zip(_result_shardings(whole.root), leaf_shapes(whole.root.shape), strict=True)
    wanted = [tiling_at(region, s, shape) if s is not None else None for s, shape in shardings]
    root, used = as_instruction(region, walk.trees[whole.root], wanted)
    if root.is_a("parameter") or root.users or not isinstance(root.shape, type(whole.root.shape)):
        root = _fresh(region, root)
    computation.set_root(root)
    leaves = tuple(
        tiling.sharding() if tiling and not tiling.manual else LeafSharding("manual")
        for tiling in used
    )
    single = isinstance(whole.root.shape, ArrayShape)
    sharding = leaves[0] if single and leaves else TupleSharding(leaves)
    computation.set_common(root, replace(root.common, sharding=sharding))
    module.set_entry(computation)
    header = dict(module.config.frontend_attributes)
    header.pop(MESHES, None)
    sides = [arrays_of([p.shape for p in whole.parameters]), arrays_of([whole.root.shape])]
    given = [v.tiling for v in values_of([walk.trees[p] for p in whole.parameters])]
    chosen = [tiling for tiling in used if tiling is not None and not tiling.manual]
    if _has_uneven(sides[0], given) or (
        len(chosen) == len(sides[1]) and _has_uneven(sides[1], chosen)
    ):
        header |= whole_sizes(*([array.dims for array in side] for side in sides))
    attributes = tuple(sorted(header.items()))
    module.set_config(replace(module.config, entry_layout=None, frontend_attributes=attributes))
    _drop(module, whole)


def _fresh(region: Region, inst: Instruction) -> Instruction:
    """Return a copy of `inst`, so that it can be annotated as the root."""
    b = region.build
    if isinstance(inst.shape, TupleShape):
        return b.tuple([b.get_tuple_element(inst, i) for i in range(len(inst.shape.elements))])
    return b.instruction("copy", (inst,))


def _has_uneven(arrays: Sequence[ArrayShape], tilings: Sequence[Tiling]) -> bool:
    return any(
        not tiling.is_even(array.dims, dim)
        for array, tiling in zip(arrays, tilings, strict=True)
        for dim in range(array.rank)
    )


def _result_shardings(root: Instruction) -> list[LeafSharding | None]:
    """Return the required sharding of each result; None for any.

    Shardy's programs annotate results by `FuncResultSharding`. In others, results without a
    sharding are replicated unless the header allows any. Then the open dimensions of a manual
    region's results keep their sharding.
    """
    found = list(shardings_of(root))
    module = root.computation.module
    free = module.config.propagate_sharding_to_output
    flags = free if len(free) == len(found) else (free[:1] or (False,)) * len(found)
    parts = root.operands if root.is_a("tuple") and len(root.operands) == len(found) else [root]
    for number, part in enumerate(parts):
        if flags[number] and _leaves_region_open(part):
            found[number] = None
    if meshes_of(module):
        return found
    return [
        LeafSharding("replicated") if sharding is None and not flag else sharding
        for sharding, flag in zip(found, flags, strict=True)
    ]


def _leaves_region_open(inst: Instruction) -> bool:
    """True for an array that leaves a manual region with an open dimension."""
    leaves_region = target_of(inst) in TO_GLOBAL and isinstance(inst.shape, ArrayShape)
    mesh = Mesh((partitions_of(inst.computation.module),))
    return leaves_region and any(start.open_dims for start in annotations_of(inst, mesh))


def _drop(module: Module, computation: Computation) -> None:
    """Remove an uncalled computation, and those that only it calls."""
    waiting = [computation]
    while waiting:
        gone = waiting.pop()
        called = {c: None for inst in gone.instructions for c in inst.called}
        module.remove_computation(gone)
        waiting += [c for c in called if not c.callers and c in module.computations]
