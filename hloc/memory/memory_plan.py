"""Choose the schedule and buffer assignment of a lowered module together.

Schedules are compared by an estimate; for a small module, whole buffer assignments are compared,
which account for gaps, alignment and temporaries placed in outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloc.analysis.memory_peak import no_scratch
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.memory.assigned_buffers import BufferAssignment
from hloc.memory.buffer_assignment import assign_buffers
from hloc.memory.heap import PackFunction, pack
from hloc.memory.schedule import Schedule, schedules

_LITTLE_BYTES = 4096
"""An arena of at most this size is not worth a search for a smaller one."""

_FEW_INSTRUCTIONS = 1500
"""Up to this many instructions, several assignments take less time than code generation."""


def plan_memory(
    module: Module,
    scratch_bytes: Callable[[Instruction], int] = no_scratch,
    pack: PackFunction = pack,
    *,
    share_outputs: bool = True,
) -> tuple[Schedule, BufferAssignment]:
    """Return the schedule and assignment with the least memory for temporaries.

    Args:
        module: after `flatten-call-graph` and `copy-insertion`; not changed.
        scratch_bytes: scratch bytes that an instruction needs while it runs.
        pack: places temporaries in the arena.
        share_outputs: temporaries may lie in outputs that are not written yet.
    """
    best: tuple[Schedule, BufferAssignment] | None = None
    for schedule in _schedules(module, scratch_bytes):
        found = assign_buffers(module, schedule, scratch_bytes, pack, share_outputs=share_outputs)
        if best is None or _cost(found) < _cost(best[1]):
            best = schedule, found
        is_small = found.arena_bytes <= _LITTLE_BYTES
        if is_small and all(alias.is_shared for alias in found.aliases):
            break
    assert best is not None
    return best


def _cost(assignment: BufferAssignment) -> tuple[int, int]:
    """Return the bytes of outputs and of the arena; an output in a parameter's memory is free."""
    return assignment.report.output_bytes, assignment.arena_bytes


def _schedules(module: Module, scratch_bytes: Callable[[Instruction], int]) -> Sequence[Schedule]:
    """Return different schedules; the first is the best by the estimate."""
    found = schedules(module, scratch_bytes)
    return found if module.instruction_count <= _FEW_INSTRUCTIONS else found[:1]
