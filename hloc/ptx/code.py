"""A kernel ready to run: blocks of operations and their terminators."""

from __future__ import annotations

from collections.abc import Mapping

from hloc.lazy_dataclass import dataclass
from hloc.ptx.frame import RowTable
from hloc.ptx.operation import AddressReader, Operation
from hloc.ptx.product_registers import Accesses
from hloc.ptx.program import Instruction, PtxKernel


@dataclass(frozen=True, slots=True)
class Fall:
    """Continue with the next block."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Branch to `target` where the predicate holds (always if `row` is None), else fall through."""

    target: int
    row: int | None
    negated: bool


@dataclass(frozen=True, slots=True)
class IndexedBranch:
    """brx.idx: branch to the target whose index is in a row."""

    targets: tuple[int, ...]
    index: int
    row: int | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Ret or exit, where the predicate holds. `whole` ends the thread, else the function."""

    whole: bool
    row: int | None
    negated: bool


@dataclass(frozen=True, slots=True)
class Call:
    """Call a function: its first block, and the copies of arguments and of results."""

    target: int
    before: Operation
    after: Operation
    row: int | None
    negated: bool


@dataclass(frozen=True, slots=True)
class WarpCollective:
    """An instruction that waits for the lanes of `mask` (None: for `group` adjacent lanes)."""

    operation: Operation
    mask: int | None
    row: int | None
    negated: bool
    group: int = 32


@dataclass(frozen=True, slots=True)
class BlockBarrier:
    """A barrier of the block; `arrive` does not wait; `reduction` combines a predicate."""

    number: int  # row
    expected: int | None  # row; None: all threads of the block
    arrive: bool
    aligned: bool
    row: int | None
    negated: bool
    reduction: str = ""
    reduced: tuple[int, bool] = (0, False)
    target: int = 0


@dataclass(frozen=True, slots=True)
class PhaseWait:
    """mbarrier.try_wait: lanes wait here until their phase is over, then `target` is true.

    `phase` is the row of a token of 64 bits, or of a parity.
    """

    address: AddressReader
    phase: int
    by_parity: bool
    target: int
    row: int | None
    negated: bool


End = PhaseWait | Fall | Branch | IndexedBranch | Leave | Call | WarpCollective | BlockBarrier


@dataclass(frozen=True, slots=True)
class Block:
    """Operations without a jump between them, and a terminator.

    `instructions` has one entry per operation, then that of the terminator if it has one;
    `accesses` are those of all of them to registers of wgmma products.
    """

    operations: tuple[Operation, ...]
    instructions: tuple[Instruction, ...]
    end: End
    accesses: Accesses = ()


@dataclass(frozen=True, eq=False)
class Code:
    """All blocks of a kernel and of its callees; execution starts at block 0.

    `granules` is the smallest access to shared and to global memory, in bytes; `is_asynchronous`
    says whether bulk copies or wgmma access shared memory.
    """

    kernel: PtxKernel
    blocks: tuple[Block, ...]
    table: RowTable
    parameters: Mapping[str, int]  # name -> offset in the bytes of the arguments
    parameter_bytes: int
    local_offsets: Mapping[str, int]
    local_bytes: int
    has_collectives: bool
    granules: Mapping[str, int]
    is_asynchronous: bool
