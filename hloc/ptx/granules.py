"""The smallest access of a kernel, which is the granularity of race detection."""

from __future__ import annotations

from collections.abc import Iterable

from hloc.ptx.program import Immediate, Instruction, Vector
from hloc.ptx.value_types import TYPES

_SPACES = ("shared", "global")


def granules_of(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Return the bytes of the smallest access to each space; 16 at most."""
    smallest = dict.fromkeys(_SPACES, 16)
    for instruction in instructions:
        size = _access_bytes(instruction)
        if size is None:
            continue
        named = {part.partition("::")[0] for part in instruction.parts}
        for space in _SPACES:
            if space in named or not named & {*_SPACES, "local", "param", "const"}:
                smallest[space] = min(smallest[space], size)
    return smallest


def _access_bytes(instruction: Instruction) -> int | None:
    opcode = instruction.parts[0]
    if opcode in ("ld", "ldu", "st"):
        data = instruction.operands[0 if opcode != "st" else 1]
        count = len(data.items) if isinstance(data, Vector) else 1
        return TYPES[instruction.parts[-1]].size * count
    if opcode in ("atom", "red"):
        return TYPES[instruction.parts[-1]].size
    if opcode == "cp" and len(instruction.operands) > 2:
        size = instruction.operands[2]
        return 1 if not isinstance(size, Immediate) else min(size.value, 16)
    if opcode == "mbarrier":
        return 8
    return None
