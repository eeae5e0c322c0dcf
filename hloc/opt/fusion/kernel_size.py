"""Threads and launches of a GPU kernel, by the member that determines its loops."""

from __future__ import annotations

from hloc.analysis.cost import elements_of
from hloc.ir.instruction import Instruction

_NEIGHBOURS_PER_THREAD = 4
_FEW_ELEMENTS = 1 << 16
"""Up to this many elements each gets its own thread."""

_REDUCED_PER_THREAD = 8
_FEWEST_PER_ROW = 8
_FEW_ROWS, _LONG_ROW = 256, 4096
"""Most results, and fewest elements of each, of a reduction in two launches."""


def thread_count(root: Instruction) -> float:
    """Return the threads of the largest launch, roughly."""
    if root.opcode.name == "reduce":
        count = elements_of(root.operands[0].shape)
        least = min(count, _FEWEST_PER_ROW * elements_of(root.shape))
        return max(count / _REDUCED_PER_THREAD, least, 1.0)
    elements = elements_of(root.shape)
    return max(elements / (_NEIGHBOURS_PER_THREAD if elements > _FEW_ELEMENTS else 1), 1.0)


def launch_count(root: Instruction) -> int:
    """Return how many functions run one after another: two for a long reduction."""
    if root.opcode.name != "reduce":
        return 1
    results = elements_of(root.shape)
    length = elements_of(root.operands[0].shape) / max(results, 1)
    return 2 if results < _FEW_ROWS and length >= _LONG_ROW else 1


def reads_per_element(user: Instruction, place: int) -> float:
    """Return how many elements of operand `place` one element of `user` needs, on average."""
    name, operand = user.opcode.name, user.operands[place]
    if name in ("concatenate", "pad"):
        return elements_of(operand.shape) / max(elements_of(user.shape), 1)
    if name == "gather" and place == 1:
        return max(1, len(user.attributes.start_index_map))
    return 1.0
