"""Instructions that are partitioned in ways of their own, by opcode.

A function returns None where the general way is no worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloc.ir.instruction import Instruction
from hloc.opt.spmd.region import Region, Value
from hloc.opt.spmd.tiling import Tiling

Family = Callable[[Region, Instruction, Sequence[Value], "Tiling | None"], "Value | None"]

FAMILIES: dict[str, Family] = {}
