"""The data of a compiled module that an executable needs beside its machine code.

Plain values, no IR and no LLVM, so that they can be stored in a file (`runtime/program_cache.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloc.codegen.backend import PlannedModule
from hloc.codegen.lower.hidden_sizes import DynamicBoundary
from hloc.codegen.plan.exchange import Exchange
from hloc.codegen.plan.pointer_table import TableLayout
from hloc.dtypes import Array
from hloc.ir.device_groups import module_devices
from hloc.ir.sharded_signature import is_partitioned
from hloc.lazy_dataclass import dataclass
from hloc.memory.allocation import AliasedOutput, BufferReport, NamedLeaf
from hloc.shapes import ArrayShape

if TYPE_CHECKING:
    from hloc.codegen.cpu.backend import CpuModule


@dataclass(frozen=True, slots=True, eq=False)
class ProgramManifest:
    """The boundary and the memory of a compiled module.

    Attributes:
        parameters: array leaves, hidden ones (`boundary`) last.
        outputs: array leaves of the result, hidden ones last.
        constants: data in memory order, by slot of the table.
        table: layout of the pointer table.
        arena_bytes: memory for temporaries.
        report: memory by kind, for users and for limits.
        boundary: hidden parameters and results after the declared ones.
        aliases: outputs that may alias parameters.
        loop_matrices: slots and bytes of the parameters that should begin at a cache line.
        is_split: threads can share the kernels.
        worker_bytes: scratch memory of each thread but the caller's.
        replicas, partitions: number of each.
        exchanges: exchanges between the devices, by number in the code.
        tells_devices: it exchanges data, its result depends on the number of the device, or its
            arguments are sharded.
    """

    parameters: tuple[NamedLeaf, ...]
    outputs: tuple[ArrayShape, ...]
    constants: tuple[Array, ...]
    table: TableLayout
    arena_bytes: int
    report: BufferReport
    boundary: DynamicBoundary
    aliases: tuple[AliasedOutput, ...]
    loop_matrices: tuple[tuple[int, int], ...]
    is_split: bool
    worker_bytes: int
    replicas: int = 1
    partitions: int = 1
    exchanges: tuple[Exchange, ...] = ()
    tells_devices: bool = False

    @property
    def devices(self) -> int:
        """The number of devices that run it together."""
        return self.replicas * self.partitions

    @property
    def combiners(self) -> tuple[str, ...]:
        """The symbols of the compiled reductions of its exchanges."""
        return tuple(sorted({c.symbol for e in self.exchanges for c in e.combiners}))


def manifest_of(compiled: CpuModule) -> ProgramManifest:
    """Return the manifest of a module that was just compiled."""
    return planned_manifest(
        compiled, is_split=compiled.is_split, worker_bytes=compiled.worker_bytes
    )


def planned_manifest(
    compiled: PlannedModule, *, is_split: bool = False, worker_bytes: int = 0
) -> ProgramManifest:
    """Return the manifest of a module of any backend; one thread runs it unless it `is_split`."""
    from hloc.codegen.plan.loop_matrices import loop_matrices
    from hloc.memory.assigned_buffers import parameter_leaves

    plan, devices = compiled.plan, module_devices(compiled.module)
    assignment = plan.assignment
    return ProgramManifest(
        parameters=parameter_leaves(compiled.module),
        outputs=assignment.outputs,
        constants=tuple(constant.in_memory for constant in assignment.constants),
        table=plan.table,
        arena_bytes=assignment.arena_bytes,
        report=assignment.report,
        boundary=compiled.boundary,
        aliases=assignment.aliases,
        loop_matrices=loop_matrices(plan),
        is_split=is_split,
        worker_bytes=worker_bytes,
        replicas=devices.replicas,
        partitions=devices.partitions,
        exchanges=plan.exchanges,
        tells_devices=plan.tells_devices or is_partitioned(compiled.module),
    )
