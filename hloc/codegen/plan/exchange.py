"""Exchanges: collectives as the engine that runs them sees them, as frozen data.

Group modes, shapes and reducers are resolved here, once; an engine (`hloc/runtime/communicator/`)
sees ordered lists of devices, bytes, and functions that combine them. Generated code calls

    i32 exchange(state, i64 number, ptr *arrays)

through the state of its device, to which `DEVICE_SLOT` of the pointer table points; a nonzero
result ends the run. `arrays` are the operands, then the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hloc.lazy_dataclass import dataclass

MOST_COMBINED = 4096
"""Most elements in one call of a combiner."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """An array in memory as an exchange cuts it: `outer` times `count` pieces of `inner_bytes`.

    Attributes:
        dtype: name of the element type.
        count: members of the group along the dimension that is cut or concatenated, else 1.
    """

    dtype: str
    outer: int
    count: int
    inner_bytes: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole array."""
        return self.outer * self.count * self.inner_bytes


@dataclass(frozen=True, slots=True)
class Combiner:
    """A compiled reduction, `void symbol(ptr *arrays, i64 count)`.

    `arrays` are `members` inputs in the order of the ranks, then the result, which may not overlap
    them; `count` elements, at most `MOST_COMBINED`.

    Attributes:
        operand: which operand of the exchange it is for.
        kernel: its number in the plan.
    """

    operand: int
    members: int
    kernel: int

    @property
    def symbol(self) -> str:
        """The function's name."""
        return combiner_symbol(self.kernel)


def combiner_symbol(kernel: int) -> str:
    """Return the name of the function of a combiner."""
    return f"hloc_combine_{kernel}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective of a program.

    Attributes:
        opcode: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `collective-permute`,
            `collective-broadcast` or `ragged-all-to-all`; never an async start. `send` has one
            operand and does not wait; `recv` has one result and stands for a `recv-done`.
        name, place: of the instruction, and `file:line:column`, "" if unknown; for messages.
        groups: flattened device ids (replica * partitions + partition) by rank. A device that is in
            no group gets zeros at once.
        channel: opcode, group and channel are the key of a rendezvous, so devices in different
            branches of a conditional may join one rendezvous from different instructions.
        meaning: text that must be equal for all instructions of a rendezvous.
        pairs: of a collective-permute, `send` or `recv`: the devices that send and receive.
        operands, results: array leaves; result i belongs to operand i, except that a ragged
            all-to-all has one result, which starts as a copy of operand 1.
        reducer: opcode of a reducer of two parameters, `add`; "" if it is anything else.
        combiners: per operand and size of group.
        may_diverge: devices may run it unequally often (`analysis/divergence.py`).
    """

    opcode: str
    name: str
    place: str
    groups: tuple[tuple[int, ...], ...]
    channel: int | None = None
    meaning: str = ""
    pairs: tuple[tuple[int, int], ...] = ()
    operands: tuple[Pieces, ...] = ()
    results: tuple[Pieces, ...] = ()
    reducer: str = ""
    combiners: tuple[Combiner, ...] = ()
    may_diverge: bool = False

    def with_kernels(self, numbers: Sequence[int]) -> Exchange:
        """Return the exchange whose combiners are the kernels `numbers`, one for each."""
        pairs = zip(self.combiners, numbers, strict=True)
        return replace(self, combiners=tuple(replace(c, kernel=n) for c, n in pairs))
